"""Sources that are larger than the memory of a merge are sorted on disk."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from tests.executors.engine.spark.tables import MILLIS, ingest_request

MERGES = (MergeStrategyLedger, MergeStrategySnapshot, MergeStrategyUpsertStream)
ROWS = 62_500
MEMORY = 32 << 20


def rows(first: int, value: str) -> pa.Table:
    """Return rows in no order; their keys are those from `first` on, in another one."""
    numbers = pa.array([(at * 7_919) % ROWS for at in range(ROWS)], pa.int64())
    return pa.table(
        {
            "event_time": pc.multiply(numbers, 1_000).cast(MILLIS),
            "k": pc.add(numbers, first),
            "v": pa.array([f"{value}{at:0600d}" for at in range(ROWS)]),
        }
    )


def history(table: pa.Table) -> pa.Table:
    offsets = pa.array(range(len(table)), pa.int64())
    table = table.add_column(0, "system_time", table.column("event_time"))
    table = table.add_column(0, "op", pa.repeat(pa.scalar(0, pa.int32()), len(table)))
    return table.add_column(0, "offset", offsets)


@pytest.mark.parametrize(
    ("merge", "counts"),
    [
        (MergeStrategyAppend(), {0: ROWS}),
        (MergeStrategyLedger(primary_key=("k",)), {0: ROWS // 2}),
        (
            MergeStrategySnapshot(primary_key=("k",)),
            {1: ROWS // 2, 2: ROWS // 2, 3: ROWS // 2, 0: ROWS // 2},
        ),
    ],
    ids=["append", "ledger", "snapshot"],
)
def test_what_does_not_fit_into_memory_is_sorted_on_disk(
    merge: MergeStrategy, counts: dict[int, int], tmp_path: Path
) -> None:
    source = rows(ROWS // 2, "new")
    assert source.nbytes > MEMORY
    past = () if isinstance(merge, MergeStrategyAppend) else (history(rows(0, "old")),)
    request = ingest_request(tmp_path, source, merge, past, as_file=True)
    merged = ArrowMerger(memory=MEMORY, held=1 << 20, appended=0).ingest(request)
    assert merged.parts
    order = "k" if isinstance(merge, MergeStrategySnapshot) else "event_time"
    found: dict[int, int] = {}
    last = None
    for batch in merged.batches():
        for each in pc.value_counts(batch.column("op")).to_pylist():
            found[each["values"]] = found.get(each["values"], 0) + each["counts"]
        values = batch.column(order).cast(pa.int64()).to_pylist()
        assert last is None or last <= values[0]
        assert values == sorted(values)
        last = values[-1]
    assert found == counts


@pytest.mark.parametrize("size", [20_000, 200_000, 500_000], ids="{:,} bytes".format)
@pytest.mark.parametrize(
    "merge",
    [MergeStrategyAppend(), MergeStrategySnapshot(primary_key=("k",))],
    ids=["append", "snapshot"],
)
@pytest.mark.parametrize("short", [0, 20_000], ids="after {:,} short ones".format)
def test_rows_of_long_texts_are_sorted_on_disk(
    merge: MergeStrategy, size: int, short: int, tmp_path: Path
) -> None:
    """Batches have as many rows as memory permits.

    Short rows, among long ones or before all of them, do not hide how long these are.
    """
    count = short + 3 * MEMORY // size
    is_long = [at >= short and at % 4 > 0 for at in range(count)]
    table = pa.table(
        {
            "event_time": pa.array([(at * 7_919) % count for at in range(count)]).cast(MILLIS),
            "k": pa.array([f"{at:064}" for at in range(count)]),
            "v": pa.array([f"{at}".ljust(size, "x") if is_long[at] else "" for at in range(count)]),
        }
    )
    request = ingest_request(tmp_path, table, merge, (), as_file=True)
    merged = ArrowMerger(memory=MEMORY, held=1 << 20, appended=0).ingest(request)
    expected = table.sort_by("event_time").select(["k", "v"])
    if isinstance(merge, MergeStrategySnapshot):
        expected = table.sort_by("k").select(["k", "v"])
    found = pa.concat_tables(pa.Table.from_batches([each]) for each in merged.batches())
    assert found.select(["k", "v"]).cast(expected.schema).equals(expected)
    assert not list(tmp_path.glob("**/.tmp*")), "files that were spilled are left"


@pytest.mark.parametrize("merge", MERGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("names", [["k"], ["flag", "k"], ["text"]], ids="+".join)
def test_rows_that_are_shorter_than_their_sort_keys_are_sorted_on_disk(
    merge: Callable[..., MergeStrategy], names: list[str], tmp_path: Path
) -> None:
    count = 400_000
    numbers = pa.array([(at * 7_919) % count for at in range(count)], pa.int64())
    kinds = {
        "k": numbers,
        "flag": pc.equal(pc.bit_wise_and(numbers, 1), 0),
        "text": numbers.cast(pa.string()),
    }
    table = pa.table({name: kinds[name] for name in names})
    request = ingest_request(tmp_path, table, merge(primary_key=tuple(names)), (), as_file=True)
    merged = ArrowMerger(memory=8 << 20, held=1 << 20, appended=0).ingest(request)
    found = pa.Table.from_batches(merged.batches(), merged.schema).select(names)
    expected = table
    if merge is not MergeStrategyLedger:
        expected = table.sort_by([(name, "ascending") for name in names])
    assert found.cast(expected.schema).equals(expected)
