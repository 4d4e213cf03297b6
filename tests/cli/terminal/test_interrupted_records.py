"""Whatever the number and moment of signals: a record names every step with its end.

The moments are lines of the modules that run a plan and record it: a signal comes before any of
them, as it would between two instructions.
"""

import json
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from odfbuild.app.plan import query_errors
from odfbuild.cli.terminal import signals
from odfbuild.errors import EngineFailedError
from odfbuild.executors.process import interrupt
from odfbuild.state.files.lock import is_locked
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import Done
from tests.support.projects.texts import derivative

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCHED = (
    *(
        "app/apply_plan.py",
        "executors/runs/record.py",
        "app/undo.py",
        "executors/runs/scheduler.py",
    ),
    *(
        "executors/process/interrupt.py",
        "state/runs.py",
        "cli/commands/apply/apply.py",
        "cli/terminal/signals.py",
    ),
)
ENDS = {"done", "failed", "skipped", "interrupted", "not-begun"}
_TURNS = ("heeding", "heed_no_more")
NEW = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}


@contextmanager
def signals_at(moments: dict[int, signal.Signals]) -> Iterator[list[signal.Signals | None]]:
    """Raise signals before the n-th line of the watched modules; yield what came at each line.

    Only while the command listens to signals: between `heeding` and `heed_no_more`.
    """
    came: list[signal.Signals | None] = []

    def lines(frame: FrameType, event: str, _: object) -> object:
        heeded = signal.getsignal(signal.SIGTERM) is signals._interrupt
        if event == "line" and heeded and frame.f_code.co_name not in _TURNS:
            came.append(moments.get(len(came) + 1))
            if came[-1] is not None:
                signal.raise_signal(came[-1])
        return lines

    def calls(frame: FrameType, event: str, _: object) -> object:
        name = frame.f_code.co_filename
        return lines if "odfbuild/" in name and name.endswith(WATCHED) else None

    before = sys.gettrace()
    sys.settrace(calls)  # type: ignore[arg-type]
    try:
        yield came
    finally:
        sys.settrace(before)


def drawn(seed: int, lines: int) -> dict[int, signal.Signals]:
    """Return one to five signals, some of them right after one another."""
    draw = random.Random(seed)
    moments: dict[int, signal.Signals] = {}
    for _ in range(draw.randint(1, 5)):
        near = draw.choice([*moments, None])
        at = draw.randint(1, lines) if near is None else near + draw.randint(1, 12)
        moments[at] = draw.choice(SIGNALS)
    return moments


def check_record(folder: Path, done: Done) -> None:
    """Check that a record says of each step of its plan how it ended."""
    assert "Traceback" not in done.err
    assert "error[" not in done.err
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["ended"] is None, summary["outcome"] == "running") == (False, False), summary
    plan = json.loads((folder / "plan.json").read_text())
    told = map(json.loads, (folder / "events.ndjson").read_text().splitlines())
    ended = [
        (each["step"], each["outcome"]) for each in told if each["event"] == "dataset_finished"
    ]
    undo = plan.get("format") == "undo" or "run" in plan
    planned = [f"undo:{each['dataset']}" if undo else each["id"] for each in plan["steps"]]
    assert sorted(planned) == sorted(step for step, _ in ended)
    assert {outcome for _, outcome in ended} <= ENDS


def records(project: Path) -> list[Path]:
    return sorted((project / ".odfbuild/runs").iterdir())


@pytest.mark.parametrize(("words", "trials"), [(("apply", "--yes"), 30), (("undo", "last"), 10)])
def test_a_record_names_every_step_with_its_end(
    words: tuple[str, ...],
    trials: int,
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine()
    monkeypatch.setattr(interrupt._RUNNING, "engines", set())  # a third signal ends those of others
    lay_out(project, NEW if words[0] == "apply" else {})
    words = (*words, "--yes") if words[0] == "undo" else words

    def trial(
        name: str, moments: dict[int, signal.Signals]
    ) -> tuple[Path, Done, list[signal.Signals | None]]:
        copy = shutil.copytree(project, tmp_path / name)
        with signals_at(moments) as came:
            done = Inside(copy, capsys, monkeypatch, engine)(*words)
        return copy, done, came

    _, done, lines = trial("plain", {})
    assert done.code == 0, done.err
    assert len(lines) > 100
    known = len(records(project))
    for seed in range(trials):
        copy, done, came = trial(f"{words[0]}{seed}", drawn(seed, len(lines)))
        codes = {128 + each for each in came if each is not None} or {0}
        assert done.code in codes, (seed, done)
        for folder in records(copy)[known:]:
            check_record(folder, done)
        for each in (copy / ".odfbuild/datasets").iterdir():
            assert not is_locked(each), seed
        if words[0] == "apply" and seed % 6 == 0:
            again = Inside(copy, capsys, monkeypatch, engine)("apply", "--yes")
            assert again.code == 0, (seed, again.err)
            assert heads(copy)
        shutil.rmtree(copy)


@pytest.mark.parametrize(("times", "code"), [(0, 1), (3, 130)])
def test_an_engine_killed_by_the_third_interrupt_while_it_is_asked_is_no_failure(
    times: int,
    code: int,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*_asked: object) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        raise EngineFailedError(what="Java was killed", why="by a signal", fix="run again")

    monkeypatch.setattr(interrupt._RUNNING, "engines", set())
    monkeypatch.setattr(query_errors, "refused_by_engine", killed)
    lay_out(project, {"datasets/more.yaml": derivative("more", "src")})
    done = Inside(project, capsys, monkeypatch, FakeEngine())("apply", "--yes")
    assert (done.code, "Java was killed" in done.err) == (code, times == 0)
    folder = records(project)[-1]
    assert json.loads((folder / "summary.json").read_text())["outcome"] == (
        "failed" if times == 0 else "stopped"
    )
    if times:
        check_record(folder, done)
