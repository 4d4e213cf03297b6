"""One engine for all attacks, because a JVM takes seconds to start; secrets that none may find."""

from collections.abc import Iterator

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.hostile import CANARY, CANARY_NAME


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Yield an engine whose environment has a secret in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY_NAME, CANARY)
        with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
            yield engine
