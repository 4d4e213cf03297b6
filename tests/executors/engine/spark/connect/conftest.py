"""The engine of these tests: on a server of Spark Connect, which all of them share."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odfbuild.executors.engine.spark.cluster.properties import VARIABLE
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from tests.executors.engine.spark.connect.server import (
    CLIENT,
    ConnectServer,
    connect_server,
    properties_text,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


if str(CLIENT) not in sys.path:
    sys.path.append(str(CLIENT))


@pytest.fixture(scope="session")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have a file of properties with the token."""
    path = tmp_path_factory.mktemp("settings") / "spark-cluster.conf"
    path.write_text(properties_text(), "utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module", autouse=True)
def environment(token_file: Path) -> Iterator[None]:
    """Let the environment name that file while tests of this folder run, and no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(token_file))
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="session")
def remote(
    server: ConnectServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("remote"), master=server.address) as engine:
        yield engine


@pytest.fixture
def session(remote: SparkEngine) -> "SparkSession":
    return remote._sessions.session(StepSize.SMALL)
