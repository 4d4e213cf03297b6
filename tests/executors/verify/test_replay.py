"""Steps run again give what their blocks say, and what does not is found and named."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine import protocol as engines
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import Replayed, recorded_steps, replay
from odfbuild.odf.events import ExecuteTransform, MetadataEvent, SetTransform
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.project.config.engines import RegisteredEngine
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from tests.executors.runs.test_scheduler import copy
from tests.support.engines import FakeEngine, Rows
from tests.support.workshop import Workshop, ledger

EVEN = "select * from src where even"
ODD = "select * from src where odd"


def even(inputs: Mapping[str, Rows]) -> Rows:
    return [row for row in inputs["src"] if row["v"] % 2 == 0]


def odd(inputs: Mapping[str, Rows]) -> Rows:
    return [row for row in inputs["src"] if row["v"] % 2]


QUERIES = {EVEN: even, ODD: odd}


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a root of three slices, and a derivative whose query changed before the last."""
    made = Workshop(tmp_path, FakeEngine(queries=QUERIES))
    for day in (1, 2, 3):
        made.now = Timestamp.parse(f"2025-01-0{day}T00:00:00Z")
        made.file(f"{day}.csv", *(f"2024-01-0{day},k{day}{n},{n}" for n in range(4)))
        query = EVEN if day < 3 else ODD
        assert not made.apply([ledger(), copy("out", "src", query=query)]).failures
    return made


def replayed(
    shop: Workshop, name: str = "out", *, engine: FakeEngine | None = None, anyway: bool = False
) -> list[Replayed]:
    past = RecordedHistories(shop.workspace)
    history = past.history(shop.dataset(name).id)
    assert history is not None
    return [
        replay(step, past, engine or shop.engine, shop.workspace, anyway=anyway)
        for step in recorded_steps(history)
    ]


def test_every_step_gives_its_rows_again_by_the_query_then_in_force(shop: Workshop) -> None:
    found = replayed(shop)
    assert [(each.rows, each.findings, each.row) for each in found] == [(2, (), None)] * 3
    blocks = [
        (hash, block.sequence_number)
        for hash, block in shop.dataset("out").blocks()
        if isinstance(block.event, ExecuteTransform)
    ]
    assert [(each.block, each.sequence) for each in found] == blocks


def test_nothing_is_written_and_nothing_left_behind(shop: Workshop) -> None:
    heads = shop.workspace.heads()
    replayed(shop)
    assert shop.workspace.heads() == heads
    assert [each for each in (shop.workspace.root / "staging").iterdir() if each.is_dir()] == []


def test_what_came_later_changes_nothing(shop: Workshop) -> None:
    wider = ledger("src", "t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT", "w STRING")
    shop.file("4.csv", "2024-01-04,k4,4,new", header="t,k,v,w")
    assert not shop.apply([wider]).failures
    assert [each.findings for each in replayed(shop)] == [()] * 3


def test_another_row_is_named_as_it_is_recorded_and_as_it_came_out(shop: Workshop) -> None:
    def doubled(inputs: Mapping[str, Rows]) -> Rows:
        return [{**row, "v": 20} if row["k"] == "k22" else row for row in even(inputs)]

    first, second, third = replayed(shop, engine=FakeEngine(queries={**QUERIES, EVEN: doubled}))
    assert (first.findings, third.findings) == ((), ())
    (finding,) = second.findings
    assert "the rows of offsets 2..3 have the logical hash" in finding
    assert second.row is not None
    assert (second.row.offset, second.row.columns) == (3, ("v",))
    assert second.row.recorded is not None
    assert second.row.computed is not None
    assert (second.row.recorded["k"], second.row.recorded["v"]) == ("k22", 2)
    assert (second.row.computed["k"], second.row.computed["v"]) == ("k22", 20)


@pytest.mark.parametrize(("more", "came"), [(1, "0..2"), (-1, "0..0")])
def test_more_or_fewer_rows_are_told_by_their_offsets(shop: Workshop, more: int, came: str) -> None:
    def other(inputs: Mapping[str, Rows]) -> Rows:
        rows = even(inputs)
        return [*rows, rows[-1]] if more > 0 else rows[:more]

    first = replayed(shop, engine=FakeEngine(queries={**QUERIES, EVEN: other}))[0]
    assert first.findings == (f"the block has offsets 0..1, and offsets {came} came out",)
    assert first.row is not None
    assert first.row.offset == (2 if more > 0 else 1)
    assert (first.row.recorded is None) is (more > 0)


