"""Looking rows up in slices, against the same by plain Python."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data import lookup
from odfbuild.executors.data.lookup import KeyTable, Times, in_millis, look_up

MILLIS = pa.timestamp("ms", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FEW = {
    pa.int32(): st.integers(-2, 2),
    pa.int64(): st.integers(-2, 2) | st.just(2**40),
    pa.uint16(): st.integers(0, 3),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "b", "ab", "é", "\U0001f40c", "z" * 300]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\xff", b"a"]),
    pa.date32(): st.dates(date(1969, 12, 30), date(1970, 1, 2)),
    pa.decimal128(12, 2): st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
    MILLIS: st.integers(-2, 2).map(lambda n: _EPOCH + timedelta(milliseconds=n)),
}


@st.composite
def _kept(draw: st.DrawFn) -> tuple[pa.Schema, list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return a schema, the rows of some files and some keys; the key is the first columns."""
    kinds = draw(st.lists(st.sampled_from(list(_FEW)), min_size=1, max_size=3))
    names = [f"k{number}" for number in range(len(kinds))]
    key = st.fixed_dictionaries(
        {name: st.none() | _FEW[kind] for name, kind in zip(names, kinds, strict=True)}
    )
    files = draw(st.lists(st.lists(key, max_size=8), max_size=4))
    rows = [
        [{**row, "n": 100 * number + at} for at, row in enumerate(each)]
        for number, each in enumerate(files)
    ]
    schema = pa.schema([*zip(names, kinds, strict=True), ("n", pa.int64())])
    return schema, rows, draw(st.lists(key, min_size=1, max_size=4))


def _written(folder: Path, files: Sequence[list[dict[str, Any]]], schema: pa.Schema) -> list[Path]:
    paths = []
    for number, rows in enumerate(files):
        paths.append(folder / f"{number}.parquet")
        there = list(schema.names) if not rows else list(rows[0])
        kept = pa.schema([schema.field(name) for name in there])
        pq.write_table(pa.Table.from_pylist(rows, kept), paths[-1], row_group_size=3)
    return paths


@given(_kept(), st.booleans())
def test_the_rows_of_some_keys_come_in_order(
    kept: tuple[pa.Schema, list[list[dict[str, Any]]], list[dict[str, Any]]], dictionary: bool
) -> None:
    schema, files, keys = kept
    names = [name for name in schema.names if name != "n"]
    stored = schema
    if dictionary:  # a column that Arrow takes for a dictionary holds the same values
        texts = [
            field.with_type(pa.dictionary(pa.int32(), field.type))
            if pa.types.is_string(field.type)
            else field
            for field in schema
        ]
        stored = pa.schema(texts)
    condition = KeyTable.of(pa.Table.from_pylist(keys, pa.schema([schema.field(n) for n in names])))
    assert condition is not None
    with tempfile.TemporaryDirectory() as folder:
        paths = _written(Path(folder), files, stored)
        found = look_up(paths, schema, condition, most=1 << 20)
    assert found is not None
    expected = [
        row
        for rows in files
        for row in rows
        if any(all(row[name] == key[name] for name in names) for key in keys)
    ]
    assert found.rows.to_pylist() == expected
    assert found.rows.schema.types == schema.types


@given(st.lists(st.none() | st.integers(-4, 4), max_size=12), st.integers(-5, 5), st.integers(0, 5))
def test_the_rows_of_a_span_of_time_come_in_order(
    times: list[int | None], start: int, length: int
) -> None:
    rows = [{"t": time, "n": number} for number, time in enumerate(times)]
    schema = pa.schema([("t", MILLIS), ("n", pa.int64())])
    condition = Times.of("t", MILLIS, start, start + length)
    assert condition is not None
    with tempfile.TemporaryDirectory() as folder:
        found = look_up(_written(Path(folder), [rows], schema), schema, condition, most=1 << 20)
    assert found is not None
    inside = [
        number
        for number, time in enumerate(times)
        if time is not None and start <= time < start + length
    ]
    assert found.rows.column("n").to_pylist() == inside


