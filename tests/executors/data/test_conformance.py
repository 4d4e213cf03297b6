"""Bringing columns to the types of a schema, where parts of nested ones are required."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.conformance import conform, null_column, unexpected_nulls

MAY = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
MUST = pa.struct(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.struct([pa.field("c", pa.string(), False)]), False),
    ]
)


def optional(rows: list[dict[str, Any] | None]) -> pa.Array:
    """Return structs as Spark gives them: where the whole is null, so are its parts."""
    found = [each or {"a": None, "b": None} for each in rows]
    parts = [pa.array([each[name] for each in found], MAY.field(name).type) for name in "ab"]
    gone = pa.array([each is None for each in rows], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=list(MAY), mask=gone)


def written(array: pa.Array) -> list[Any]:
    """Write a column as Parquet, which is strict about required parts, and read it again."""
    buffer = BytesIO()
    pq.write_table(pa.table({"x": array}), buffer)
    return list(pq.read_table(buffer).column("x").to_pylist())


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": {"c": "x"}}, None, {"a": 2, "b": {"c": "y"}}],
        [None, {"a": 1, "b": {"c": "x"}}],
        [None, None],
        [{"a": 1, "b": {"c": "x"}}],
        [],
    ],
    ids=["between", "first", "all", "none", "empty"],
)
def test_required_parts_of_a_null_are_no_nulls(rows: list[dict[str, Any] | None]) -> None:
    made = conform(optional(rows), MUST)
    assert made.type == MUST
    assert made.to_pylist() == rows
    assert written(made) == rows
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), optional(rows))
    assert written(conform(whole, pa.list_(MUST))) == [rows]


def test_a_required_part_that_is_null_in_a_value_is_still_found() -> None:
    given = optional([{"a": None, "b": {"c": "x"}}, None])
    made = conform(given, MUST)
    assert list(unexpected_nulls(made, pa.field("x", MUST))) == [("x.a", 1)]


@pytest.mark.parametrize("kind", [pa.int32(), pa.bool_(), pa.timestamp("us", "UTC")])
@pytest.mark.parametrize("size", [0, 2])
def test_lists_that_are_all_null_may_have_no_items(kind: Any, size: int) -> None:
    """As Java sends them; the cast of Arrow reads the items that are not there, and crashes."""
    items = pa.Array.from_buffers(kind, 0, [None] * len(pa.array([], kind).buffers()))
    ends = pa.array([0, 0, 0, 0], pa.int32()).buffers()[1]
    lists = pa.Array.from_buffers(pa.list_(kind), 3, [pa.py_buffer(b"\0"), ends], children=[items])
    found = conform(lists, pa.list_(pa.field("item", kind), size))
    found.validate(full=True)
    assert found.type == pa.list_(kind, size)
    assert found.to_pylist() == [None] * 3


def kinds() -> st.SearchStrategy[pa.DataType]:
    """Draw types whose structs have required and optional members, however deep."""
    plain = st.sampled_from(
        [pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("ms", "UTC")]
    )

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        members = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
        structs = members.map(
            lambda found: pa.struct(
                [pa.field(f"m{n}", kind, may) for n, (kind, may) in enumerate(found)]
            )
        )
        return structs | inner.map(pa.list_)

    return st.recursive(plain, nested, max_leaves=6)


@given(kind=kinds(), count=st.integers(min_value=0, max_value=3))
def test_a_column_of_nulls_can_be_cast_written_and_put_into_a_struct(
    kind: pa.DataType, count: int
) -> None:
    made = null_column(count, kind)
    made.validate(full=True)
    assert made.type == kind
    assert made.null_count == count
    assert made.cast(kind).equals(made)
    assert written(made) == [None] * count
    later = pa.struct([pa.field("new", kind), pa.field("old", pa.int64())])
    old = pa.StructArray.from_arrays([pa.array(range(count), pa.int64())], names=["old"])
    assert conform(old, later).cast(later).field("new").null_count == count


@pytest.mark.parametrize("listed", [pa.list_, pa.large_list, lambda of: pa.list_(of, 1)])
def test_lists_of_structs_with_required_members_stay_as_they_are(
    listed: Callable[[pa.DataType], pa.DataType],
) -> None:
    kind = listed(pa.struct([pa.field("a", pa.int32(), nullable=False)]))
    column = pa.array([[{"a": 1}], [None], None], kind)
    assert conform(column, kind).equals(column)


def test_a_struct_that_is_null_gets_values_of_required_members(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    nulls = pa.array([None, 1], pa.int32())
    without = pa.StructArray.from_arrays([nulls], fields=[*kind], mask=pa.array([True, False]))
    column = conform(without, kind)
    pq.write_table(pa.table({"s": column}), tmp_path / "s.parquet")
    assert column.to_pylist() == [None, {"a": 1}]
