"""Sources that are larger than the memory of a merge are sorted on disk."""

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
)
from tests.executors.engine.spark.tables import MILLIS, ingest_request

ROWS = 250_000
MEMORY = 32 << 20


def rows(first: int, value: str) -> pa.Table:
    """Return rows in no order; their keys are those from `first` on, in another one."""
    numbers = pa.array([(at * 7_919) % ROWS for at in range(ROWS)], pa.int64())
    return pa.table(
        {
            "event_time": pc.multiply(numbers, 1_000).cast(MILLIS),
            "k": pc.add(numbers, first),
            "v": pa.array([f"{value}{at:0150d}" for at in range(ROWS)]),
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
    merged = ArrowMerger(memory=MEMORY, held=1 << 20).ingest(request)
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