def test_no_rows_where_some_are_recorded_is_a_finding(shop: Workshop) -> None:
    found = replayed(shop, engine=FakeEngine(queries={**QUERIES, ODD: lambda _: []}))[-1]
    assert found.findings == ("the block has offsets 4..5, and no rows came out",)
    assert found.row is not None
    assert found.row.computed is None


class Typed(FakeEngine):
    """Gives a column in another type, or leaves it out."""

    def __init__(self, column: pa.Field | None) -> None:
        super().__init__(QUERIES)
        self.column = column

    def transform(self, work: TransformWork) -> Frame:
        table = super().transform(work).table
        assert table is not None
        at = table.schema.names.index("v")
        if self.column is None:
            return Frame.of(table.remove_column(at))
        return Frame.of(table.set_column(at, self.column, table.column(at).cast(self.column.type)))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.field("v", pa.string()), "the column 'v' is int64, and came out as string"),
        (None, "the column 'v' is int64, and came out as not there"),
    ],
)
def test_other_columns_of_the_first_step_are_told(
    shop: Workshop, column: pa.Field | None, said: str
) -> None:
    assert said in replayed(shop, engine=Typed(column))[0].findings


def test_a_query_that_fails_now_is_a_finding(shop: Workshop) -> None:
    engine = FakeEngine(queries=QUERIES, failing=frozenset({ODD}))
    found = [each.findings for each in replayed(shop, engine=engine)]
    assert found == [(), (), ("it cannot be rerun: it broke",)]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_changed_byte_in_an_input_is_found_by_the_steps_that_read_it(shop: Workshop) -> None:
    piece, path = shop.dataset("src").slices()[1]
    flip(path)
    first, second, third = replayed(shop)
    assert (first.findings, third.findings) == ((), ())
    (finding,) = second.findings
    assert "its input src is damaged" in finding
    assert str(piece.physical_hash) in finding


def test_an_input_that_is_gone_is_named(shop: Workshop) -> None:
    (shop.dataset("src").slices()[0][1].parents[1] / "refs" / "head").unlink()
    for each in replayed(shop):
        assert each.findings == ("it cannot be rerun: its input src is not in the workspace",)


def test_a_block_of_an_input_that_is_gone_is_a_finding(shop: Workshop) -> None:
    source = shop.dataset("src")
    victim = [hash for hash, _ in source.blocks()][3]
    (source.slices()[0][1].parents[1] / "blocks" / str(victim)).unlink()
    for each in replayed(shop):
        (finding,) = each.findings
        assert str(victim) in finding


def test_a_damaged_file_of_its_own_does_not_keep_a_step_from_being_run(shop: Workshop) -> None:
    flip(shop.dataset("out").slices()[0][1])
    assert replayed(shop)[0].findings == ()


def test_an_input_that_was_reset_can_still_be_read_as_it_was(shop: Workshop) -> None:
    source = shop.dataset("src")
    head = source.head()
    assert head is not None
    source.set_head([hash for hash, _ in source.blocks()][5], expected=head)
    assert [each.findings for each in replayed(shop)] == [()] * 3


def forge(dataset: Dataset, **changes: Any) -> None:
    """Change the last block of a dataset, as somebody might who keeps to the chain's rules."""
    head = dataset.head()
    assert head is not None
    last = dataset.block(head)
    assert isinstance(last.event, ExecuteTransform)
    event = replace(last.event, **changes)
    data = encode_block(replace(last, event=event))
    made = block_hash(data)
    dataset.stores.blocks.put({made: data})
    dataset.stores.heads.swap("head", expected=head, new=made)


def test_a_forged_watermark_is_found(shop: Workshop) -> None:
    forge(shop.dataset("out"), new_watermark=Timestamp.parse("2025-01-01T00:00:00Z"))
    (finding,) = replayed(shop)[-1].findings
    assert finding.startswith("the watermark is 2025-01-01T00:00:00Z, and 2024-01-03T00:00:00Z")


