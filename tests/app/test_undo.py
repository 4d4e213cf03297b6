"""A run is taken back to where it began, only from where it ended, and may be run again."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild import app
from odfbuild.app.undo import MixedBlocksError, prepare_undo, take_back
from odfbuild.executors.engine.context import Round
from odfbuild.executors.runs import scheduler
from odfbuild.executors.runs.definition import StalePlanError
from odfbuild.executors.runs.report import Outcome
from odfbuild.executors.runs.resume import resume
from odfbuild.odf.events import AddData, DatasetKind, ExecuteTransform, SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.undo import Undo
from odfbuild.planner.plan import Append, Step
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.heads import HeadMovedError
from tests.executors.runs.test_resume import AFTER, BEFORE
from tests.support.process.inside import lay_out
from tests.support.projects.texts import root
from tests.support.recorded_runs import Runs
from tests.support.values.drawn import NOW, Drawn, Floor, evolved, projects

LATER = Timestamp.parse("2040-01-01T00:00:00Z")
pairs = projects().flatmap(lambda before: st.tuples(st.just(before), evolved(before)))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def hashes(floor: Floor) -> Mapping[str, list[str]]:
    """Return the logical hashes of all slices of every dataset."""
    workspace = floor.opened.workspace
    found = {}
    for alias, id in workspace.names().items():
        events = [block.event for _, block in workspace.dataset(id).blocks()]
        slices = [e.new_data for e in events if isinstance(e, AddData | ExecuteTransform)]
        found[str(alias)] = [str(each.logical_hash) for each in slices if each is not None]
    return found


def undo(runs: Runs, floor: Floor, run: str = "last") -> Undo:
    project = floor.opened
    found = prepare_undo(project, run)
    take_back(project, found, runs.asking(command="undo", follows=found.run or ""))
    return found


@settings(max_examples=6, deadline=None)
@given(pairs)
def test_what_is_taken_back_and_run_again_gives_the_same(pair: tuple[Drawn, Drawn]) -> None:
    before, after = pair
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        runs, floor = Runs(patch), Floor(Path(folder), before.files())
        runs.apply(floor, floor.plan())
        began = floor.chains()
        lay_out(floor.folder, after.files())
        plan = floor.plan()
        runs.apply(floor, plan)
        ended, rows = floor.chains(), hashes(floor)
        done = undo(runs, floor) if plan.steps else None
        assert floor.chains() == began
        again = floor.plan()
        assert [step.id for step in again.steps] == [step.id for step in plan.steps]
        runs.apply(floor, again)
        assert (floor.chains(), hashes(floor)) == (ended, rows)
        assert done is None or done.diverging == ()


def both(runs: Runs, folder: Path) -> Floor:
    """Return a floor with two runs: one that made it, one that moved all of it on."""
    floor = Floor(folder, BEFORE.files())
    runs.apply(floor, floor.plan())
    lay_out(floor.folder, AFTER.files())
    runs.apply(floor, floor.plan())
    return floor


def ids(floor: Floor) -> list[str]:
    return sorted(path.name for path in (floor.folder / ".odfbuild" / "runs").iterdir())


def test_runs_are_taken_back_newest_first_down_to_nothing(runs: Runs, tmp_path: Path) -> None:
    floor = both(runs, tmp_path)
    first, second = ids(floor)
    before = floor.contents()
    with pytest.raises(StalePlanError, match=f"changed after the run {first}"):
        prepare_undo(floor.opened, first)
    assert floor.contents() == before
    undo(runs, floor, second)
    undo(runs, floor, first)
    assert floor.chains() == {}
    assert floor.opened.workspace.heads() == {}
    assert prepare_undo(floor.opened, first).steps == ()


def test_taking_back_is_taken_back_as_well(runs: Runs, tmp_path: Path) -> None:
    floor = both(runs, tmp_path)
    ended = floor.chains()
    undo(runs, floor)
    assert floor.chains() != ended
    undo(runs, floor)
    assert floor.chains() == ended
    undo(runs, floor)
    undo(runs, floor)
    assert floor.chains() == ended


def test_readers_go_back_before_what_they_read(runs: Runs, tmp_path: Path) -> None:
    floor = both(runs, tmp_path)
    order = [str(step.alias) for step in prepare_undo(floor.opened, "last").steps]
    reads = {"acme.n4": ["acme.n3", "acme.n0"], "acme.n3": ["acme.m1", "acme.m2"]}
    reads["acme.m2"] = ["acme.n0"]
    for reader, inputs in reads.items():
        assert all(order.index(reader) < order.index(each) for each in inputs)


def test_what_read_since_and_stays_is_told(runs: Runs, tmp_path: Path) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    runs.apply(floor, floor.plan())
    files = dict(AFTER.files())
    more = {name: text for name, text in files.items() if name.startswith("data/n0")}
    lay_out(floor.folder, more)
    project = floor.opened
    from odfbuild.planner.plan.subset import restrict

    chosen = restrict(floor.plan(), {DatasetAlias.parse("acme.n0")})
    runs.apply(floor, chosen)
    runs.apply(floor, floor.plan())
    first, second, _ = ids(floor)
    found = prepare_undo(project, second)
    assert [str(step.alias) for step in found.steps] == ["acme.n0"]
    told = [(str(each.dataset), [str(r) for r in each.readers]) for each in found.diverging]
    assert told == [("acme.n2", ["acme.n3"])]
    assert first < second


def test_nothing_is_taken_back_of_what_somebody_moved(runs: Runs, tmp_path: Path) -> None:
    floor = both(runs, tmp_path)
    dataset = floor.opened.workspace.open(DatasetAlias.parse("acme.n3"))
    assert dataset is not None
    prepared = prepare_undo(floor.opened, "last")
    dataset.commit(CommitRequest((SetInfo(description="else"),), LATER), on=dataset.state())
    with pytest.raises(StalePlanError):
        prepare_undo(floor.opened, "last")
    with pytest.raises(HeadMovedError):
        take_back(floor.opened, prepared, runs.asking(command="undo"))


@pytest.mark.parametrize("moment", [0, 9, 17, 26])
def test_a_run_that_was_killed_is_taken_back(runs: Runs, tmp_path: Path, moment: int) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    runs.apply(floor, floor.plan())
    began = floor.chains()
    lay_out(floor.folder, AFTER.files())
    runs.kill(floor, floor.plan(), moment)
    undo(runs, floor)
    assert floor.chains() == began


def test_what_was_taken_back_half_way_is_finished(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor = Floor(tmp_path, BEFORE.files())
    runs.apply(floor, floor.plan())
    began = floor.chains()
    lay_out(floor.folder, AFTER.files())
    runs.apply(floor, floor.plan())
    _, second = ids(floor)
    from odfbuild.app import undo as undoing

    real, left = undoing._go_back, [0, 0]

    def failing(project, step):  # type: ignore[no-untyped-def]
        if not left:
            raise OSError("the disk is full")
        left.pop()
        real(project, step)

    with monkeypatch.context() as patch:
        patch.setattr(undoing, "_go_back", failing)
        with pytest.raises(OSError, match="full"):
            undo(runs, floor, second)
    again = undo(runs, floor, second)
    assert len(again.steps) == 5 - 2
    assert floor.chains() == began


def test_a_run_that_was_taken_back_is_not_gone_on_with(runs: Runs, tmp_path: Path) -> None:
    floor = both(runs, tmp_path)
    _, second = ids(floor)
    undo(runs, floor, second)
    assert resume(floor.opened, second).stale != ()


class _Between:
    """Lets another run do something after the first commit of a run."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then

    def started(self, step: Step) -> None: ...

    def advanced(self, step: Step, done: Round) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def finished(self, step: Step, outcome: Outcome) -> None: ...


