"""One engine for all tests of this folder, because a JVM takes seconds to start."""

from collections.abc import Iterator

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture(params=["in memory", "through files"])
def either_way(
    engine: SparkEngine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> SparkEngine:
    """Return the engine as it works for few rows, and as it works for many."""
    if request.param == "through files":
        monkeypatch.setattr(engine, "_limit", -1)
    return engine
