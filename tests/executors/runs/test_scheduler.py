"""Runs of whole plans, with an engine that needs no JVM."""

import multiprocessing
import os
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.runs.definition import StalePlanError
from odfbuild.executors.runs.report import Done, Failed, Skipped
from odfbuild.executors.runs.scheduler import check_heads
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.state.files.disk import Disk
from tests.planner.builders import declare, sql
from tests.support.effort import stride
from tests.support.engines import FakeEngine
from tests.support.workshop import Workshop, ledger


def copy(name: str, *inputs: str, query: str | None = None) -> Declared:
    refs = tuple(TransformInput(DatasetAlias.parse(each), each) for each in inputs)
    text = query or f"select * from `{inputs[0]}`"
    events = (SetTransform(inputs=refs, transform=sql(text)), SetVocab(event_time_column="t"))
    return declare(name, DatasetKind.DERIVATIVE, events)


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = Workshop(tmp_path)
    made.file("1.csv", "2024-01-01,a,1", "2024-01-02,b,2")
    return made


def test_a_root_and_what_reads_it_are_built_in_one_run(shop: Workshop) -> None:
    report = shop.apply([ledger(), copy("out", "src")])
    assert not report.failures
    assert shop.rows("src") == [(0, 0, "a", 1), (1, 0, "b", 2)]
    assert shop.rows("out") == shop.rows("src")
    assert shop.kinds("src") == ["Seed", "SetPollingSource", "SetVocab", "SetDataSchema", "AddData"]
    assert shop.kinds("out")[-2:] == ["SetDataSchema", "ExecuteTransform"]


def test_nothing_new_commits_nothing(shop: Workshop) -> None:
    declared = [ledger(), copy("out", "src")]
    shop.apply(declared)
    heads = shop.workspace.heads()
    report = shop.apply(declared)
    assert report.committed == 0
    assert all(outcome == Done(()) for _, outcome in report.outcomes)
    assert shop.workspace.heads() == heads


def test_every_new_file_is_a_block_of_its_own_and_one_step_downstream(shop: Workshop) -> None:
    declared = [ledger(), copy("out", "src")]
    shop.apply(declared)
    shop.file("2.csv", "2024-01-03,c,3", "2024-01-03,a,9")
    shop.file("3.csv", "2024-01-04,d,4")
    shop.apply(declared)
    assert [row[2] for row in shop.rows("src")] == ["a", "b", "c", "d"]
    assert shop.rows("out") == shop.rows("src")
    assert shop.kinds("src").count("AddData") == 3
    assert shop.kinds("out").count("ExecuteTransform") == 2


def test_a_file_without_new_rows_leaves_its_name_and_no_step_downstream(shop: Workshop) -> None:
    declared = [ledger(), copy("out", "src")]
    shop.apply(declared)
    shop.file("2.csv", "2024-01-01,a,1")
    shop.apply(declared)
    last = list(shop.dataset("src").blocks())[-1][1].event
    assert isinstance(last, AddData)
    assert last.new_data is None
    assert last.new_source_state is not None
    assert last.new_source_state.value == "2.csv"
    assert shop.kinds("out").count("ExecuteTransform") == 1


def test_the_recorded_intervals_join_up(shop: Workshop) -> None:
    declared = [ledger(), copy("out", "src")]
    for day in (2, 3, 4):
        shop.apply(declared)
        shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
    shop.apply(declared)
    steps = [
        block.event.query_inputs[0]
        for _, block in shop.dataset("out").blocks()
        if isinstance(block.event, ExecuteTransform)
    ]
    for one, other in pairwise(steps):
        assert other.prev_block_hash == one.new_block_hash
        assert other.prev_offset == one.new_offset
    assert steps[-1].new_offset == 4


def test_a_failed_step_skips_only_its_descendants(tmp_path: Path) -> None:
    broken = "select k from src"
    shop = Workshop(tmp_path, FakeEngine(failing=frozenset({broken})))
    shop.file("1.csv", "2024-01-01,a,1")
    declared = [ledger(), copy("bad", "src", query=broken), copy("good", "src")]
    declared += [copy("below", "bad"), copy("beside", "good")]
    report = shop.apply(declared)
    outcomes = {step.id: outcome for step, outcome in report.outcomes}
    assert isinstance(outcomes["transform:bad"], Failed)
    assert outcomes["transform:below"] == Skipped("transform:bad")
    assert isinstance(outcomes["transform:beside"], Done)
    assert len(shop.rows("beside")) == 1


