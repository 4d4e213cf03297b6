"""A condensed history on Spark stands for the whole, in memory and through files."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from tests.executors.engine.spark.tables import MILLIS, VOCAB, ingest_request, rows_of

pytestmark = pytest.mark.spark

KEY = ("x", "k")
DATA = pa.schema(
    [
        ("event_time", MILLIS),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("u", pa.uint64()),
    ]
)
STORED = pa.schema([("offset", pa.int64()), ("op", pa.int32()), *DATA])
LEDGER = MergeStrategyLedger(primary_key=KEY)
SNAPSHOT = MergeStrategySnapshot(primary_key=KEY)
UPSERT = MergeStrategyUpsertStream(primary_key=KEY)
CHANGELOG = MergeStrategyChangelogStream(primary_key=KEY)


def row(k: str | None, x: float | None, u: int = 0, **more: Any) -> dict[str, Any]:
    time = datetime(2030, 1, 1, microsecond=1000, tzinfo=UTC)
    return {"event_time": time, "k": k, "x": x, "m": [("a", u)], "u": 2**64 - 1 - u, **more}


OLDER = [
    *[row("a", 0.0, op=0), row("b", math.nan, op=0), row("c", 1.0, op=0), row("d", 2.0, op=0)],
    *[row("a", -0.0, op=2), row("a", -0.0, 1, op=3), row("c", 1.0, op=1)],
]
LATER = [row("c", 1.0, 5, op=0), row("d", 2.0, op=1), row("e", 0.5, op=0)]
NEW = [row("a", 0.0, 1), row("b", math.nan, 7), row("c", 1.0, 5), row("d", 2.0), row("z", 9.0)]
NULLS = [row(None, 1.0, op=0), row("n", None, op=0), row("n", None, 1, op=0)]


def stored(rows: list[dict[str, Any]], start: int) -> pa.Table:
    numbered = [{"offset": at, **each} for at, each in enumerate(rows, start)]
    return pa.Table.from_pylist(numbered, schema=STORED)


def condensed(engine: SparkEngine, request: IngestRequest, folder: Path) -> tuple[Path, ...]:
    assert request.in_force is not None
    return engine.condense(
        CondenseRequest(
            merge=request.merge,
            vocab=VOCAB,
            history=request.history,
            in_force=request.in_force,
            into=folder,
        )
    )


def shown(engine: SparkEngine, request: IngestRequest) -> list[str]:
    """Return the merged rows as text, because NaN is not equal to itself."""
    return [repr(each) for each in rows_of(engine.ingest(request))]


@pytest.mark.parametrize("merge", [LEDGER, SNAPSHOT, UPSERT, CHANGELOG])
def test_a_condensed_history_merges_as_the_whole(
    merge: MergeStrategy, either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.Table.from_pylist(NEW, schema=DATA)
    if merge == LEDGER:
        source = pa.concat_tables([source, pa.Table.from_pylist(NULLS, schema=DATA)])
    if merge == CHANGELOG:
        taken_back = pa.array([1] * len(NEW), pa.int32())
        source = source.append_column("op", taken_back).drop_columns(["event_time"])
    history = [stored([*OLDER, *NULLS], 0), stored(LATER, len(OLDER) + len(NULLS))]
    request = ingest_request(tmp_path, source, merge, history)
    whole = shown(either_way, request)
    first = replace(request, history=request.history[:1])
    short = condensed(either_way, first, tmp_path / "once")
    again = replace(request, history=(*short, request.history[1]))
    assert shown(either_way, again) == whole
    twice = replace(request, history=condensed(either_way, again, tmp_path / "twice"))
    assert shown(either_way, twice) == whole
    assert whole


def test_a_condensed_history_holds_the_last_records_by_key(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    request = ingest_request(tmp_path, stored([], 0), SNAPSHOT, [stored(OLDER, 0)])
    (path,) = condensed(either_way, request, tmp_path / "state")
    rows = pq.read_table(path).to_pylist()
    assert [each["k"] for each in rows] == ["a", "d", "b"]
    assert [each["offset"] for each in rows] == [5, 3, 1]


def test_a_condensed_ledger_holds_each_whole_key_once(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    history = [stored([*OLDER, *NULLS], 0)]
    request = ingest_request(tmp_path, stored([], 0), LEDGER, history)
    (path,) = condensed(either_way, request, tmp_path / "state")
    table = pq.read_table(path)
    assert table.schema.names == ["x", "k"]
    assert table.column("k").to_pylist() == ["a", "c", "d", "b"]


def test_a_column_that_came_later_is_null_in_a_condensed_history(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    older = stored([row("a", 1.0, op=0)], 0)
    short = condensed(
        either_way,
        ingest_request(tmp_path, older, SNAPSHOT, [older.drop_columns(["u"])]),
        tmp_path / "state",
    )
    source = pa.Table.from_pylist([row("a", 1.0)], schema=DATA)
    request = ingest_request(tmp_path, source, SNAPSHOT, [older])
    found = rows_of(either_way.ingest(replace(request, history=short)))
    assert [(each["op"], each["u"]) for each in found] == [(2, None), (3, 2**64 - 1)]
