"""A real run that is killed anywhere goes on where it stood, and leaves no process behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import environment
from tests.support.projects.texts import derivative, root

pytestmark = pytest.mark.spark

NAMES = ("left", "right", "copy", "both")
DEFINED, BLOCKS = 12, 24  # of an unbroken run: blocks before the first data, and all
KILL, INTERRUPT = signal.SIGKILL, signal.SIGINT
STOPS = ((KILL, 0), (KILL, 13), (INTERRUPT, 9))  # blocks on disk; 0: the JVM was started
MORE_STOPS = tuple((KILL, blocks) for blocks in (1, 7, 17, 21))
BOTH = """\
kind: DatasetSnapshot
version: 1
content:
  name: both
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: left, alias: l}, {datasetRef: right, alias: r}]
      transform:
        kind: Sql
        engine: spark
        query: select t, k, v from l union all select t, upper(k) as k, -v as v from r
    - kind: SetVocab
      eventTimeColumn: t
"""


def lay_out_project(folder: Path) -> Path:
    """Write a project of two roots with three files each, and two derivatives."""
    files = {
        f"{side}/{day}.csv": f"t,k,v\n2024-01-0{day},{side}{day},{day}\n2024-01-0{day},same,0\n"
        for side in ("left", "right")
        for day in (1, 2, 3)
    }
    definitions = {
        f"datasets/{side}.yaml": root(side, fetch=f"{{kind: FilesGlob, path: {side}/*.csv}}")
        for side in ("left", "right")
    }
    more = {"datasets/copy.yaml": derivative("copy", "left"), "datasets/both.yaml": BOTH}
    return lay_out(folder, {**files, **definitions, **more})


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the JVM that the runs within this process share."""
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        engine.prepare()
        yield


def rows(run: Inside) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all datasets, without the time at which they were made."""
    found = {}
    for name in NAMES:
        shown = json.loads(run("show", name, "-n", "1000", "-o", "json").out)
        found[name] = [tuple(v for k, v in row.items() if k != "system_time") for row in shown]
    return found


def blocks(project: Path) -> int:
    return len(list((project / ".odfbuild" / "datasets").glob("*/blocks/f*")))


def has_reached(project: Path, moment: int) -> bool:
    if moment == 0:
        return any((project / ".odfbuild" / "cache" / "spark").glob("*/jvm.log"))
    return blocks(project) >= moment


def stop_at(project: Path, moment: int, sign: signal.Signals) -> tuple[int, str]:
    """Apply in a process of its own, stop it at a moment, return its code and what it said."""
    program = str(Path(sys.executable).parent / "odfbuild")
    with subprocess.Popen(
        [program, "apply", "--yes"],
        cwd=project,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not has_reached(project, moment) and process.poll() is None:
            time.sleep(0.001)
        assert not 1 <= moment < DEFINED or java_of(project)
        process.send_signal(sign)
        _, said = process.communicate()
        return process.returncode, said


def java_of(project: Path) -> list[str]:
    """Return the processes whose command line names the project."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(project).encode() in line and b"java" in line:
                found.append(entry.name)
    return found


def check_gone(project: Path) -> None:
    """Hold that the JVM notices that nobody is there any more."""
    until = time.monotonic() + 120  # of a busy machine
    while java_of(project):
        assert time.monotonic() < until, "java is still there"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("stops", [STOPS, pytest.param(MORE_STOPS, marks=pytest.mark.slow)])
def test_after_any_end_the_next_run_gives_the_rows_of_an_unbroken_one(
    jvm: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stops: tuple[tuple[signal.Signals, int], ...],
) -> None:
    unbroken = Inside(lay_out_project(tmp_path / "unbroken"), capsys, monkeypatch)
    assert unbroken("apply", "--yes").code == 0
    expected = rows(unbroken)
    assert [len(expected[name]) for name in NAMES] == [4, 4, 4, 8]
    assert blocks(unbroken.project) == BLOCKS

    for sign, moment in stops:
        project = lay_out_project(tmp_path / f"{sign.name}-{moment}")
        code, said = stop_at(project, moment, sign)
        ends = {130 if sign is signal.SIGINT else -sign} | ({0} if moment > DEFINED else set())
        assert code in ends, (moment, said)  # the last moments may come too late
        assert "Traceback" not in said
        check_gone(project)
        again = Inside(project, capsys, monkeypatch)
        assert again("verify").code == 0
        done = again("apply", "--yes")
        assert done.code == 0, done.err
        assert rows(again) == expected, moment
        assert again("verify").code == 0
        assert not list((project / ".odfbuild" / "staging").iterdir())
        assert again("plan").out.startswith("No changes.")
        if sign is signal.SIGINT:
            assert "interrupted; no step is left half done" in said
            assert not list((project / ".odfbuild" / "cache" / "spark").iterdir())
