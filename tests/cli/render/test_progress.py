"""Live lines of steps: rows, their rate and the time that is left."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from odfbuild.cli.render.progress import LiveProgress, StepPace, short_name
from odfbuild.executors.engine.context import Round
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Ingest, Step
from odfbuild.planner.plan.reasons import SourceHasNews
from odfbuild.state.runs import usual_seconds
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild

_NAMES = ("2024-01.csv", "2024-02.csv", "2024-03.csv", "2024-04.csv")


@pytest.mark.parametrize(
    ("pace", "elapsed", "said"),
    [
        (StepPace(), 5.0, ""),
        (StepPace(usual=65.0), 5.0, "about 1m 0s left"),
        (StepPace(usual=65.0), 70.0, ""),
        (StepPace(commits=1, rows=50, at=0.5), 1.0, "1 committed · 50 rows"),
        (
            StepPace(files=4, commits=1, rows=9000, at=3.0, source="a.csv"),
            4.0,
            "about 8s left · 3,000 rows/s · 1 of 4 committed · 9,000 rows · a.csv",
        ),
        (
            StepPace(files=4, usual=900.0, commits=4, rows=8, at=4.0),
            5.0,
            "2 rows/s · 4 of 4 committed · 8 rows",
        ),
        (StepPace(files=2, usual=7300.0), 10.0, "about 2h 1m left"),
        # what came before the first commit comes once
        (StepPace(files=10, commits=2, rows=2, first=60.0, at=64.0), 64.0,
         "about 32s left · 0 rows/s · 2 of 10 committed · 2 rows"),
        # after one commit, with what came before it, the last run tells more
        (StepPace(files=10, usual=100.0, commits=1, rows=1, first=60.0, at=60.0), 61.0,
         "about 39s left · 0 rows/s · 1 of 10 committed · 1 row"),
    ],
)  # fmt: skip
def test_a_line_says_what_is_known(pace: StepPace, elapsed: float, said: str) -> None:
    assert pace.note(elapsed) == said


@given(
    files=st.integers(0, 9), commits=st.integers(0, 9), rows=st.integers(0, 10**12),
    usual=st.none() | st.floats(0, 10**6), at=st.floats(0, 10**6), later=st.floats(0, 10**6),
    first=st.floats(0, 1),
)  # fmt: skip
def test_no_time_left_is_negative(
    files: int,
    commits: int,
    rows: int,
    usual: float | None,
    at: float,
    later: float,
    first: float,
) -> None:
    pace = StepPace(files=files, usual=usual, commits=commits, rows=rows, at=at, first=first * at)
    assert "-" not in pace.note(at + later)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_step_has_one_line_of_any_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    step = Step(
        id="ingest:com.example.shop.orders-of-all-branches",
        target=DatasetAlias.parse("com.example.shop.orders-of-all-branches"),
        work=Ingest(),
        after=(),
        reasons=(SourceHasNews(_NAMES),),
    )
    progress = LiveProgress(1, lambda: {step.id: 30.0})
    progress.started(step)
    first = _drawn(progress, columns)
    progress.advanced(step, Round(source=_NAMES[0], blocks=1, records=1_234_567))
    second = _drawn(progress, columns)
    assert [len(each) for each in (first, second)] == [1, 1]
    assert "ingest:" in first[0]
    assert "orders-of-all-branches" in first[0]
    assert "about 30s left" in first[0]
    assert "1 of 4 committed" in second[0]
    assert "1,234,567 rows" in second[0] or columns == 80
    assert second[0].rstrip().endswith("0:00:00")
    pace = progress._paces[step.id]
    pace.at, pace.usual = 3.0, 3000.0
    third = _drawn(progress, columns)
    assert "about 50m 0s left" in third[0]
    assert "411,522 rows/s" in third[0]  # at 80 columns, too


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_names_with_one_beginning_stay_different(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"org.example.of-a-long-beginning-that-all-names-share.n{n}" for n in range(9)]
    progress = LiveProgress(len(names), dict)
    for name in names:
        progress.started(
            Step(
                id=f"ingest:{name}",
                target=DatasetAlias.parse(name),
                work=Ingest(),
                after=(),
                reasons=(),
            )
        )
    lines = _drawn(progress, columns)
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert name.rpartition(".")[2] in line
        assert "ing" in line
        assert len(line) <= columns


@given(step=st.text("ab:.", max_size=30), width=st.integers(2, 40))
def test_a_short_name_fits(step: str, width: int) -> None:
    found = short_name(step, width)
    assert len(found) <= width
    assert found == step if len(step) <= width else found.endswith(step[-1])


def _drawn(progress: LiveProgress, columns: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns)
    with console.capture() as capture:
        console.print(progress._bars.get_renderable())
    return [line for line in capture.get().splitlines() if line.strip()]


def test_a_step_usually_takes_as_long_as_when_it_was_last_done(project: Path) -> None:
    """What failed or was never recorded says nothing."""
    root = project / ".odfbuild"
    before = usual_seconds(root)
    assert usual_seconds(project / "nowhere") == {}
    lay_out(project, {"data/9.csv": "t,k,v\n2024-03-01,d1,not a number\n"})
    assert odfbuild("apply", "--yes", cwd=project).code == 1
    assert usual_seconds(root) == before
    for events in root.glob("runs/*/events.ndjson"):
        events.write_text("damaged\n")
    assert usual_seconds(root) == {}
