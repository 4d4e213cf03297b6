"""Arrow columns as the bytes that the logical hash reads: type codes and rendered values.

A rendered column is a binary array without nulls, one element a row.  Its data buffer is what is
hashed, and cutting it at the offsets of a list column renders the lists: no value is touched one
by one.  Offsets are 64 bit throughout, so no chunk can overflow them.
"""

import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import ProtocolError

__all__ = [
    "NULL",
    "UnhashableTypeError",
    "joined",
    "payload",
    "render",
    "storage",
    "storage_type",
    "type_code",
    "zero",
]

NULL = b"\x00"
_BYTES = pa.large_binary()
_TIME_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnhashableTypeError(ProtocolError):
    """The logical hash has no bytes for this type."""

    code = "unhashable-type"

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(
            what=f"data of type {data_type} has no logical hash",
            why="arrow0-sha3-256 knows numbers, booleans, text, bytes, dates, times, decimals, "
            "lists of these and structs outside of lists",
            fix="cast the column to one of these types, or leave it out, in `preprocess` or in "
            "the query",
        )
        self.type = data_type


def type_code(data_type: pa.DataType) -> bytes:
    """Return the bytes that open a column: u16 type id, then what the type is refined by."""
    t = storage_type(data_type)
    types = pa.types
    if types.is_null(t):
        return struct.pack("<H", 0)
    if types.is_integer(t):
        return struct.pack("<HBQ", 1, types.is_signed_integer(t), t.bit_width)
    if types.is_floating(t):
        return struct.pack("<HQ", 2, t.bit_width)
    if _is_bytes(t):
        return struct.pack("<H", 3)
    if _is_text(t):
        return struct.pack("<H", 4)
    if types.is_boolean(t):
        return struct.pack("<H", 5)
    if types.is_decimal(t):
        return struct.pack("<HQQq", 6, t.bit_width, t.precision, t.scale)
    if types.is_date(t):
        return struct.pack("<HQH", 7, t.bit_width, 0 if types.is_date32(t) else 1)
    if types.is_time(t):
        return struct.pack("<HQH", 8, t.bit_width, _TIME_UNITS[t.unit])
    if types.is_timestamp(t):
        return struct.pack("<HH", 9, _TIME_UNITS[t.unit]) + _zone(t.tz)
    if _is_list(t):
        return struct.pack("<H", 11) + type_code(t.value_type)
    raise UnhashableTypeError(data_type)


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionary encoding or extension."""
    if pa.types.is_dictionary(data_type):
        return storage_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return storage_type(data_type.storage_type)
    return data_type


def storage(array: pa.Array) -> pa.Array:
    """Return the array without dictionary encoding or extension."""
    if pa.types.is_dictionary(array.type):
        return storage(array.dictionary_decode())
    if isinstance(array.type, pa.BaseExtensionType):
        return storage(array.storage)
    return array


def zero(data_type: pa.DataType) -> bytes:
    """Return what a slot without a value feeds when the row counts as valid."""
    t = storage_type(data_type)
    if pa.types.is_boolean(t):
        return b"\x01"
    return bytes(t.bit_width // 8) if _is_number(t) else bytes(8)


def payload(array: pa.Array, null: bytes = NULL) -> pa.Buffer | bytes:
    """Return the bytes of all rows one after another; numbers without nulls are not copied."""
    array = storage(array)
    if len(array) == 0:
        return b""
    if _is_number(array.type) and array.null_count == 0:
        width = array.type.bit_width // 8
        return array.buffers()[1].slice(array.offset * width, len(array) * width)
    if _takes_one_byte(array.type):
        return payload(_one_byte(array, null))
    return joined(render(array, null))


def render(array: pa.Array, null: bytes = NULL) -> pa.LargeBinaryArray:
    """Return the bytes of every row; `null` stands for rows without a value."""
    array = storage(array)
    t = array.type
    if len(array) == 0:
        return pa.array([], _BYTES)
    if pa.types.is_boolean(t):
        return render(_one_byte(array, null))
    if _is_number(t):
        return _filled(array.view(pa.binary(t.bit_width // 8)).cast(_BYTES), null)
    if _is_text(t) or _is_bytes(t):
        values = array.cast(_BYTES)
        return _counted(pc.binary_length(values), values, null)
    if _is_list(t):
        return _counted(pc.list_value_length(array).cast(pa.int64()), _items(array), null)
    raise UnhashableTypeError(t)


def joined(values: pa.LargeBinaryArray) -> pa.Buffer:
    """Return the values one after another, without a copy."""
    offsets = _offsets(values)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return values.buffers()[2].slice(first, last - first)


def _one_byte(array: pa.Array, null: bytes) -> pa.Array:
    """Render what takes one byte, null or not: booleans and 8-bit integers."""
    if pa.types.is_boolean(array.type):
        numbers = pc.add(array.cast(pa.uint8()), pa.scalar(1, pa.uint8()))
    else:
        numbers = array.view(pa.uint8())
    return numbers.fill_null(null[0])


def _filled(values: pa.Array, null: bytes) -> pa.Array:
    return values if values.null_count == 0 else pc.coalesce(values, pa.scalar(null, _BYTES))


def _counted(counts: pa.Array, values: pa.Array, null: bytes) -> pa.Array:
    """Put the count before each value; rows whose count is null are `null` and no value."""
    prefixes = _filled(counts.view(pa.binary(8)).cast(_BYTES), null)
    return pc.binary_join_element_wise(
        prefixes, values, pa.scalar(b"", _BYTES), null_handling="skip"
    )


def _items(lists: pa.Array) -> pa.Array:
    """Return the rendered items of each list, joined; empty for a null list."""
    starts = _starts(lists)
    first, last = starts[0].as_py(), starts[-1].as_py()
    rendered = render(lists.values.slice(first, last - first))
    cuts = _offsets(rendered).take(pc.subtract(starts, first))
    texts = _binary(cuts, rendered.buffers()[2])
    if pc.sum(pc.list_value_length(lists), min_count=0).as_py() == last - first:
        return texts
    return pc.if_else(lists.is_valid(), texts, pa.scalar(b"", _BYTES))


def _starts(lists: pa.Array) -> pa.Array:
    """Return where each list starts among the items, and where the last one ends."""
    if not pa.types.is_fixed_size_list(lists.type):
        return lists.offsets.cast(pa.int64())
    size = pa.scalar(lists.type.list_size, pa.int64())
    ends = pc.cumulative_sum(pa.repeat(size, len(lists)), start=lists.offset * size.as_py())
    return pa.concat_arrays([pa.array([lists.offset * size.as_py()], pa.int64()), ends])


def _offsets(values: pa.Array) -> pa.Array:
    raw = values.buffers()[1]
    if raw is None or raw.size == 0:
        return pa.array([0], pa.int64())
    return pa.Array.from_buffers(
        pa.int64(), len(values) + 1, [None, raw], null_count=0, offset=values.offset
    )


def _binary(offsets: pa.Array, data: pa.Buffer | None) -> pa.Array:
    buffers = [None, offsets.buffers()[1], data]
    return pa.Array.from_buffers(_BYTES, len(offsets) - 1, buffers, null_count=0)


def _zone(name: str | None) -> bytes:
    if name is None:
        return b"\x00"
    text = name.encode()
    return struct.pack("<Q", len(text)) + text


def _is_number(t: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(t)
        or types.is_floating(t)
        or types.is_decimal(t)
        or types.is_date(t)
        or types.is_time(t)
        or types.is_timestamp(t)
    )


def _takes_one_byte(t: Any) -> bool:
    return bool(pa.types.is_boolean(t) or pa.types.is_int8(t) or pa.types.is_uint8(t))


def _is_text(t: Any) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: Any) -> bool:
    return bool(
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_fixed_size_binary(t)
        or pa.types.is_binary_view(t)
    )


def _is_list(t: Any) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))
