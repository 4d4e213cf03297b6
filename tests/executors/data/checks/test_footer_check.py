"""What a footer says of values is held against them, whatever their type and wherever they are."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.checks.footer_check import FooterCheck

KINDS: Sequence[tuple[pa.DataType, Any, Any]] = (
    (pa.int8(), 1, 2),
    (pa.int64(), -1, 2),
    (pa.uint8(), 1, 200),
    (pa.uint32(), 1, 4_000_000_000),
    (pa.uint64(), 1, 2**63 + 5),
    (pa.bool_(), False, True),
    (pa.float16(), -1.5, 2.0),
    (pa.float32(), -1.5, 2.0),
    (pa.float64(), 0.0, float("inf")),
    (pa.decimal128(9, 2), Decimal("-1.50"), Decimal("2.00")),
    (pa.decimal128(18, 2), Decimal("-1.50"), Decimal("2.00")),
    (pa.decimal128(38, 2), Decimal("-1.50"), Decimal("2.00")),
    (pa.decimal256(50, 2), Decimal("-1.50"), Decimal("2.00")),
    (pa.date32(), date(1960, 1, 1), date(2020, 1, 1)),
    (pa.time32("ms"), time(1), time(2)),
    (pa.time64("us"), time(1), time(2)),
    (pa.timestamp("ms", "UTC"), datetime(1960, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)),
    (pa.timestamp("us"), datetime(1960, 1, 1), datetime(2020, 1, 1)),
    (pa.duration("ms"), timedelta(1), timedelta(2)),
    (pa.string(), "a", "é"),
    (pa.large_string(), "a", "é"),
    (pa.binary(), b"a", b"\xff"),
    (pa.binary(2), b"ab", b"\xff\x00"),
)


def within(value: Any) -> dict[str, Any]:
    """Return a value by itself, and in each of the ways in which one is inside of another."""
    return {
        "v": value,
        "s": {"x": {"y": value}},
        "l": [value],
        "f": [value, value],
        "o": [{"y": [value]}],
        "m": [("k", value)],
    }


def schema(kind: pa.DataType) -> pa.Schema:
    inner = pa.struct([("y", kind)])
    return pa.schema(
        [
            ("v", kind),
            ("s", pa.struct([("x", inner)])),
            ("l", pa.list_(kind)),
            ("f", pa.list_(kind, 2)),
            ("o", pa.list_(pa.struct([("y", pa.list_(kind))]))),
            ("m", pa.map_(pa.string(), kind)),
        ]
    )


def table(kind: pa.DataType, *values: Any) -> pa.Table:
    columns = schema(kind)
    rows = [dict.fromkeys(columns.names) if v is None else within(v) for v in values]
    arrays = [pa.array([row[each.name] for row in rows], each.type) for each in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def untrue(path: Path, rows: pa.Table) -> list[str]:
    """Return what the footer of a file is wrong about, if its rows were these."""
    check = FooterCheck(path)
    for batch in rows.to_batches(max_chunksize=1):
        check.update(0, batch)
    assert list(check.miscounts()) == []
    return list(check.untrue())


@pytest.mark.parametrize("stored", [True, False], ids=["with-arrow", "plain"])
@pytest.mark.parametrize(("kind", "low", "high"), KINDS, ids=[str(each[0]) for each in KINDS])
def test_a_value_beyond_the_bounds_is_found(
    kind: pa.DataType, low: Any, high: Any, stored: bool, tmp_path: Path
) -> None:
    path = tmp_path / "slice.parquet"
    leaves = {"v", "s.x.y", "l.list.element", "f.list.element", "o.list.element.y.list.element"}
    leaves |= {"m.key_value.value"}
    for bound in low, high:
        said = table(kind, bound, bound, None)
        pq.write_table(said, path, store_schema=stored, store_decimal_as_integer=stored)
        assert untrue(path, said) == []
        there = table(kind, bound, high if bound == low else low, None)
        assert set(untrue(path, there)) == leaves
        path.unlink()


def test_the_values_of_a_dictionary_are_those_of_the_column(tmp_path: Path) -> None:
    path = tmp_path / "slice.parquet"
    said, there = (pa.table({"v": pa.array(v).dictionary_encode()}) for v in (["a"], ["z"]))
    pq.write_table(said, path)
    assert untrue(path, said) == []
    assert untrue(path, there) == ["v"]


def test_nan_has_no_bounds_and_zeros_are_one(tmp_path: Path) -> None:
    path = tmp_path / "slice.parquet"
    rows = table(pa.float64(), float("nan"), 0.0, -0.0)
    pq.write_table(rows, path)
    assert untrue(path, rows) == []


def test_nulls_are_counted_where_each_row_has_one_value(tmp_path: Path) -> None:
    path = tmp_path / "slice.parquet"
    pq.write_table(table(pa.int32(), 1, 1), path)
    assert untrue(path, table(pa.int32(), 1, None)) == ["v", "s.x.y"]
