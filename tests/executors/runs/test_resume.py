"""A run that was killed anywhere is gone on with, and gives the chains of an unbroken one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.runs.record import Recorder
from odfbuild.executors.runs.report import Failed
from odfbuild.executors.runs.resume import NotResumableError, RunGoesOnError, resume
from odfbuild.odf.events import SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Append
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.runs import Ended, UnknownRunError, find_run
from tests.support.process.inside import lay_out
from tests.support.recorded_runs import Runs
from tests.support.values.drawn import Drawn, Floor, Node

LATER = Timestamp.parse("2040-01-01T00:00:00Z")
BEFORE = Drawn(
    (
        Node(files=2, ledger=True),
        Node(files=1),
        Node(inputs=(0,)),
        Node(inputs=(1, 2), note=1),
    )
)
AFTER = Drawn(
    (
        Node(files=3, ledger=True, note=2),
        Node(files=2),
        Node(inputs=(0,)),
        Node(inputs=(1, 2), note=2),
        Node(inputs=(3, 0)),
    ),
    moved=frozenset({1, 2}),
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def floors(runs: Runs, folder: Path, *, grown: bool) -> Iterator[Floor]:
    """Give equal floors, as many as are asked for."""
    number = 0
    while True:
        floor = Floor(folder / str(number), BEFORE.files())
        if grown:
            runs.apply(floor, floor.plan())
            lay_out(floor.folder, AFTER.files())
        yield floor
        number += 1


def check_every(runs: Runs, folder: Path, *, grown: bool, stride: int) -> set[int]:
    """Kill at every so many moments, go on, and return how many steps were done before."""
    given = floors(runs, folder, grown=grown)
    unbroken = next(given)
    moments = runs.moments(unbroken, unbroken.plan())
    expected = unbroken.chains()
    found = set()
    for moment in range(0, moments, stride):
        floor = next(given)
        plan = floor.plan()
        runs.kill(floor, plan, moment)
        project = floor.opened
        assert find_run(project.workspace.root, "last").outcome is Ended.INTERRUPTED
        left = resume(project, "last")
        assert left.stale == (), moment
        assert {*left.done} | {step.id for step in left.plan.steps} == {s.id for s in plan.steps}
        found.add(len(left.done))
        assert not runs.apply(floor, left.plan).failures
        assert floor.chains() == expected, moment
        assert floor.plan().is_empty
    return found


@pytest.mark.parametrize("grown", [False, True], ids=["first", "later"])
def test_a_run_that_was_killed_is_gone_on_with(runs: Runs, tmp_path: Path, grown: bool) -> None:
    assert len(check_every(runs, tmp_path, grown=grown, stride=7)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("grown", [False, True], ids=["first", "later"])
def test_a_run_killed_at_any_moment_is_gone_on_with(
    runs: Runs, tmp_path: Path, grown: bool
) -> None:
    found = check_every(runs, tmp_path, grown=grown, stride=1)
    assert found == set(range(max(found) + 1))


@pytest.mark.parametrize("first", [3, 11, 20])
def test_what_went_on_may_be_killed_and_gone_on_with_again(
    runs: Runs, tmp_path: Path, first: int
) -> None:
    given = floors(runs, tmp_path, grown=True)
    unbroken = next(given)
    runs.apply(unbroken, unbroken.plan())
    floor = next(given)
    runs.kill(floor, floor.plan(), first)
    while len((left := resume(floor.opened, "last").plan).steps) > 1:
        runs.kill(floor, left, 7)
    runs.apply(floor, left)
    assert floor.chains() == unbroken.chains()


def test_what_failed_is_done_once_it_can_be(runs: Runs, tmp_path: Path) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    broken = "select t, k, v from n0"
    runs.engine.failing = frozenset({broken})
    report = runs.apply(floor, floor.plan())
    failed = [step.id for step, outcome in report.outcomes if isinstance(outcome, Failed)]
    assert failed == ["transform:acme.n2"]
    runs.engine.failing = frozenset()
    left = resume(floor.opened, "last")
    assert [step.id for step in left.plan.steps] == ["transform:acme.n2", "transform:acme.n3"]
    assert left.stale == ()
    assert not runs.apply(floor, left.plan).failures
    assert floor.plan().is_empty


def move(floor: Floor, name: str) -> None:
    dataset = floor.opened.workspace.open(DatasetAlias.parse(name))
    assert dataset is not None
    dataset.commit(CommitRequest((SetInfo(description="else"),), LATER), on=dataset.state())


@pytest.mark.parametrize("name", ["acme.n0", "acme.n3"])
def test_what_somebody_else_moved_since_is_told(runs: Runs, tmp_path: Path, name: str) -> None:
    floor = next(floors(runs, tmp_path, grown=True))
    plan = floor.plan()
    appended = [i for i, s in enumerate(plan.steps) if isinstance(s.work, Append)]
    assert appended
    runs.kill(floor, plan, 0)
    move(floor, name)
    left = resume(floor.opened, "last")
    assert [str(each) for each in left.stale] == [name]


def test_a_dataset_that_the_run_was_done_with_may_not_move_either(
    runs: Runs, tmp_path: Path
) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    runs.apply(floor, floor.plan())
    assert resume(floor.opened, "last").plan.steps == ()
    move(floor, "acme.n2")
    assert [str(each) for each in resume(floor.opened, "last").stale] == ["acme.n2"]


def test_a_run_that_goes_on_is_left_alone(runs: Runs, tmp_path: Path) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    plan = floor.plan()
    project = floor.opened
    recorder = Recorder(project, plan, runs.asking(), runs)  # type: ignore[arg-type]
    with pytest.raises(RunGoesOnError):
        resume(project, "last")
    recorder.close(None)
    assert len(resume(project, "last").plan.steps) == len(plan.steps)


def test_without_a_plan_there_is_nothing_to_go_on_with(runs: Runs, tmp_path: Path) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    with pytest.raises(UnknownRunError):
        resume(floor.opened, "last")
    runs.apply(floor, floor.plan())
    (record,) = (tmp_path / ".odfbuild" / "runs").iterdir()
    for text in ("{", "[]", "{}"):
        (record / "plan.json").write_text(text)
        with pytest.raises(NotResumableError):
            resume(floor.opened, "last")
