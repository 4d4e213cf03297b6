"""Ranges of event times: rows in the order of Python's own sort, however the ranges are."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.frames import FilePart, Frame
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.ingest import ranges
from odfbuild.executors.engine.spark.ingest.ranges import ranges_of
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
)
from tests.executors.engine.spark.tables import MILLIS, ingest_request, rows_of
from tests.support.effort import examples

pytestmark = pytest.mark.spark

TIME = "event_time"
KINDS = {
    "milliseconds": MILLIS,
    "microseconds": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def written(folder: Path, times: Sequence[int | None], kind: pa.DataType, files: int) -> Frame:
    """Write rows in order into files of small row groups, of which each part leaves some out."""
    share = -(-len(times) // files)
    parts = []
    for start in range(0, len(times), share):
        some = times[start : start + share]
        given_times = [None, *some, None]
        table = pa.table(
            {
                TIME: pa.array(given_times, pa.int64() if kind.bit_width == 64 else pa.int32()),
                "n": [-1, *range(start, start + len(some)), -1],
            }
        )
        path = folder / f"{uuid4().hex}.parquet"
        stored = table.set_column(0, TIME, table.column(TIME).cast(kind))
        pq.write_table(stored, path, row_group_size=3)
        parts.append(replace(FilePart.of_file(path), start=1, rows=len(some)))
    schema = pa.schema([(TIME, kind), ("n", pa.int64())])
    return Frame(schema=schema, parts=tuple(parts))


def merged(
    engine: SparkEngine, folder: Path, source: Frame, merge: MergeStrategy, old: pa.Table | None
) -> list[int]:
    history = () if old is None else (old,)
    asked = ingest_request(folder, pa.table({TIME: [], "n": []}), merge, history)
    found = engine.ingest(replace(asked, source=source))
    return [row["n"] for row in rows_of(found)]


@pytest.fixture
def large(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    """Take every step as a large one, and as many ranges as there may be."""
    monkeypatch.setattr(engine, "_limit", -1)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 1)
    return engine


@settings(
    max_examples=examples(4, 150), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    times=st.lists(
        st.none() | st.integers(-3, 3) | st.integers(-(10**6), 10**6), min_size=2, max_size=60
    ),
    kind=st.sampled_from(sorted(KINDS)),
    files=st.integers(1, 3),
    most=st.sampled_from([2, 3, 128]),
    known=st.none() | st.frozensets(st.integers(0, 60), min_size=1, max_size=30),
)
def test_rows_are_in_the_order_of_their_times_and_then_of_their_places(
    large: SparkEngine,
    tmp_path: Path,
    times: list[int | None],
    kind: str,
    files: int,
    most: int,
    known: frozenset[int] | None,
) -> None:
    source = written(tmp_path, times, KINDS[kind], files)
    old: pa.Table | None = None
    merge: MergeStrategy = MergeStrategyAppend()
    left = list(enumerate(times))
    if known is not None:
        merge = MergeStrategyLedger(primary_key=("n",))
        when: object = date(2020, 1, 1) if kind == "date" else datetime(2020, 1, 1, tzinfo=UTC)
        recorded = [
            {"offset": at, "op": 0, TIME: when, "n": n} for at, n in enumerate(sorted(known))
        ]
        schema = [
            ("offset", pa.int64()),
            ("op", pa.int32()),
            *zip(source.schema.names, source.schema.types, strict=True),
        ]
        old = pa.Table.from_pylist(recorded, schema=pa.schema(schema))
        left = [(n, time) for n, time in left if n not in known]
    unit = 1_000 if kind == "microseconds" else 1  # stored in milliseconds

    def place(row: tuple[int, int | None]) -> tuple[bool, int, int]:
        n, time = row
        return time is not None, (time or 0) // unit, n

    with mock.patch.object(ranges, "_MOST_RANGES", most):
        found = ranges_of(source, TIME)
        assert found is not None
        assert 1 <= len(found.borders) < min(most, len(times) + 2 * files)
        rows = merged(large, tmp_path, source, merge, old)
    assert rows == [n for n, _ in sorted(left, key=place)]


def test_one_time_and_no_time_are_divided_by_the_place(large: SparkEngine, tmp_path: Path) -> None:
    times = [None] * 40 + [7] * 40
    source = written(tmp_path, times, MILLIS, 2)
    found = ranges_of(source, TIME)
    assert found is not None
    assert {value for value, _ in found.borders} == {None, 7_000}  # microseconds
    assert len(found.borders) > 40
    assert merged(large, tmp_path, source, MergeStrategyAppend(), None) == list(range(80))


def test_rows_of_one_range_and_without_times_of_a_kind_have_none(tmp_path: Path) -> None:
    assert ranges_of(written(tmp_path, [1, 2, 3], MILLIS, 1), TIME) is None
    table = pa.table({"n": [1, 2], TIME: ["2020-01-01T00:00:00Z", None]})
    pq.write_table(table, tmp_path / "texts.parquet")
    texts = Frame.at(tmp_path / "texts.parquet")
    assert ranges_of(texts, TIME) is None
    assert ranges_of(texts, "at") is None


@pytest.mark.parametrize(
    "name", ["event_time", "__odf_range", "__ODF_Pos", "a.b", "`a`.`b`", "t`x", "q\"'"]
)
def test_columns_may_have_any_name(large: SparkEngine, tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "a": [{"b": 1}, {"b": 2}, {"b": 3}],
            "__odf_pos": [1, 2, 3],
            name: pa.array([2, None, 1], MILLIS),
        }
    )
    pq.write_table(table, tmp_path / "source.parquet", row_group_size=1)
    source = Frame.at(tmp_path / "source.parquet")
    assert ranges_of(source, name) is not None
    vocab = DatasetVocabulary(event_time_column=name)
    asked = ingest_request(tmp_path, table, MergeStrategyAppend(), vocab=vocab)
    rows = rows_of(large.ingest(replace(asked, source=source)))
    assert [(row["a"], row["__odf_pos"]) for row in rows] == [
        ({"b": 2}, 2),
        ({"b": 3}, 3),
        ({"b": 1}, 1),
    ]


def test_files_without_rows_have_no_borders(large: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({TIME: pa.array([], MILLIS), "n": pa.array([], pa.int64())}),
        tmp_path / "none.parquet",
    )
    empty = Frame.at(tmp_path / "none.parquet")
    assert merged(large, tmp_path, empty, MergeStrategyAppend(), None) == []
