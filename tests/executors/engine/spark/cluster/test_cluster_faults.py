"""Faults of a cluster, through the command line: each ends with a name, and with a head of before.

A cluster without a worker, workers that are killed, machines that do not see the folder, another
Python there, an interrupt, and several commands that want all cores at once.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.executors.engine.spark.standalone import Standalone, needs_executors, standalone
from tests.support.projects import environment
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    needs_executors,
]

Rows = list[dict[str, Any]]

PATIENCE = 600.0  # seconds; the machines of tests are busy
QUICK = "select max(t) as event_time, k, max(v) as v from src group by k"
_INNER = "aggregate(sequence(1, 10000), 0L, (b, y) -> b + y * x % 7)"
_OUTER = f"aggregate(sequence(1, 10000), 0L, (a, x) -> a + {_INNER})"
ENDLESS = f"select max(t) as event_time, k, max({_OUTER} + v) as v from src group by k"
SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: ["t TIMESTAMP", "k STRING NOT NULL", "v BIGINT"]}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: t}
"""
DERIVED = """\
kind: DatasetSnapshot
version: 1
content:
  name: out
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: src, alias: src}}]
      transform:
        kind: Sql
        engine: spark
        query: "{query}"
"""


class Project:
    """A project whose one source goes through one query, on a cluster or here."""

    def __init__(self, folder: Path, master: str, query: str = QUICK, **spark: Any) -> None:
        self.folder = folder
        for name in ("data", "datasets"):
            (folder / name).mkdir(parents=True)
        options = {"master": master, "memory": "1g", "resident": "off", **spark}
        settings = {"odfbuild": 1, "name": "ours", "engine": {"spark": options}}
        (folder / "odfbuild.yaml").write_text(json.dumps(settings), "utf-8")
        rows = [f"2024-01-01 00:00:{at % 60:02},k{at % 20},{at}" for at in range(200)]
        (folder / "data" / "1.csv").write_text("\n".join(["t,k,v", *rows, ""]), "utf-8")
        (folder / "datasets" / "src.yaml").write_text(SOURCE, "utf-8")
        self.ask(query)
        self._policy = folder.with_name(f"{folder.name}-policy.yaml")
        policy = 'odfbuild_policy: 1\nmasters: ["spark://*", local]\nstores: ["s3+http://127.*"]\n'
        self._policy.write_text(policy, "utf-8")

    def ask(self, query: str) -> None:
        """Let the derivative have this query."""
        text = DERIVED.format(query=query)
        (self.folder / "datasets" / "out.yaml").write_text(text, "utf-8")

    def start(self, **env: str) -> "subprocess.Popen[str]":
        """Begin to apply."""
        settings = str(self.folder.with_name("settings"))
        more = {"ODFBUILD_POLICY": str(self._policy), "XDG_CONFIG_HOME": settings, **env}
        return subprocess.Popen(
            [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"],
            cwd=self.folder,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def apply(self, **env: str) -> tuple[int, str]:
        """Apply; return the exit code and what was said."""
        return ended(self.start(**env))

    def rows(self, name: str) -> Rows:
        return rows_of(self.folder, name)


def rows_of(project: Path, name: str) -> Rows:
    """Return the rows of a dataset, but for the time of the run; none where it has no head."""
    root = project / ".odfbuild"
    found = Workspace(root).open(DatasetAlias.parse(name)) if root.exists() else None
    if found is None:
        return []
    return [
        row
        for _, path in found.slices()
        for row in pq.read_table(path).drop_columns(["system_time"]).to_pylist()
    ]


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def wait_until(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.5)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Standalone]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with standalone(folder) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Return what the query gives on this machine."""
    here = Project(tmp_path_factory.mktemp("alone") / "here", "local")
    code, said = here.apply()
    assert code == 0, said
    return here.rows("out")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """Serve objects to this process and to the workers that it starts."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with serving_objects() as server:
        yield server


@pytest.mark.parametrize("objects", [False, True], ids=["folder", "store"])
def test_killed_workers_leave_the_old_head_and_the_next_apply_gives_the_same_rows(
    running: Standalone, bucket: ObjectServer, tmp_path: Path, alone: Rows, objects: bool
) -> None:
    running.add_worker()
    more = {"objects": bucket.url("files")} if objects else {}
    ours = Project(tmp_path / "ours", running.address, ENDLESS, wait="15s", **more)
    applying = ours.start()
    wait_until(lambda: bool(ours.rows("src")) or applying.poll() is not None)
    time.sleep(20)
    running.kill_workers()
    code, said = ended(applying)
    assert code != 0
    assert "cluster-lost" in said, said
    assert ours.rows("out") == []
    code, said = ours.apply()  # and a cluster that has no worker at all
    assert (code != 0, ours.rows("out")) == (True, [])
    assert "cluster-lost" in said, said
    running.add_worker()
    ours.ask(QUICK)
    code, said = ours.apply()
    assert code == 0, said
    assert ours.rows("out") == alone


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_executors_that_do_not_reach_the_store_are_refused_before_anything_is_written(
    running: Standalone, bucket: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Project(tmp_path / "ours", running.address, objects=bucket.url("files"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    running.add_worker(masked=ours.folder)
    code, said = ours.apply(**CREDENTIALS)
    assert code != 0
    assert "cluster-store" in said, said
    assert "refuses the request" in said
    assert "s3cr3t" not in said
    assert ours.rows("src") == ours.rows("out") == []
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    running.kill_workers()
    running.add_worker(masked=ours.folder)
    code, said = ours.apply()
    assert code == 0, said
    assert ours.rows("out")


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_machines_that_differ_are_refused_before_anything_is_written(
    running: Standalone, tmp_path: Path
) -> None:
    """One machine without the folder, beside a good one; and one with another Python."""
    running.add_worker()
    ours = Project(tmp_path / "ours", running.address)
    running.add_worker(host="127.0.0.2", masked=ours.folder)
    code, said = ours.apply()
    assert code != 0
    assert "cluster-folder" in said, said
    assert "127.0.0.2" in said
    assert "no such file or directory" in said
    code, said = ours.apply(PYSPARK_PYTHON="/no/such/python")
    assert code != 0
    assert "cluster-mismatch" in said, said
    assert "/no/such/python" in said
    assert ours.rows("src") == ours.rows("out") == []


def test_a_command_without_room_ends_with_a_reason_and_an_interrupt_gives_the_room_back(
    running: Standalone, tmp_path: Path, alone: Rows
) -> None:
    for _ in range(2):
        running.add_worker()
    greedy = Project(tmp_path / "greedy", running.address, ENDLESS)
    applying = greedy.start()
    wait_until(lambda: bool(greedy.rows("src")) or applying.poll() is not None)
    late = Project(tmp_path / "late", running.address, wait="5s")
    code, said = late.apply()
    assert code != 0
    assert "cluster-lost" in said, said
    assert "provided no executors" in said
    for _ in range(2):
        applying.send_signal(signal.SIGINT)
        time.sleep(2)
    code, said = ended(applying)
    assert code != 0, said
    assert greedy.rows("out") == []
    modest = {"spark.cores.max": 1}
    both = [
        Project(tmp_path / f"{number}", running.address, settings=modest) for number in range(2)
    ]
    for each in [project.start() for project in both]:
        code, said = ended(each)
        assert code == 0, said
    assert [each.rows("out") for each in both] == [alone, alone]
