"""A server whose machines see no folder of ours: its executors exchange files by way of a store."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.frames import from_files
from odfbuild.executors.engine.spark.settings import JAVA_OF_EXECUTORS, StepSize
from tests.executors.engine.spark.connect.server import CLIENT, connect_server
from tests.executors.engine.spark.connect.test_steps import lay
from tests.executors.engine.spark.standalone import needs_executors, standalone
from tests.support.projects import REPOSITORY
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    needs_executors,
    pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own"),
]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("projects")


@pytest.fixture(scope="module")
def apart(
    projects: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ObjectServer]]:
    """Yield the address of a server, which sees a folder empty, as its two workers do; a store."""
    with pytest.MonkeyPatch.context() as patch, serving_objects() as store:
        for name, value in {**CREDENTIALS, "PYSPARK_PYTHON": sys.executable}.items():
            patch.setenv(name, value)  # of the server and the workers, which are started with them
        with standalone(tmp_path_factory.mktemp("machines")) as machines:
            for host in ("127.0.0.1", "127.0.0.2"):
                machines.add_worker(host=host, masked=projects)
            settings = {
                "spark.master": machines.address,
                "spark.executor.memory": "1g",
                "spark.executor.extraJavaOptions": JAVA_OF_EXECUTORS,
            }
            folder = tmp_path_factory.mktemp("server")
            with connect_server(folder, settings=settings, masked=projects) as server:
                yield server.address, store


def built(folder: Path, master: str, *given: str) -> Any:
    """Build in a process of its own, and return what the chains hold."""
    module = "tests.executors.engine.spark.building"
    run = subprocess.run(
        [sys.executable, "-P", "-m", module, master, str(lay(folder)), *given],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{CLIENT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("home", ["folder", "store"])
def test_slices_are_those_of_this_machine(
    apart: tuple[str, ObjectServer], projects: Path, home: str, token_file: Path
) -> None:
    """Also of a workspace in the store, whose slices executors read there."""
    assert token_file.exists()
    master, store = apart
    given = [store.url("home")] if home == "store" else []
    alone = built(projects / f"alone-{home}", "local[1]")
    assert (len(alone["src"]), len(alone["out"])) == (3, 1)
    found = built(projects / f"there-{home}", master, store.url(f"files-{home}"), *given)
    assert found == alone
    left = [each["path"] for page in obstore.list(store.store(f"files-{home}")) for each in page]
    assert bool(left) == (home == "folder")
    assert all("files/f1620" in each for each in left)


WRONG = {
    "cluster-store": {"PYSPARK_PYTHON": sys.executable},  # and no keys of the store
    "cluster-mismatch": {"PYSPARK_PYTHON": "/no/such/python", **CREDENTIALS},
}


@pytest.mark.parametrize("code", WRONG)
def test_a_server_whose_tasks_do_not_reach_the_store_is_refused(
    code: str, running_store: ObjectServer, tmp_path: Path, token_file: Path
) -> None:
    assert token_file.exists()
    with pytest.MonkeyPatch.context() as patch:
        for name in CREDENTIALS:
            patch.delenv(name, raising=False)
        for name, value in WRONG[code].items():
            patch.setenv(name, value)
        with connect_server(tmp_path / "server") as server:
            for name, value in CREDENTIALS.items():
                patch.setenv(name, value)
            objects = running_store.url(f"files-{tmp_path.name}")
            with (
                SparkEngine(tmp_path / "cache", master=server.address, objects=objects) as engine,
                pytest.raises(OdfBuildError) as caught,
            ):
                engine._sessions.session(StepSize.SMALL)
    assert caught.value.code == code, caught.value
    assert running_store.files(f"files-{tmp_path.name}") == {}


def test_bytes_that_are_not_those_that_were_stored_are_refused_by_tasks(
    running_store: ObjectServer, tmp_path: Path, token_file: Path
) -> None:
    assert token_file.exists()
    prefix = f"files-{tmp_path.name}"
    path = tmp_path / "rows.parquet"
    table = pa.table({"k": pa.array(range(1_000), pa.int64())})
    pq.write_table(table, path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**CREDENTIALS, "PYSPARK_PYTHON": sys.executable}.items():
            patch.setenv(name, value)
        objects = running_store.url(prefix)
        with (
            connect_server(tmp_path / "server") as server,
            SparkEngine(tmp_path / "cache", master=server.address, objects=objects) as engine,
        ):
            rows = from_files(engine._sessions.session(StepSize.BIG), [path], table.schema)
            assert rows.toArrow() == table
            (key,) = running_store.files(prefix)
            running_store.store(prefix).put(key, bytes(path.stat().st_size))
            with pytest.raises(ClusterObjectError, match="has other bytes"), spark_errors("read"):
                rows.toArrow()
        assert list((tmp_path / "cache").rglob("*.zip")) == []