@pytest.mark.parametrize(
    ("files", "error"), [(2, MixedBlocksError), (1, StalePlanError)], ids=["between", "after"]
)
def test_blocks_of_another_run_are_not_taken_back_with_a_run(
    runs: Runs, tmp_path: Path, files: int, error: type[Exception]
) -> None:
    row = "t,k,v\n2024-01-0{0},k{0},{0}\n"
    lay_out(tmp_path, {"datasets/src.yaml": root("src"), "data/1.csv": row.format(1)})
    project = app.open_project(tmp_path)
    app.apply(project, app.make(project), jobs=1, settle=False, asking=runs.asking())
    lay_out(tmp_path, {f"data/{n}.csv": row.format(n) for n in range(2, 2 + files)})
    dataset = app.find_dataset(project, "src")

    def another() -> None:
        prepared = CommitRequest((SetInfo(description="by another run"),), LATER)
        dataset.commit(prepared, on=dataset.state())

    between = _Between(another)
    app.apply(
        project, app.make(project), jobs=1, settle=False, asking=runs.asking(), progress=between
    )
    head = dataset.head()
    with pytest.raises(error):
        prepare_undo(project, "last")
    assert dataset.head() == head


def test_a_dataset_that_another_run_made_is_not_taken_away(runs: Runs, tmp_path: Path) -> None:
    row = "t,k,v\n2024-01-01,a,1\n"
    lay_out(tmp_path, {"datasets/src.yaml": root("src"), "data/1.csv": row})
    project = app.open_project(tmp_path)
    plan = app.make(project)
    create = plan.steps[0].work
    assert isinstance(create, Append)
    made = CommitRequest(create.events, NOW)
    project.workspace.create(DatasetAlias.parse("src"), DatasetKind.ROOT, made)
    with pytest.MonkeyPatch.context() as patch:  # it is made after the heads were compared
        patch.setattr(scheduler, "check_heads", lambda *_: None)
        app.apply(project, plan, jobs=1, settle=False, asking=runs.asking())
    with pytest.raises(MixedBlocksError):
        prepare_undo(project, "last")
