"""The page about clusters is so: a cluster is started as it says, and gives the same rows."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.settings import FIXED, JAVA_OF_EXECUTORS
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.targets import RESOURCES
from odfbuild.state.workspace import Workspace
from tests.executors.engine.spark.connect.server import CLIENT
from tests.executors.engine.spark.standalone import needs_executors
from tests.pages.test_readme import commands, pattern
from tests.support.projects import REPOSITORY, environment
from tests.support.servers.object_store import free_ports

PAGE = (REPOSITORY / "docs" / "clusters.md").read_text("utf-8")
TUTORIAL = "## A standalone cluster in ten minutes"
SERVER = "## A server of Spark Connect in ten minutes"
APART = "## A cluster without a shared folder in ten minutes"
PATIENCE = 3_600  # seconds; the machines of tests are busy
_MARK = "=== output of"


def test_the_settings_that_the_page_names_are_those_that_a_project_may_give() -> None:
    section = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(spark\.[\w.*]+)`", section))
    families = {name for name in named if name.endswith(".*")}
    several = {each for each in RESOURCES if any(each.startswith(f[:-1]) for f in families)}
    assert named - families | several == set(RESOURCES)
    assert not named & FIXED


def rows(workspace: Path, name: str) -> pa.Table:
    """Return the rows of a dataset, but for the time of the run."""
    found = Workspace(workspace).open(DatasetAlias.parse(name))
    assert found is not None
    tables = [pq.read_table(path) for _, path in found.slices()]
    return pa.concat_tables(each.drop_columns(["system_time"]) for each in tables)


@pytest.mark.spark
@pytest.mark.slow
@needs_executors
def test_the_tutorial_of_a_standalone_cluster_is_so(tmp_path: Path) -> None:
    followed(TUTORIAL, tmp_path, {"7077": str(one_free_port())})
    for name, count in (("sales", 3), ("dearest", 2)):
        on_cluster = rows(tmp_path / "shop" / "shared", name)
        assert on_cluster.num_rows == count
        assert on_cluster.equals(rows(tmp_path / "shop" / ".odfbuild", name))
    assert list((tmp_path / "work").glob("app-*"))  # it was the worker that ran it


@pytest.mark.spark
@pytest.mark.slow
@needs_executors
def test_the_tutorial_of_a_server_of_spark_connect_is_so(tmp_path: Path) -> None:
    followed(SERVER, tmp_path, {"15002": str(one_free_port())})
    for name, count in (("sales", 3), ("dearest", 2)):
        on_server = rows(tmp_path / "shop" / "remote", name)
        assert on_server.num_rows == count
        assert on_server.equals(rows(tmp_path / "shop" / ".odfbuild", name))


def test_the_options_of_java_that_the_page_has_are_those_that_are_checked() -> None:
    section = PAGE.partition(SERVER)[2].partition("\n## ")[0]
    options = re.findall(r"^spark\.(?:driver|executor)\.extraJavaOptions (.+)$", section, re.M)
    assert options == [JAVA_OF_EXECUTORS] * 2


@pytest.mark.spark
@pytest.mark.slow
@needs_executors
@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_the_tutorial_of_a_cluster_without_a_shared_folder_is_so(tmp_path: Path) -> None:
    """The worker of the test sees the folder of the project empty, as another machine does."""
    ports = dict(zip(("8333", "9333", "8080", "8888"), map(str, free_ports(4)), strict=True))
    worker = '"$SPARK_HOME"/bin/spark-class org.apache.spark.deploy.worker.Worker'
    assert worker in PAGE
    mask = """unshare -m /bin/sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$PWD/shop" """
    changed = {"7077": str(one_free_port()), **ports, worker: f"{mask}{worker}"}
    followed(APART, tmp_path, changed)
    for name, count in (("sales", 2_000_000), ("dearest", 5)):
        on_cluster = rows(tmp_path / "shop" / "apart", name)
        assert on_cluster.num_rows == count
        assert on_cluster.equals(rows(tmp_path / "shop" / ".odfbuild", name))
    assert list((tmp_path / "work").glob("app-*"))


def one_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def followed(heading: str, folder: Path, changed: Mapping[str, str]) -> None:
    """Run the commands of a section in one shell, as they share variables and what runs behind.

    `changed` are texts of the page that are others here: ports.
    """
    section = heading + PAGE.partition(heading)[2].partition("\n## ")[0]
    shown = list(commands(section, heading))
    script = "\n".join(f"{step.command}\necho '{_MARK} {at}'" for at, step in enumerate(shown))
    for old, new in changed.items():
        script = script.replace(old, new)
    home = {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home" / ".config")}
    process = subprocess.Popen(
        ["/bin/sh", "-e", "-c", script],
        cwd=folder,
        env=environment(
            **home, PYTHONPATH=f"{REPOSITORY}:{CLIENT}", JAVA_HOME=str(find_java().home)
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out + err
    told = re.split(rf"{_MARK} \d+\n", out)
    for step, said in zip(shown, told, strict=False):
        if step.output:
            assert pattern(step.output).fullmatch(said), said