def test_days_are_their_first_instants(tmp_path: Path) -> None:
    days = [date(1970, 1, 1), date(1970, 1, 2), date(1970, 1, 3), None]
    schema = pa.schema([("t", pa.date32())])
    paths = _written(tmp_path, [[{"t": each} for each in days]], schema)
    condition = Times.of("t", pa.date32(), 1, 2 * 86_400_000)
    found = look_up(paths, schema, condition, most=1 << 20)
    assert found is not None
    assert found.rows.column("t").to_pylist() == [date(1970, 1, 2)]


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    paths = _written(tmp_path, [[{"n": 1}], [{"k": "a", "n": 2}], [{"k": None, "n": 3}]], schema)
    of_null, of_a = (KeyTable.of(pa.table({"k": pa.array([k], pa.string())})) for k in (None, "a"))
    found = look_up(paths, schema, of_null, most=1 << 20)
    assert found is not None
    assert found.rows.to_pylist() == [{"k": None, "n": 1}, {"k": None, "n": 3}]
    found = look_up(paths, schema, of_a, most=1 << 20)
    assert found is not None
    assert found.rows.to_pylist() == [{"k": "a", "n": 2}]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_instants_are_compared_by_milliseconds(tmp_path: Path, unit: str) -> None:
    kind = pa.timestamp(unit)
    ticks = pa.array([1_999, -1, 2_000], pa.int64())
    ticks = pa.array([n * (1 if unit == "us" else 1000) for n in ticks.to_pylist()], pa.int64())
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"t": ticks.cast(kind)}), path, version="2.6")
    schema = pa.schema([("t", in_millis(kind))])
    for millis, count in ((1, 1), (-1, 1), (2, 1), (0, 0)):
        keys = KeyTable.of(pa.table({"t": pa.array([millis], MILLIS)}))
        found = look_up([path], schema, keys, most=1 << 20)
        assert found is not None
        assert found.rows.num_rows == count
        within = look_up([path], schema, Times.of("t", MILLIS, millis, millis + 1), most=1 << 20)
        assert within is not None
        assert within.rows.num_rows == count


def test_files_whose_statistics_exclude_a_key_are_not_read(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    files = [[{"k": 10 * number, "n": number}] * 3 for number in range(4)]
    paths = _written(tmp_path, files, schema)
    found = look_up(paths, schema, KeyTable.of(pa.table({"k": [20]})), most=1 << 20)
    assert found is not None
    assert found.rows.column("n").to_pylist() == [2, 2, 2]
    assert found.read.rows == 3
    nothing = look_up(paths, schema, KeyTable.of(pa.table({"k": [15]})), most=1 << 20)
    assert nothing is not None
    assert (nothing.read.rows, nothing.read.bytes) == (0, 0)
    assert nothing.read.of == sum(path.stat().st_size for path in paths)


def test_other_columns_are_read_only_where_a_row_is_found(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    rows = [{"k": number % 2 * 10 + (number == 4), "n": number} for number in range(9)]
    paths = _written(tmp_path, [rows], schema)
    keys = KeyTable.of(pa.table({"k": [1]}))
    found = look_up(paths, schema, keys, most=1 << 20)
    everything = look_up(paths, schema, None, most=1 << 20)
    assert found is not None
    assert everything is not None
    assert found.rows.to_pylist() == [rows[4]]
    assert found.read.bytes < everything.read.bytes


def test_row_groups_that_several_threads_read_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_ALONE", 0)
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    rows = [{"k": number % 3, "n": number} for number in range(50)]
    paths = _written(tmp_path, [rows, rows], schema)
    found = look_up(paths, schema, KeyTable.of(pa.table({"k": [2]})), most=1 << 20)
    assert found is not None
    assert found.rows.to_pylist() == [row for row in rows + rows if row["k"] == 2]


def test_more_than_was_allowed_is_not_returned(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    paths = _written(tmp_path, [[{"k": 1}] * 100], schema)
    assert look_up(paths, schema, KeyTable.of(pa.table({"k": [1]})), most=100) is None
    assert look_up(paths, schema, KeyTable.of(pa.table({"k": [2]})), most=100) is not None


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.list_(pa.int64()), pa.struct([("a", pa.int8())])]
)
def test_columns_that_compare_otherwise_in_sql_are_not_looked_up(kind: pa.DataType) -> None:
    assert KeyTable.of(pa.table({"k": pa.array([], kind)})) is None
    assert Times.of("k", kind, 0, 1) is None
