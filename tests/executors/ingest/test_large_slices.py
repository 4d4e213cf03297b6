"""Inputs of many rows: cut into slices anywhere, the chain is whole and says the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.parquet import read_slices
from odfbuild.executors.data.seal import NullValuesError, Sealed, Spread, seal
from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.runs.report import Done, RunReport
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.chain.partial_inputs import blocks_in_part, is_partial, partial_state
from odfbuild.odf.events import AddData, DatasetVocabulary
from odfbuild.odf.hashing import logical_hash, physical_hash
from odfbuild.odf.timestamp import Timestamp
from tests.support.engines import FakeEngine
from tests.support.workshop import Workshop, ledger

Item = TypeVar("Item")
Result = TypeVar("Result")

NOON = Timestamp.parse("2020-01-01T12:00:00Z")
INSTANT = pa.timestamp("ms", "UTC")
START = 7


def in_turn(function: Callable[[Item], Result], items: Sequence[Item], /) -> tuple[Result, ...]:
    return tuple(map(function, items))


def sample(rows: int) -> pa.Table:
    """Return rows whose event times go up and down, some without one."""
    times = [None if row % 5 == 4 else (row * 7919) % 1000 for row in range(rows)]
    return pa.table(
        {
            "op": pa.array([0] * rows, pa.int32()),
            "event_time": pa.array(times, INSTANT),
            "text": pa.array([f"row {row}" * (row % 3) for row in range(rows)], pa.string()),
            "nested": pa.array([{"a": [row] * (row % 4)} for row in range(rows)]),
        }
    )


def in_parts(table: pa.Table, sizes: Sequence[int], folder: Path, group: int = 1 << 20) -> Frame:
    paths, at = [], 0
    for number, size in enumerate(sizes):
        paths.append(folder / f"part-{number:05}.parquet")
        pq.write_table(table.slice(at, size), paths[-1], row_group_size=group)
        at += size
    return Frame.at(*paths)


def sealed(
    frame: Frame,
    into: Path,
    *,
    start: int = START,
    slice_rows: int | None = None,
    spread: Spread | None = in_turn,
) -> Sealed:
    return seal(
        frame,
        vocab=DatasetVocabulary(),
        system_time=NOON,
        event_time=NOON,
        start=start,
        in_force=None,
        into=into,
        slice_rows=slice_rows,
        spread=spread,
    )


@given(data=st.data())
def test_rows_cut_anywhere_are_the_same_rows(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any))
    rows = sum(sizes)
    slice_rows = data.draw(st.integers(1, rows + 1))
    table = sample(rows)
    with TemporaryDirectory() as name:
        folder = Path(name)
        frame = in_parts(table, sizes, folder, data.draw(st.integers(1, 40)))
        cut = sealed(frame, folder / "cut.parquet", slice_rows=slice_rows)
        whole = sealed(Frame.of(table), folder / "whole.parquet")
        paths = [each.path for each in cut.slices]
        assert read_slices(paths, schema=cut.schema) == read_slices(
            [folder / "whole.parquet"], schema=whole.schema
        )
        assert (cut.records, cut.watermark, cut.schema) == (rows, whole.watermark, whole.schema)
        assert len(cut.slices) == -(-rows // slice_rows)
        at = START
        for each in cut.slices:
            count = min(slice_rows, START + rows - at)
            interval = each.data.offset_interval
            assert (interval.start, interval.end) == (at, at + count - 1)
            alone = Frame.of(table.slice(at - START, count))
            same = sealed(alone, folder / "alone.parquet", start=at).slices[0]
            assert (each.data.logical_hash, each.watermark) == (
                same.data.logical_hash,
                same.watermark,
            )
            assert each.data.logical_hash == logical_hash(pq.read_table(each.path))
            assert each.data.physical_hash == physical_hash(each.path)
            assert each.data.size == each.path.stat().st_size
            at += count


def test_slices_do_not_depend_on_files_and_who_writes_them(tmp_path: Path) -> None:
    table = sample(100)
    for name in "abc":
        (tmp_path / name).mkdir()
    one = sealed(in_parts(table, [100], tmp_path / "a"), tmp_path / "a" / "s", slice_rows=30)
    many = sealed(in_parts(table, [9, 0, 91], tmp_path / "b"), tmp_path / "b" / "s", slice_rows=30)
    memory = sealed(Frame.of(table), tmp_path / "c" / "s", slice_rows=30, spread=None)
    assert [each.data for each in one.slices] == [each.data for each in many.slices]
    assert [each.data for each in one.slices] == [each.data for each in memory.slices]


def test_rows_in_memory_and_single_slices_are_written_here(tmp_path: Path) -> None:
    def never(function: Callable[[Item], Result], items: Sequence[Item], /) -> tuple[Result, ...]:
        raise AssertionError

    table = sample(10)
    assert len(sealed(Frame.of(table), tmp_path / "a", slice_rows=4, spread=never).slices) == 3
    frame = in_parts(table, [10], tmp_path)
    assert len(sealed(frame, tmp_path / "b", slice_rows=10, spread=never).slices) == 1
    assert sealed(frame.slice(0, 0), tmp_path / "c", slice_rows=1, spread=never).slices == ()


def test_several_slices_are_not_taken_for_one(tmp_path: Path) -> None:
    several = sealed(Frame.of(sample(3)), tmp_path / "a", slice_rows=2)
    with pytest.raises(ValueError, match="several slices"):
        _ = several.slice


# --- in chains --------------------------------------------------------------------------------


@dataclass
class FileEngine(FakeEngine):
    """Gives what it merges as files of a few rows each, as Spark gives much."""

    part_rows: int = 5
    required: tuple[str, ...] = ()

    def ingest(self, request: IngestRequest) -> Frame:
        merged = super().ingest(request).table
        assert merged is not None
        sizes = [self.part_rows] * -(-merged.num_rows // self.part_rows)
        frame = in_parts(merged, sizes or [0], request.staging)
        fields = [f.with_nullable(f.name not in self.required) for f in merged.schema]
        return replace(frame, schema=pa.schema(fields))


class Cutting(Workshop):
    """A workshop whose slices have three rows."""

    def site(self) -> Site:
        return replace(super().site(), slice_rows=3)


def rounds(report: RunReport) -> list[Round]:
    done = [outcome for _, outcome in report.outcomes if isinstance(outcome, Done)]
    return [each for outcome in done for each in outcome.rounds]


def test_a_large_input_is_several_blocks_under_one_head_move(tmp_path: Path) -> None:
    shop = Cutting(tmp_path, FileEngine())
    shop.file("a.csv", *(f"2024-01-{9 - row:02},k{row},{row}" for row in range(8)))
    report = shop.apply([ledger()])
    assert not report.failures
    dataset = shop.dataset("src")
    added = [(hash, block) for hash, block in dataset.blocks() if isinstance(block.event, AddData)]
    events = [block.event for _, block in added if isinstance(block.event, AddData)]
    assert "spread" in shop.engine.asked
    assert shop.kinds("src")[-4:] == ["SetDataSchema", "AddData", "AddData", "AddData"]
    assert [event.prev_offset for event in events] == [None, 2, 5]
    assert [event.new_data.offset_interval.end for event in events if event.new_data] == [2, 5, 7]
    latest = [Timestamp.parse(f"2024-01-0{day}T00:00:00Z") for day in (4, 7, 9)]
    assert [event.new_watermark for event in events] == latest
    assert [is_partial(event) for event in events] == [True, True, False]
    assert {block.system_time for _, block in added} == {shop.now}
    assert verify(dataset).findings == ()
    (done,) = [each for each in rounds(report) if each.source == "data/a.csv"]
    assert (done.blocks, done.records) == (4, 8)


def test_the_next_input_goes_on_from_the_last_slice(tmp_path: Path) -> None:
    shop = Cutting(tmp_path, FileEngine())
    for name in "ab":
        shop.file(f"{name}.csv", *(f"2024-01-0{row + 1},{name}{row},{row}" for row in range(4)))
    assert not shop.apply([ledger()]).failures
    assert [row[0] for row in shop.rows("src")] == list(range(8))
    assert shop.kinds("src").count("AddData") == 4
    states = [
        block.event.new_source_state
        for _, block in shop.dataset("src").blocks()
        if isinstance(block.event, AddData)
    ]
    partial = partial_state("default")
    assert [states[0], states[2]] == [partial, partial]
    assert [each and each.value for each in (states[1], states[3])] == ["a.csv", "b.csv"]
    assert not shop.apply([ledger()]).failures
    assert shop.kinds("src").count("AddData") == 4


def test_a_null_in_the_last_part_of_a_required_column_commits_nothing(tmp_path: Path) -> None:
    shop = Cutting(tmp_path, FileEngine(required=("v",)))
    shop.file("a.csv", *(f"2024-01-0{row + 1},k{row},{row}" for row in range(8)), "2024-01-09,z,")
    (failed,) = shop.apply([ledger()]).failures
    assert isinstance(failed[1].error, NullValuesError)
    assert "AddData" not in shop.kinds("src")
    assert shop.dataset("src").slices() == ()


def test_a_chain_that_ends_inside_of_an_input_is_not_read_on(tmp_path: Path) -> None:
    shop = Cutting(tmp_path, FileEngine())
    for name in "ab":
        shop.file(f"{name}.csv", *(f"2024-01-0{row + 1},{name}{row},{row}" for row in range(8)))
    assert not shop.apply([ledger()]).failures
    dataset, rows = shop.dataset("src"), shop.rows("src")
    blocks = list(dataset.blocks())
    whole = {hash for hash, inside in blocks_in_part(blocks) if not inside}
    assert len(blocks) - len(whole) == 4
    for hash, _ in blocks[4:]:
        dataset.set_head(hash, dataset.head())
        failures = shop.apply([ledger()]).failures
        assert [failed.error.code for _, failed in failures] == [
            *([] if hash in whole else ["partial-input"])
        ]
        if hash in whole:
            assert [row[1:] for row in shop.rows("src")] == [row[1:] for row in rows]
