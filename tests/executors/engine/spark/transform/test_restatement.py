"""Spark corrects what another query wrote: all of it, or what a step touches."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.chain.state import vocabulary
from odfbuild.odf.events import OffsetInterval, SetVocab, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow

VOCAB = vocabulary(SetVocab())
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
INSTANT = pa.timestamp("ms", "UTC")
SYSTEM = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", INSTANT)]
SCHEMA = pa.schema([*SYSTEM, ("event_time", INSTANT), ("k", pa.string()), ("v", pa.int64())])
WIDER = SCHEMA.append(pa.field("gone", pa.string()))

Row = tuple[int, str, int]
# a pair that only its second row passes, and a retraction
INPUT: Sequence[Row] = [
    (0, "a", 1),
    (0, "b", -2),
    (0, "c", 3),
    (2, "b", -2),
    (3, "b", 2),
    (1, "c", 3),
]
HELD: Sequence[Row] = [(0, "a", 10), (0, "b", 20)]


def slice_of(path: Path, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> Path:
    made = [
        {
            "offset": n,
            "op": op,
            "system_time": NOON,
            "event_time": NOON,
            "k": k,
            "v": v,
            "gone": "x",
        }
        for n, (op, k, v) in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(made, schema), path)
    return path


def step(
    engine: SparkEngine, folder: Path, query: str, *, in_full: bool = True, new: int = 0
) -> list[dict[str, Any]]:
    """Run a query over what was read before and `new` last rows; return the changes."""
    old, later = INPUT[: len(INPUT) - new], INPUT[len(INPUT) - new :]
    past = slice_of(folder / "past.parquet", old)
    paths = []
    if new:
        table = pq.read_table(slice_of(folder / "new.parquet", [*old, *later])).slice(len(old))
        pq.write_table(table, folder / "new.parquet")
        paths = [folder / "new.parquet"]
    source = TransformInputFrame(
        alias="src",
        paths=tuple(paths),
        interval=OffsetInterval(len(old), len(INPUT) - 1) if new else None,
        schema=from_arrow(SCHEMA),
        vocab=VOCAB,
        past=(past,),
    )
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    work = TransformWork(
        inputs=(source,),
        query=query_over(transform, (source,), VOCAB),
        vocab=VOCAB,
        staging=folder,
        output=(slice_of(folder / "held.parquet", HELD, WIDER),),
        in_force=from_arrow(WIDER),
        in_full=in_full,
    )
    table = engine.transform(work).table
    assert table is not None
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def left(changes: Sequence[dict[str, Any]]) -> Counter[tuple[str, int, str | None]]:
    """Return what the dataset stands for after the changes."""
    counts = Counter((k, v, "x") for _, k, v in HELD)
    result: Counter[tuple[str, int, str | None]] = Counter(counts)
    for row in changes:
        result[row["k"], row["v"], row["gone"]] += 1 if row["op"] in (0, 3) else -1
    assert min(result.values()) >= 0
    return +result


@pytest.mark.spark
@pytest.mark.parametrize("new", [0, 3])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select event_time, k, v from src where v > 0", {("a", 1): 1, ("b", 2): 1}),
        (
            "select max(event_time) as event_time, k, count(*) as v from src group by k",
            {("a", 1): 1, ("b", 1): 1},
        ),
        ("select op, event_time, k, v from src", {("a", 1): 1, ("b", 2): 1}),
        ("select event_time, k, v from src where op = 0", {("a", 1): 1, ("b", -2): 1, ("c", 3): 1}),
    ],
)
def test_everything_is_corrected_and_a_column_that_goes_is_null(
    query: str, expected: dict[tuple[str, int], int], new: int, engine: SparkEngine, tmp_path: Path
) -> None:
    found = left(step(engine, tmp_path, query, new=new))
    assert found == Counter({(k, v, None): n for (k, v), n in expected.items()})


@pytest.mark.spark
def test_going_on_only_the_touched_keys_follow_the_new_query(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = "select max(event_time) as event_time, k, count(*) as v from src group by k"
    found = left(step(engine, tmp_path, query, in_full=False, new=3))
    assert found == Counter({("a", 10, "x"): 1, ("b", 1, None): 1})
