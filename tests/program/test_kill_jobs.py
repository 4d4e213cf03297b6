"""An apply of several steps at a time, killed at any moment: nothing half done, nothing doubled."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, lay_out
from tests.support.projects import environment
from tests.support.projects.market import workspace
from tests.support.projects.texts import derivative, root

SIDES, DAYS = ("a", "b", "c", "d"), (1, 2, 3)
NAMES = (*SIDES, *(f"{side}-out" for side in SIDES))
BLOCKS = 4 * (3 + 1 + len(DAYS)) + 4 * (3 + 2)  # of an unbroken run


def lay_out_project(folder: Path) -> Path:
    """Write four roots of three files each, and a derivative of each."""
    files = {
        f"{side}/{day}.csv": f"t,k,v\n2024-01-0{day},{side}{day},{day}\n"
        for side in SIDES
        for day in DAYS
    }
    for side in SIDES:
        fetch = f"{{kind: FilesGlob, path: {side}/*.csv}}"
        files[f"datasets/{side}.yaml"] = root(side, fetch=fetch)
        files[f"datasets/{side}-out.yaml"] = derivative(f"{side}-out", side)
    return lay_out(folder, files)


def rows(run: Inside) -> Mapping[str, Any]:
    found = {}
    for name in NAMES:
        shown = json.loads(run("show", name, "-n", "99", "-o", "json").out)
        plain = [{k: v for k, v in row.items() if k != "system_time"} for row in shown]
        found[name] = sorted(plain, key=lambda row: str(row["k"]))
    return found


def blocks(project: Path) -> int:
    return len(list((project / ".odfbuild" / "datasets").glob("*/blocks/f*")))


def kill(project: Path, at: int, after: float, *, spark: bool) -> None:
    """Apply in a process of its own, and kill it so long after there are so many blocks."""
    asked = ("apply", "--yes", "-j", "4")
    program = str(Path(sys.executable).parent / "odfbuild")
    arguments, around = ([program, *asked], environment()) if spark else command(*asked)
    with subprocess.Popen(
        arguments,
        cwd=project,
        env=around,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while blocks(project) < at and process.poll() is None:
            time.sleep(0.0005)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)


def check(run: Inside, expected: Mapping[str, Any]) -> str:
    """Hold that what is there is whole, and that it can be continued at once."""
    assert run("verify").code == 0
    assert "locked by" not in run("status").out
    outcomes = [each["outcome"] for each in json.loads(run("runs", "-o", "json").out)]
    outcome = outcomes[0] if outcomes else "nothing"
    going = ("--resume", "last") if outcome == "interrupted" else ("--yes",)
    done = run("apply", *going, "--lock-timeout", "0")
    assert done.code == 0, done.err
    assert rows(run) == expected
    assert run("verify").code == 0
    assert run("plan").out.startswith("No changes.")
    with workspace(run.project).staging() as mine:  # which sweeps what nobody holds any more
        assert list(mine.parent.iterdir()) == [mine]
    return str(outcome)


def killed(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    patch: pytest.MonkeyPatch,
    moments: int,
    *,
    spark: bool = False,
) -> list[str]:
    engine = None if spark else FakeEngine()
    whole = Inside(lay_out_project(folder / "whole"), capsys, patch, engine)
    assert whole("apply", "--yes").code == 0
    expected = rows(whole)
    assert {len(found) for found in expected.values()} == {len(DAYS)}
    assert blocks(whole.project) == BLOCKS
    chance = random.Random(moments)
    found = []
    for number in range(moments):
        project = lay_out_project(folder / str(number))
        kill(project, chance.randrange(BLOCKS), chance.random() * 0.01, spark=spark)
        found.append(check(Inside(project, capsys, patch, engine), expected))
    return found


def test_what_was_killed_is_whole_and_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "interrupted" in killed(tmp_path, capsys, monkeypatch, 3)


@pytest.mark.slow
def test_what_was_killed_at_fifty_moments_is_whole_and_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed(tmp_path, capsys, monkeypatch, 50).count("interrupted") > 25


@pytest.mark.slow
@pytest.mark.spark
def test_what_was_killed_while_spark_was_at_it_is_whole_and_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SparkEngine(tmp_path / "jvm", cores=2) as engine:
        engine.prepare()
        ends = killed(tmp_path, capsys, monkeypatch, 50, spark=True)
    assert ends.count("interrupted") > 25
