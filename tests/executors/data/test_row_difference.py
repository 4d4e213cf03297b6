"""Changelogs between two tables, against counting and sorting in plain Python."""

import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.rows import difference, is_orderly

Row: TypeAlias = tuple[Any, ...]
_SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("d", pa.decimal128(9, 1)),
        ("b", pa.bool_()),
        ("y", pa.date32()),
        ("z", pa.binary()),
    ]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROW = st.tuples(
    st.integers(-1, 1).map(lambda n: _EPOCH + timedelta(microseconds=n)),
    st.sampled_from([None, "", "a", "é", "\U0001f40c", "z"]),
    st.sampled_from([None, math.nan, -math.inf, -1.0, -0.0, 0.0, math.inf]),
    st.sampled_from([None, Decimal("-1.5"), Decimal("10.0")]),
    st.none() | st.booleans(),
    st.sampled_from([None, date(1969, 12, 31), date(1970, 1, 1)]),
    st.sampled_from([None, b"", b"\x00", b"\xff"]),
)
_FEW = st.tuples(
    st.just(_EPOCH), st.sampled_from([None, "a"]),
    st.sampled_from([None, math.nan, 0.0, -0.0, 1.0]), st.just(None),
    st.booleans(), st.just(None), st.just(b""),
)  # fmt: skip
_ROWS = st.lists(_FEW | _ROW, max_size=7)


def _plain(row: Row) -> Row:
    return tuple("NaN" if _is_nan(each) else 0.0 if each == 0.0 else each for each in row)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _compare(one: Row, other: Row) -> int:
    """Compare rows as SQL sorts them: nulls first, NaN last, texts by their bytes."""
    for a, b in zip(one, other, strict=True):
        left, right = _rank(a), _rank(b)
        if left != right:
            return -1 if left < right else 1
    return 0


def _rank(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if value == "NaN" or _is_nan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def _table(rows: list[Row]) -> pa.Table:
    named = [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, _SCHEMA)


def _changes(before: list[Row], after: list[Row], key: tuple[str, ...]) -> list[tuple[int, Row]]:
    found = difference(_table(before), _table(after), op="op", key=key)
    return [
        (row["op"], _plain(tuple(row[name] for name in _SCHEMA.names))) for row in found.to_pylist()
    ]


@given(_ROWS, _ROWS)
def test_what_goes_and_comes_is_sorted_by_all_columns(before: list[Row], after: list[Row]) -> None:
    old, new = (Counter(map(_plain, rows)) for rows in (before, after))
    expected = [
        *((1, row) for row in (old - new).elements()),
        *((0, row) for row in (new - old).elements()),
    ]
    expected.sort(key=lambda each: cmp_to_key(_compare)(each[1]))
    assert _changes(before, after, ()) == expected


@given(_ROWS, _ROWS, st.sampled_from([("k",), ("x",), ("b", "k")]))
def test_changes_lead_from_one_to_the_other_in_pairs_of_a_key(
    before: list[Row], after: list[Row], key: tuple[str, ...]
) -> None:
    changes = _changes(before, after, key)
    old, new = (Counter(map(_plain, rows)) for rows in (before, after))
    gone = Counter(row for op, row in changes if op in (1, 2))
    come = Counter(row for op, row in changes if op in (0, 3))
    assert (gone, come) == (old - new, new - old)
    places = [_SCHEMA.names.index(name) for name in key]
    named = [tuple(row[at] for at in places) for _, row in changes]
    for number, (op, _) in enumerate(changes):
        if op == 2:
            assert changes[number + 1][0] == 3
            assert named[number + 1] == named[number]
    for name in set(named):
        ops = Counter(op for (op, _), each in zip(changes, named, strict=True) if each == name)
        assert ops[2] == ops[3]
        assert not (ops[0] and ops[1])
    heads = [row for op, row in changes if op != 3]
    assert heads == sorted(heads, key=cmp_to_key(_compare))


def test_the_first_that_goes_is_paired_with_the_first_that_comes() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    before = pa.table({"k": ["a", "a", "b"], "v": [5, 1, 2]}, schema=schema)
    after = pa.table({"k": ["a", "c", "a", "a"], "v": [9, 0, 2, 7]}, schema=schema)
    found = difference(before, after, op="op", key=("k",)).to_pylist()
    assert [(row["op"], row["k"], row["v"]) for row in found] == [
        (2, "a", 1), (3, "a", 2), (2, "a", 5), (3, "a", 7), (0, "a", 9), (1, "b", 2), (0, "c", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8()), pa.null()])
def test_rows_with_such_columns_are_left_to_the_engine(kind: pa.DataType) -> None:
    assert not is_orderly(pa.schema([("a", pa.int64()), ("b", kind)]))
    assert is_orderly(_SCHEMA)
