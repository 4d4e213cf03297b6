"""The page about clusters is so: a cluster is started as it says, and gives the same rows."""

import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.settings import FIXED
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.targets import RESOURCES
from odfbuild.state.workspace import Workspace
from tests.pages.test_readme import commands, pattern
from tests.support.projects import REPOSITORY, environment

PAGE = (REPOSITORY / "docs" / "clusters.md").read_text("utf-8")
TUTORIAL = "## A standalone cluster in ten minutes"
PATIENCE = 900  # seconds
_MARK = "=== output of"


def test_the_settings_that_the_page_names_are_those_that_a_project_may_give() -> None:
    section = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(spark\.[\w.*]+)`", section))
    families = {name for name in named if name.endswith(".*")}
    several = {each for each in RESOURCES if any(each.startswith(f[:-1]) for f in families)}
    assert named - families | several == set(RESOURCES)
    assert not named & FIXED


def rows(workspace: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a dataset, but for the time of the run."""
    found = Workspace(workspace).open(DatasetAlias.parse(name))
    assert found is not None
    tables = [pq.read_table(path) for _, path in found.slices()]
    return [row for each in tables for row in each.drop_columns(["system_time"]).to_pylist()]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(
    not find_java().has_vector_module,
    reason="Spark starts executors with a module that this Java lacks",
)
def test_the_tutorial_of_a_standalone_cluster_is_so(tmp_path: Path) -> None:
    """All commands run in one shell, as they share variables and what runs in the background."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shown = list(commands(PAGE, TUTORIAL))
    script = "\n".join(f"{step.command}\necho '{_MARK} {at}'" for at, step in enumerate(shown))
    home = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config")}
    process = subprocess.Popen(
        ["/bin/sh", "-e", "-c", script.replace("7077", port)],
        cwd=tmp_path,
        env=environment(**home, PYTHONPATH=str(REPOSITORY), JAVA_HOME=str(find_java().home)),
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
    for name, count in (("sales", 3), ("dearest", 2)):
        on_cluster = rows(tmp_path / "shop" / "shared", name)
        assert len(on_cluster) == count
        assert on_cluster == rows(tmp_path / "shop" / ".odfbuild", name)
    assert list((tmp_path / "work").glob("app-*"))  # it was the worker that ran it
