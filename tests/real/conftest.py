"""The example on real data, built twice: all at once, and in the portions in which it came."""

from collections.abc import Iterator

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.real.building import (
    AIRLINE_FILES,
    DATA,
    FILES_OF_DECLARATIONS,
    NATIONAL_FILES,
    REGION_FILES,
    REPAIRED_FILE,
    Building,
)

_DECLARED_AT = (0, 4, 7, 10, 13, 16, 19, 22)  # in which apply each declaration comes
_AIRLINES_AT = (0, 8, 14, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: all need a JVM, and all the real data."""
    missing = pytest.mark.skipif(not DATA.is_dir(), reason="ODFBUILD_EXAMPLE_DATA names no folder")
    for item in items:
        if item.path.parent.name == "real":
            item.add_marker(pytest.mark.spark)
            item.add_marker(missing)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Keep one JVM running: the engine of each command joins it."""
    with SparkEngine(tmp_path_factory.mktemp("jvm")) as engine:
        engine.prepare()
        yield engine


@pytest.fixture(scope="session")
def whole(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Building:
    """All files are there from the start; each refused one is answered by the next declaration."""
    building = Building.of_example(tmp_path_factory.mktemp("whole") / "project")
    building.link_everything()
    for number in range(len(FILES_OF_DECLARATIONS)):
        building.declare(number)
        building.apply()
    return building


@pytest.fixture(scope="session")
def portions(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Building:
    """National revisions come one by one, and some files of the others with them."""
    building = Building.of_example(tmp_path_factory.mktemp("portions") / "project")
    building.feed(REPAIRED_FILE)
    regions = iter(REGION_FILES)
    for at, revision in enumerate(NATIONAL_FILES):
        building.feed(revision)
        if at in _AIRLINES_AT:
            building.feed(AIRLINE_FILES[_AIRLINES_AT.index(at)])
        if at in _DECLARED_AT:
            number = _DECLARED_AT.index(at)
            building.declare(number)
            building.feed(*(next(regions) for _ in range(FILES_OF_DECLARATIONS[number])))
        building.apply()
    return building
