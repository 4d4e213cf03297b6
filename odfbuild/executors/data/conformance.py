"""Conformance of Arrow columns to a schema: nested members by name, instants to milliseconds.

Only differences that keep values are bridged: encodings, time units (finer ones are cut, towards
the past, and noted: `fine_times`), members that came later (null).  An instant that a finer unit
cannot count raises InvalidTimestampError, anything else pyarrow's ArrowInvalid.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.fine_times import is_noted, note_cut
from odfbuild.odf.hashing import storage
from odfbuild.odf.timestamp import InvalidTimestampError

_PER_MILLI = {"us": 1_000, "ns": 1_000_000}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def conform(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return the column in another type; the same array if the type is right already.

    A required member of a struct that is null gets some value, without which Arrow writes no file.
    """
    if array.type == to and not _has_required(to):
        return array
    array = storage(array)
    if pa.types.is_timestamp(to) and pa.types.is_timestamp(array.type):
        return _instants(array, to)
    if pa.types.is_struct(to) and pa.types.is_struct(array.type):
        return _struct(array, to)
    if _is_list(to) and _is_list(array.type):
        return _list(array, to)
    if pa.types.is_fixed_size_list(to):
        return _fixed_list(array, to)
    return array if array.type == to else array.cast(to)


def _has_required(kind: pa.DataType) -> bool:
    """Tell whether a type has a struct with a required member in it; keys of maps do not count."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _has_required(kind.value_type)
    if not pa.types.is_struct(kind):
        return False
    members = [kind.field(index) for index in range(kind.num_fields)]
    return any(not each.nullable or _has_required(each.type) for each in members)


def retyped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in a schema of the same columns.

    As `Table.cast` does, which refuses nulls in required members also where a whole struct is null.
    """
    return pa.Table.from_arrays(
        [
            pa.chunked_array([conform(chunk, field.type) for chunk in column.chunks], field.type)
            for column, field in zip(table.columns, schema, strict=True)
        ],
        schema=schema,
    )


def row_numbers(count: int, first: int = 0) -> pa.Array:
    """Return a column of so many numbers, one after the other; Python takes 80 ns for each."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def null_column(count: int, kind: pa.DataType) -> pa.Array:
    """Return a column of nulls, with some value in each required member of a struct that is null.

    Those of `pa.nulls` have nulls there, which a cast to the same type refuses.
    """
    return pa.array([None] * count, kind) if pa.types.is_nested(kind) else pa.nulls(count, kind)


def unexpected_nulls(array: pa.Array, field: pa.Field, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield every place of a column, or inside it, that is required but null, and how often."""
    place = path + field.name
    if array.null_count and not field.nullable:
        yield place, array.null_count
    if pa.types.is_struct(field.type):
        present = array.drop_null() if array.null_count else array
        for index in range(field.type.num_fields):
            yield from unexpected_nulls(present.field(index), field.type.field(index), place + ".")
    elif _is_list(field.type) or pa.types.is_fixed_size_list(field.type):
        item = field.type.value_field.with_name("[]")
        if not item.nullable or item.type.num_fields:
            yield from unexpected_nulls(array.flatten(), item, place)


def _instants(array: pa.Array, to: Any) -> pa.Array:
    """Cut instants to milliseconds, towards the past also before 1970; no zone counts as UTC."""
    per_milli = _PER_MILLI.get(array.type.unit)
    if to.unit != "ms" or per_milli is None:
        return _recounted(array, to)
    ticks = array.view(pa.int64())
    millis = pc.divide(ticks, per_milli)
    if (pc.min(ticks).as_py() or 0) < 0:
        late = pc.greater(pc.multiply(millis, per_milli), ticks)
        millis = pc.subtract(millis, late.cast(pa.int64()))
    if is_noted():
        note_cut(array, pc.not_equal(pc.multiply(millis, per_milli), ticks))
    return millis.view(to)


def _recounted(array: pa.Array, to: Any) -> pa.Array:
    try:
        return array.cast(to)
    except pa.ArrowInvalid:
        if _PER_SECOND[to.unit] <= _PER_SECOND[array.type.unit]:
            raise
        ends = pc.min_max(array.view(pa.int64())).as_py()
        raise InvalidTimestampError(
            what=f"{max(ends.values(), key=abs)} {array.type.unit} since 1970 is not a time that "
            "engines can count",
            why=f"they count {to.unit} in 64 bits",
            fix="check the unit of its numbers; if such values are no times, read them as BIGINT",
        ) from None


def _struct(array: Any, to: Any) -> pa.Array:
    known = {array.type.field(index).name: index for index in range(array.type.num_fields)}
    members = [to.field(index) for index in range(to.num_fields)]
    children = [
        conform(array.field(known[member.name]), member.type)
        if member.name in known
        else null_column(len(array), member.type)
        for member in members
    ]
    if not array.null_count:
        return pa.StructArray.from_arrays(children, fields=members)
    gone = array.is_null()
    filled = [
        child if member.nullable or not child.null_count else _without_nulls(child, gone)
        for child, member in zip(children, members, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=members, mask=gone)


def _without_nulls(child: pa.Array, gone: pa.Array) -> pa.Array:
    """Put some value where the whole is null: Arrow wants one of a required member there, too."""
    some = pc.index(gone, False).as_py()
    if some < 0:
        return pa.array([None] * len(child), pa.struct([pa.field("", child.type, False)])).field(0)
    return child.take(pc.if_else(gone, some, row_numbers(len(child))))


def _list(array: Any, to: Any) -> pa.Array:
    if len(array) == 0:
        return pa.array([], to)
    starts = array.offsets.cast(pa.int32())
    first, last = starts[0].as_py(), starts[-1].as_py()
    items = conform(array.values.slice(first, last - first), to.value_type)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(pc.subtract(starts, first), items, type=to, mask=mask)


def _fixed_list(array: Any, to: Any) -> pa.Array:
    """Conform the items as those of a list: Arrow's own cast refuses times that are to be cut."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    listed = conform(array, pa.list_(to.value_field))
    if listed.null_count == len(listed):  # Arrow's cast reads items then, which may have no buffer
        return null_column(len(listed), to)
    return listed.cast(to)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))
