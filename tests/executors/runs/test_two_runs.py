"""Two runs at once: whatever comes between the work and its commit, no row is doubled or lost."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest, TransformWork
from odfbuild.executors.runs.definition import StalePlanError
from odfbuild.executors.runs.report import Done, Failed
from odfbuild.executors.runs.scheduler import run
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStepCsv,
    SetInfo,
    SetPollingSource,
    SetVocab,
)
from odfbuild.planner.declared import Declared
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.heads import ATTEMPTS, HeadMovedError
from tests.planner.builders import declare, derivative
from tests.support.engines import FakeEngine
from tests.support.workshop import Watcher, Workshop, ledger

LEDGER = MergeStrategyLedger(primary_key=("k",))
APPEND = MergeStrategyAppend()


class Interrupted(FakeEngine):
    """Lets something happen right after it worked, before anything is committed."""

    def __init__(self, then: Callable[[], None], times: int = 1) -> None:
        super().__init__()
        self._then, self._left = then, times

    def _pause(self) -> None:
        if self._left:
            self._left -= 1
            self._then()

    def ingest(self, request: IngestRequest) -> Frame:
        made = super().ingest(request)
        self._pause()
        return made

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        made = super().ingest_together(request, sources)
        self._pause()
        return made

    def transform(self, work: TransformWork) -> Frame:
        made = super().transform(work)
        self._pause()
        return made


class Between(Watcher):
    """Lets something happen after the first commit of a run."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self._then: Callable[[], None] | None = then

    def advanced(self, step, done) -> None:  # type: ignore[no-untyped-def]
        then, self._then = self._then, None
        if then is not None:
            then()


def source(merge: MergeStrategy) -> Declared:
    """Declare a root of the CSV files in data/."""
    found = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(
            ddl_schema=("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT"), header=True
        ),
        merge=merge,
    )
    return declare("src", DatasetKind.ROOT, (found, SetVocab(event_time_column="t")))


def keys(shop: Workshop, name: str = "src") -> list[str]:
    assert verify(shop.dataset(name)).findings == ()
    return sorted(str(row[-2]) for row in shop.rows(name))


def two_files(shop: Workshop) -> None:
    shop.file("1.csv", "2024-01-01,a,1")
    shop.file("2.csv", "2024-01-02,b,2")


@pytest.mark.parametrize("merge", [LEDGER, APPEND])
def test_another_run_takes_the_same_files_in_meanwhile(
    tmp_path: Path, merge: MergeStrategy
) -> None:
    other, declared = Workshop(tmp_path), [source(merge)]
    other.apply(declared)
    two_files(other)
    mine = Workshop(tmp_path, Interrupted(lambda: assert_done(other, declared)))
    assert_done(mine, declared)
    assert keys(mine) == ["a", "b"]


@pytest.mark.parametrize("merge", [LEDGER, APPEND])
def test_another_run_takes_them_in_between_two_commits(
    tmp_path: Path, merge: MergeStrategy
) -> None:
    other, declared = Workshop(tmp_path), [source(merge)]
    other.apply(declared)
    two_files(other)
    mine = Workshop(tmp_path)
    mine.watcher = Between(lambda: assert_done(other, declared))
    assert_done(mine, declared)
    assert keys(mine) == ["a", "b"]


@pytest.mark.parametrize("merge", [LEDGER, APPEND])
def test_a_reset_between_two_commits_loses_no_file(tmp_path: Path, merge: MergeStrategy) -> None:
    mine, declared = Workshop(tmp_path), [source(merge)]
    mine.apply(declared)
    two_files(mine)
    before = mine.dataset("src").head()
    assert before is not None

    def reset() -> None:
        dataset = Workshop(tmp_path).dataset("src")
        dataset.set_head(before, dataset.head())

    mine.watcher = Between(reset)
    assert_done(mine, declared)
    assert keys(mine) == ["a", "b"]


def test_another_run_derives_meanwhile(tmp_path: Path) -> None:
    other, declared = Workshop(tmp_path), [ledger(), derivative("out", "src")]
    other.file("1.csv", "2024-01-01,a,1")
    other.apply(declared)
    other.file("2.csv", "2024-01-02,b,2")
    other.apply([ledger()])
    mine = Workshop(tmp_path, Interrupted(lambda: assert_done(other, declared)))
    assert_done(mine, declared)
    assert keys(mine, "out") == ["a", "b"]


def test_a_race_that_is_always_lost_is_told(tmp_path: Path) -> None:
    shop, declared = Workshop(tmp_path), [ledger()]
    shop.apply(declared)
    shop.file("1.csv", "2024-01-01,a,1")
    moved: list[ChainState] = []

    def move() -> None:
        dataset = Workshop(tmp_path).dataset("src")
        note = SetInfo(description=str(len(moved)))
        moved.append(dataset.commit(CommitRequest((note,), shop.now), on=dataset.state()))

    mine = Workshop(tmp_path, Interrupted(move, times=100))
    ((_, failed),) = mine.apply(declared).failures
    assert isinstance(failed.error, HeadMovedError)
    assert len(moved) == ATTEMPTS
    assert keys(mine) == []


@pytest.mark.parametrize("merge", [LEDGER, APPEND])
def test_another_run_makes_the_dataset_first(tmp_path: Path, merge: MergeStrategy) -> None:
    other = Workshop(tmp_path)
    two_files(other)
    mine = Workshop(tmp_path)
    plan = mine.plan([ledger()])
    assert_done(other, [source(merge)])
    id = other.dataset("src").id
    report = run(plan, mine.site(), jobs=1, progress=mine.watcher)
    assert mine.dataset("src").id == id
    assert keys(mine) == ["a", "b"]
    assert [each.name for each in (mine.workspace.root / "datasets").iterdir()] == [id.multibase]
    assert [each.dataset for each in mine.workspace.keys.kept()] == [id]
    if merge == LEDGER:
        assert all(isinstance(outcome, Done) for _, outcome in report.outcomes)
    else:
        (failed,) = [each for _, each in report.outcomes if isinstance(each, Failed)]
        assert isinstance(failed.error, StalePlanError)
        assert "another run made src meanwhile" in str(failed.error)


def assert_done(shop: Workshop, declared: Sequence[Declared]) -> None:
    report = shop.apply(declared)
    assert all(isinstance(outcome, Done) for _, outcome in report.outcomes), report
