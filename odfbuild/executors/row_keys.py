"""Columns by which whole rows are equal as in GROUP BY: null is null, NaN is NaN, -0.0 is 0.0.

pyarrow groups by flat columns only, and by the bits of floats.  So structs become their members
and whether they are there, and lists and maps become texts, one value at a time.
"""

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["row_keys"]


def row_keys(rows: pa.Table) -> pa.Table:
    """Return columns that pyarrow can group by; two rows have equal ones if they are equal."""
    found = [key for column in rows.columns for key in _keys(column.combine_chunks())]
    return pa.table(found, names=[f"k{number}" for number in range(len(found))])


def _keys(column: Any) -> Iterator[pa.Array]:
    if pa.types.is_struct(column.type):
        yield column.is_valid()
        for member in column.flatten():
            yield from _keys(member)
    elif pa.types.is_nested(column.type):
        yield pa.array([_text(each, column.type) for each in column.to_pylist()], pa.string())
    elif pa.types.is_floating(column.type):
        yield _number(column)
    else:
        yield column


def _number(column: Any) -> pa.Array:
    """Return floats with one zero and one NaN."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    whole = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(whole), pa.scalar(math.nan, column.type), whole)


def _text(value: Any, kind: Any) -> str | None:
    return None if value is None else repr(_plain(value, kind))


def _plain(value: Any, kind: Any) -> Any:
    """Return a value whose repr is the same for equal ones."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = ((_plain(key, kind.key_type), _plain(each, kind.item_type)) for key, each in value)
        return sorted(pairs, key=repr)
    if pa.types.is_struct(kind):
        return [_plain(value[member.name], member.type) for member in kind]
    if pa.types.is_nested(kind):
        return [_plain(each, kind.value_type) for each in value]
    return value + 0.0 if pa.types.is_floating(kind) else value
