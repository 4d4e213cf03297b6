"""Types that Spark has in its own way: times of day, UUIDs, geometries."""

import struct
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import CondenseRequest
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import MergeStrategyAppend, MergeStrategyLedger
from tests.executors.engine.spark.tables import (
    MILLIS,
    VOCAB,
    ingest_request,
    sql,
    strategy_of,
    work_on,
)

pytestmark = pytest.mark.spark

ID = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6").bytes
NOON = time(12, 34, 56, 789000)
POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.5)
INNER = pa.struct([pa.field("t", pa.time64("us")), pa.field("m", pa.map_(pa.string(), pa.int32()))])
TABLE = pa.table(
    {
        "k": pa.array([1, 2], pa.int32()),
        "t": pa.array([NOON, None], pa.time64("us")),
        "u": pa.array([ID, None], pa.binary(16)),
        "s": pa.array([[{"t": NOON, "m": [("a", 1)]}], None], pa.list_(INNER)),
        "d": pa.array([None, 1], pa.decimal128(38, 10)),
        "g": pa.array([POINT, None], pa.binary()),
    }
)


def rows(frame: Frame) -> list[dict[str, Any]]:
    return [row for batch in frame.batches() for row in batch.to_pylist()]


def test_times_and_uuids_go_through_spark_unchanged(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    for merge in (MergeStrategyAppend(), MergeStrategyLedger(primary_key=("t", "u"))):
        found = either_way.ingest(ingest_request(tmp_path, TABLE, merge, as_file=True))
        assert [{k: v for k, v in row.items() if k != "op"} for row in rows(found)] == (
            TABLE.to_pylist()
        )
        assert found.schema.field("t").type == pa.time64("us")
        assert found.schema.field("u").type == pa.binary(16)


def test_queries_work_with_times_and_geometries(either_way: SparkEngine, tmp_path: Path) -> None:
    query = """
        SELECT k, hour(t) AS h, CAST('01:02:03' AS TIME) AS c,
               st_asbinary(st_geomfromwkb(g)) AS g,
               st_srid(st_setsrid(st_geomfromwkb(g), 4326)) AS s
        FROM input ORDER BY k
    """
    request = ingest_request(tmp_path, TABLE, MergeStrategyAppend(), preprocess=query, as_file=True)
    assert rows(either_way.ingest(request)) == [
        {"op": 0, "k": 1, "h": 12, "c": time(1, 2, 3), "g": POINT, "s": 4326},
        {"op": 0, "k": 2, "h": None, "c": time(1, 2, 3), "g": None, "s": None},
    ]


@pytest.mark.parametrize(
    ("column", "kind", "fix"),
    [
        ("st_geomfromwkb(g)", "GEOMETRY", "select st_asbinary(x) AS x"),
        ("st_geogfromwkb(g)", "GEOGRAPHY", "select st_asbinary(x) AS x"),
        ("array(named_struct('a', st_geomfromwkb(g)))", "GEOMETRY", "apply st_asbinary"),
    ],
)
def test_a_geometry_is_not_kept_as_it_is(
    either_way: SparkEngine, tmp_path: Path, column: str, kind: str, fix: str
) -> None:
    query = f"SELECT k, {column} AS x FROM input"
    request = ingest_request(tmp_path, TABLE, MergeStrategyAppend(), preprocess=query)
    with pytest.raises(InvalidQueryError) as caught:
        either_way.ingest(request)
    assert caught.value.what == f"the column x of the query is a {kind}"
    assert caught.value.fix.startswith(fix)


def test_a_transform_keeps_times_and_no_geometries(either_way: SparkEngine, tmp_path: Path) -> None:
    moment = pa.array([0, 0], pa.timestamp("ms", "UTC"))
    numbers = {"offset": pa.array([0, 1], pa.int64()), "op": pa.array([0, 0], pa.int32())}
    columns = {name: TABLE[name] for name in ("t", "u", "g")}
    rows_in = pa.table({**numbers, "system_time": moment, "event_time": moment, **columns})
    found = either_way.transform(
        work_on(tmp_path, sql("SELECT event_time, t, u FROM a"), a=[rows_in])
    )
    assert [(row["t"], row["u"]) for row in rows(found)] == [(NOON, ID), (None, None)]
    query = sql("SELECT event_time, st_geomfromwkb(g) AS g FROM a")
    with pytest.raises(InvalidQueryError, match="the column g of the query is a GEOMETRY"):
        either_way.transform(work_on(tmp_path, query, a=[rows_in]))


TIMED = pa.schema(
    [("event_time", MILLIS), ("t", pa.time64("us")), ("s", pa.list_(INNER)), ("v", pa.int32())]
)


def timed(rows: list[tuple[time, int]]) -> pa.Table:
    return pa.Table.from_pylist([_timed(*row) for row in rows], schema=TIMED)


def _timed(at: time, value: int) -> dict[str, Any]:
    stamp = datetime(2030, 1, 1, tzinfo=UTC)
    return {"event_time": stamp, "t": at, "s": [{"t": at, "m": [("a", value)]}], "v": value}


@pytest.mark.parametrize("kind", ["Ledger", "Snapshot", "UpsertStream"])
def test_times_are_keys_and_values_of_every_merge(
    kind: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    merge = strategy_of({"kind": kind, "primaryKey": ["t"]})
    early = time(0, 0, 0, 1)
    first = either_way.ingest(ingest_request(tmp_path, timed([(NOON, 1), (early, 1)]), merge))
    assert sorted((row["t"], row["s"][0]["t"]) for row in rows(first)) == [
        (early, early),
        (NOON, NOON),
    ]
    table = pa.Table.from_batches(first.batches(), schema=first.schema)
    history = table.add_column(0, "offset", pa.array([0, 1], pa.int64()))
    request = ingest_request(tmp_path, timed([(NOON, 2), (early, 1)]), merge, [history])
    changed = [] if kind == "Ledger" else [(2, NOON, 1), (3, NOON, 2)]
    assert request.in_force is not None
    again = [request]
    into = tmp_path / "condensed"
    condensed = CondenseRequest(
        merge=merge, vocab=VOCAB, history=request.history, in_force=request.in_force, into=into
    )
    again.append(replace(request, history=either_way.condense(condensed)))
    for each in again:
        found = rows(either_way.ingest(each))
        assert [(row["op"], row["t"], row["v"]) for row in found] == changed
