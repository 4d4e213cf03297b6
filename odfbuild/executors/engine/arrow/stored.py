"""Types in which results of queries are stored: times in milliseconds of UTC, plain texts."""

from typing import Any

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.conformance import conform


def conformed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that `stored` says of its own."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) and column.type.tz != "UTC":
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return conform(column, kind)


def stored(name: str, kind: Any) -> pa.DataType:
    """Return the type in which values are stored: times in milliseconds of UTC, plain texts.

    Raises InvalidQueryError for a type that no slice has.
    """
    if pa.types.is_dictionary(kind):
        return stored(name, kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", "UTC")
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, stored(name, each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(stored(name, kind.value_type))
    if pa.types.is_null(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
        raise InvalidQueryError(
            what=f"column {name!r} has the type {kind}, which cannot be stored",
            why="a slice can store numbers, texts, bytes, dates, times, timestamps and nested "
            "types of them",
            fix=f'cast it: cast(... as varchar) as "{name}"',
        )
    if (
        pa.types.is_decimal256(kind)
        or pa.types.is_map(kind)
        or pa.types.is_union(kind)
        or pa.types.is_run_end_encoded(kind)
    ):
        raise InvalidQueryError(
            what=f"column {name!r} has the type {kind}, which is not supported for this engine",
            why="its queries may return numbers, texts, bytes, times, lists and structs",
            fix="extract its values: map_keys(...), map_values(...)",
        )
    return kind
