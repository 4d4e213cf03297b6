"""One engine for all tests of this folder, because a JVM takes seconds to start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odfbuild.executors.engine.objects.leftovers import kept_jobs
from odfbuild.executors.engine.spark.cluster.providers import OBJECTS
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from tests.support.servers.object_store import ObjectServer, serving_simulated_objects


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectServer]:
    with serving_simulated_objects() as server:
        yield server


@pytest.fixture
def objects(
    engine: SparkEngine,
    store: ObjectServer,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Give the files of large steps to tasks as objects, as on a cluster without a folder.

    Yields the prefix of the store, which no other test has.
    """
    url = store.url(f"objects-{abs(hash(request.node.nodeid))}")
    with _objects_in(engine, store, url, monkeypatch):
        yield url


@pytest.fixture(params=["azure_store", "google_store"])
def other_objects(
    engine: SparkEngine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Give them to tasks by a store that is not one of S3; yields what lists its prefix."""
    server: ObjectServer = request.getfixturevalue(request.param)
    prefix = f"objects-{abs(hash(request.node.nodeid))}"
    with _objects_in(engine, server, server.url(prefix), monkeypatch):
        yield server.store(prefix)


@contextmanager
def _objects_in(
    engine: SparkEngine, server: ObjectServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    session = engine._sessions.session(StepSize.BIG)
    for name, value in server.credentials.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(session.sparkContext.environment, name, value)  # of tasks
    session.conf.set(OBJECTS, url)
    yield
    session.conf.unset(OBJECTS)
    gc.collect()  # objects of jobs are deleted with what uses them, by the credentials of the test
    assert not kept_jobs()


@pytest.fixture(
    params=[
        "in memory",
        "through files",
        pytest.param("through objects", marks=pytest.mark.slow),
    ]
)
def either_way(
    engine: SparkEngine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> SparkEngine:
    """Return the engine as it works for few rows, and as it works for many."""
    if request.param != "in memory":
        monkeypatch.setattr(engine, "_limit", -1)
    if request.param == "through objects":
        request.getfixturevalue("objects")
    return engine