def test_a_forged_slice_is_found_although_it_is_whole(shop: Workshop) -> None:
    dataset = shop.dataset("out")
    piece, path = dataset.slices()[0]
    event = next(b.event for _, b in dataset.blocks() if isinstance(b.event, ExecuteTransform))
    last = list(dataset.blocks())[-1][1].event
    assert isinstance(last, ExecuteTransform)
    assert last.new_data is not None
    forge(
        dataset,
        new_data=replace(
            last.new_data,
            logical_hash=piece.logical_hash,
            physical_hash=piece.physical_hash,
            size=piece.size,
        ),
    )
    assert event.new_data == piece
    found = replayed(shop)[-1]
    assert len(found.findings) == 1
    assert found.row is not None
    assert found.row.recorded == pq.read_table(path).to_pylist()[0]


def test_other_inputs_than_those_of_the_query_are_found(shop: Workshop) -> None:
    forge(shop.dataset("out"), query_inputs=())
    (finding,) = replayed(shop)[-1].findings
    assert "names other inputs than the query" in finding


def test_a_step_that_only_moved_the_watermark_has_no_rows(shop: Workshop) -> None:
    declared = [ledger(), copy("out", "src", query=ODD)]
    shop.file("5.csv", "2024-01-09,k99,8")
    assert not shop.apply(declared).failures
    last = replayed(shop)[-1]
    assert (last.rows, last.findings) == (0, ())


# versions of the engine


def record(shop: Workshop, version: str | None, engine: str = "spark") -> None:
    """Add a transform of another version, and run a step by it as if that were installed."""
    dataset = shop.dataset("out")
    state = dataset.state()
    assert state is not None
    assert state.transform is not None
    sql = replace(state.transform.transform, version=version, engine=engine)
    event: MetadataEvent = replace(state.transform, transform=sql)
    dataset.commit(CommitRequest((event,), state.system_time), on=state)


@pytest.fixture
def older(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Return the datasets, all made by a version before the installed one."""
    monkeypatch.setattr(
        engines, "ENGINES", {"spark": RegisteredEngine("spark.engine", "pyspark", 99)}
    )
    return shop


def test_steps_of_a_version_in_force_that_is_not_installed_are_refused(older: Workshop) -> None:
    for each in replayed(older):
        (finding,) = each.findings
        assert "made by spark 4.3.0+odfbuild." in finding
        assert "4.3.0+odfbuild.99 is installed" in finding
        assert "odfbuild engine upgrade" in finding
    assert [each.findings for each in replayed(older, anyway=True)] == [()] * 3


def test_after_an_upgrade_all_steps_are_run_again(older: Workshop) -> None:
    record(older, "4.3.0+odfbuild.99")
    assert [each.findings for each in replayed(older)] == [()] * 3
    different = FakeEngine(queries={**QUERIES, EVEN: odd})
    hash, version = replayed(older, engine=different)[0].findings
    assert "the logical hash" in hash
    assert version.startswith("it was made by version 4.3.0+odfbuild.")
    assert version.endswith("and run again by 4.3.0+odfbuild.99")


def test_a_step_without_a_version_is_run_by_whatever_is_installed(shop: Workshop) -> None:
    record(shop, None)
    shop.file("4.csv", "2024-01-04,k4,5")
    assert not shop.apply([ledger(), copy("out", "src", query=ODD)]).failures
    assert [each.findings for each in replayed(shop)] == [()] * 4


@pytest.mark.parametrize("engine", ["flink", "risingwave"])
def test_steps_of_engines_that_are_not_ours_are_told_and_no_finding(
    shop: Workshop, engine: str
) -> None:
    record(shop, "1.16", engine)
    dataset = shop.dataset("out")
    state = dataset.state()
    assert state is not None
    assert isinstance(state.transform, SetTransform)
    mark = Timestamp.parse("2026-01-01T00:00:00Z")
    event = ExecuteTransform(
        query_inputs=tuple(state.progress.values()),
        prev_offset=state.last_offset,
        new_watermark=mark,
    )
    reads = tuple(
        replace(each, prev_block_hash=each.new_block_hash, prev_offset=each.new_offset)
        for each in event.query_inputs
    )
    bare = tuple(replace(each, new_block_hash=None, new_offset=None) for each in reads)
    event = replace(event, query_inputs=bare)
    dataset.commit(CommitRequest((event,), state.system_time), on=state)
    last = replayed(shop)[-1]
    assert last.findings == ()
    assert (
        last.untried
        == f"its engine is {engine}, and steps of spark and datafusion alone are run again"
    )
