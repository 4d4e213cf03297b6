"""-q and --color: asked for before or after any command, heeded wherever something is told."""

import re
from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, lay_out
from tests.support.process.terminals import terminal
from tests.support.projects import odfbuild
from tests.support.projects.texts import derivative

GREEN = "\x1b["
_LOOK = re.compile(r"\x1b\[[0-9;]*m")
GOOD = "t,k,v\n2024-02-01,d1,1\n"
BAD = "t,k,v\n2024-01-05,z,not a number\n"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def test_a_quiet_run_tells_its_answer_and_nothing_else(run: Inside, project: Path) -> None:
    changed = derivative("out", "src", "select t, k, v from src where v > 1")
    lay_out(project, {"data/2.csv": GOOD, "datasets/out.yaml": changed})
    done = run("run", "-q")
    assert (done.code, done.err) == (0, "")
    assert "Done: 2 blocks committed to 2 datasets, 2 rows." in done.out
    lay_out(project, {"data/3.csv": GOOD})
    assert "note[definition-waits]" in run("run").err  # what was asked of one is not of the next


def test_errors_stay_and_advice_goes(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": BAD})
    done = run("apply", "--yes", "--quiet")
    assert done.code == 1
    assert "error[invalid-source]: src: data/2.csv:2" in done.err
    assert "--resume" not in done.err
    assert "ingest:src" not in done.err
    assert "--resume" in run("apply", "--yes").err


def test_both_may_stand_before_the_command_or_in_the_environment(project: Path) -> None:
    assert odfbuild("-q", "show", "src", "-n", "1", cwd=project).err == ""
    quiet = odfbuild("show", "out", cwd=project, ODFBUILD_QUIET="1")
    assert (quiet.code, quiet.err) == (0, "")
    lay_out(project, {"data/2.csv": GOOD})
    assert GREEN in odfbuild("--color", "always", "plan", cwd=project).out
    assert GREEN in odfbuild("plan", cwd=project, ODFBUILD_COLOR="always").out
    asked = odfbuild("plan", "--color", "never", cwd=project, ODFBUILD_COLOR="always")
    assert GREEN not in asked.out


def test_colours_are_used_as_asked_for(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    assert GREEN not in run("plan").out
    assert GREEN in run("plan", "--color", "always").out
    assert GREEN not in run("plan", "--color", "auto").out
    done = run("plan", "--color", "sometimes")
    assert (done.code, "auto, always, never" in done.err) == (64, True)


@pytest.mark.parametrize(
    ("given", "no_color", "term", "coloured"),
    [
        ("auto", None, "xterm-256color", True),
        ("auto", "", "xterm-256color", True),  # empty is as if it were not set (no-color.org)
        ("auto", "1", "xterm-256color", False),
        ("auto", "0", "xterm-256color", False),
        ("auto", None, "dumb", False),
        ("never", None, "xterm-256color", False),
        ("always", "1", "xterm-256color", True),
    ],
)
def test_a_terminal_gets_no_colours_where_none_are_wanted(
    given: str, no_color: str | None, term: str, coloured: bool, project: Path
) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    set_there = ["env", f"TERM={term}", *([] if no_color is None else [f"NO_COLOR={no_color}"])]
    line, environment = command("plan", "--color", given)
    with terminal([*set_there, *line], project, environment) as shown:
        assert shown.end() == 0
    assert ("\x1b[34m" in shown.said) == coloured
    assert bool(_LOOK.search(shown.said)) == coloured
    line, environment = command("apply", "--yes", "--color", given)
    with terminal([*set_there, *line], project, environment) as shown:
        assert shown.end() == 0
    assert "ingest:src" in shown.text
    assert bool(_LOOK.search(shown.said)) == coloured  # live lines are neither dim nor bold
    assert ("\x1b[2m" in shown.said) == coloured