def test_a_bad_file_holds_back_the_later_ones_and_nothing_is_lost(shop: Workshop) -> None:
    shop.apply([ledger()])
    shop.file("2.csv", "2024-01-03,c,3")
    shop.file("3.csv", "2024-01-04,d,not a number")
    shop.file("4.csv", "2024-01-05,e,5")
    report = shop.apply([ledger()])
    ((step, failed),) = report.failures
    assert step.id == "ingest:src"
    assert "3.csv" in str(failed.error.span) + failed.error.what
    assert len(failed.rounds) == 1
    assert [row[2] for row in shop.rows("src")] == ["a", "b", "c"]
    shop.file("3.csv", "2024-01-04,d,4")
    assert not shop.apply([ledger()]).failures
    assert [row[2] for row in shop.rows("src")] == ["a", "b", "c", "d", "e"]


def test_a_new_column_in_the_definition_grows_the_schema_at_its_end(shop: Workshop) -> None:
    shop.apply([ledger()])
    wider = ledger("src", "t DATE NOT NULL", "w STRING", "k STRING NOT NULL", "v BIGINT")
    shop.file("2.csv", "2024-01-03,c,3,new", header="t,k,v,w")
    report = shop.apply([wider])
    assert not report.failures
    assert shop.kinds("src")[-3:] == ["SetPollingSource", "SetDataSchema", "AddData"]
    last = shop.dataset("src").slices()[-1][1]
    assert pq.read_schema(last).names == ["offset", "op", "system_time", "t", "k", "v", "w"]


def test_equal_runs_in_any_number_of_threads_give_the_same_rows(tmp_path: Path) -> None:
    found = []
    for jobs in (1, 4):
        shop = Workshop(tmp_path / str(jobs))
        (tmp_path / str(jobs)).mkdir()
        shop.file("1.csv", *(f"2024-01-01,k{n},{n}" for n in range(50)))
        outputs = [copy(f"out{n}", "src") for n in range(8)]
        shop.apply([ledger(), *outputs], jobs=jobs)
        found.append([shop.rows(f"out{n}") for n in range(8)])
    assert found[0] == found[1]


def test_a_plan_whose_heads_moved_does_nothing(shop: Workshop) -> None:
    plan = shop.plan([ledger()])
    shop.apply([ledger()])
    with pytest.raises(StalePlanError, match="src changed since the plan was made"):
        check_heads(plan, shop.workspace)


def test_system_time_never_goes_back_with_the_clock(shop: Workshop) -> None:
    shop.apply([ledger()])
    before = shop.now
    shop.now = type(before).parse("2020-01-01T00:00:00Z")
    shop.file("2.csv", "2024-01-03,c,3")
    assert not shop.apply([ledger()]).failures
    times = [block.system_time for _, block in shop.dataset("src").blocks()]
    assert times == sorted(times)
    assert times[-1] == before


def test_progress_hears_of_every_step(shop: Workshop) -> None:
    shop.apply([ledger()])
    assert ("append:src", "started") in shop.watcher.lines
    assert ("ingest:src", "data/1.csv") in shop.watcher.lines
    assert ("ingest:src", "Done") in shop.watcher.lines


KILLED = 9


class CrashingDisk(Disk):
    """Ends the process, without a word, at its n-th durable step."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            os._exit(KILLED)

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        self._step()
        super().write(path, data, mode)

    def sync(self, path: Path) -> None:
        self._step()
        super().sync(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._step()
        super().link(old, new)


DECLARED = (ledger(), copy("out", "src"))


def test_after_a_crash_at_any_step_the_next_run_finishes_without_doubles(tmp_path: Path) -> None:
    (tmp_path / "unbroken").mkdir()
    unbroken = Workshop(tmp_path / "unbroken")
    unbroken.file("1.csv", "2024-01-01,a,1")
    unbroken.apply(DECLARED)  # from here on all is imported that an apply imports
    step, code = 0, KILLED
    while code == KILLED:
        folder = tmp_path / str(step)
        folder.mkdir()
        Workshop(folder).file("1.csv", "2024-01-01,a,1", "2024-01-02,b,2")
        Workshop(folder).file("2.csv", "2024-01-03,c,3")
        code = _in_a_child(folder, step)
        assert code in {0, KILLED}
        after = Workshop(folder)
        report = after.apply(DECLARED)
        assert not report.failures, [f.error.what for _, f in report.failures]
        assert [row[2] for row in after.rows("src")] == ["a", "b", "c"], step
        assert after.rows("out") == after.rows("src"), step
        _verify(after)
        step += stride(3)
    assert step > 40


def _in_a_child(folder: Path, step: int) -> int:
    """Apply in a process that ends at its n-th durable step; return how it ended."""
    context = multiprocessing.get_context("forkserver")
    there = [each for each in sys.modules if each.startswith(("odfbuild.", "sqlglot.", "Crypto."))]
    context.set_forkserver_preload([__name__, *there])
    child = context.Process(target=_build, args=(folder, step))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def _build(folder: Path, step: int) -> None:
    Workshop(folder, disk=CrashingDisk(step)).apply(DECLARED, jobs=1)


def _verify(shop: Workshop) -> None:
    for name in ("src", "out"):
        assert verify(shop.dataset(name)).findings == ()
