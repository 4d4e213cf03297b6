"""One engine for all tests of this folder that a process runs: a JVM takes seconds to start."""

from collections.abc import Iterator

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine
