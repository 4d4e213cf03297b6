"""Values of columns as merges look at them: comparable ones, and event times of plain sources."""

from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import one_zero

MICROS: Final = pa.timestamp("us", tz="UTC")
RFC3339: Final = r"^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?)?)?$"
"""Texts that are event times: RFC 3339, a blank for the T, and without seconds or zone."""


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of `comparable` values: a map becomes a list of its entries."""
    if pa.types.is_map(kind):
        entry = [
            ("key", comparable_type(kind.key_type)),
            ("value", comparable_type(kind.item_type)),
        ]
        return pa.list_(pa.struct(entry))
    if pa.types.is_list(kind):
        return pa.list_(comparable_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, comparable_type(each.type)) for each in kind])
    return kind


def is_comparable(kind: pa.DataType) -> bool:
    """Tell whether values of a plain type are equal, and in order, as they are."""
    if pa.types.is_map(kind) or pa.types.is_floating(kind):
        return False
    if pa.types.is_list(kind):
        return is_comparable(kind.value_type)
    return not pa.types.is_struct(kind) or all(is_comparable(each.type) for each in kind)


def comparable(array: pa.Array) -> pa.Array:
    """Return values that are equal bit by bit where SQL says so: one zero, one NaN, sorted maps."""
    kind = array.type
    if is_comparable(kind):
        return array
    if pa.types.is_floating(kind):
        return one_zero(array)
    if pa.types.is_struct(kind):
        members = [comparable(array.field(at)) for at in range(kind.num_fields)]
        fields = list(comparable_type(kind))
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    if pa.types.is_list(kind):
        starts = pc.subtract(array.offsets, array.offsets[0])
        items = comparable(_items(array))
        return pa.ListArray.from_arrays(
            starts, items, type=comparable_type(kind), mask=array.is_null()
        )
    entries = [None if each is None else _entries(each) for each in array.to_pylist()]
    return comparable(pa.array(entries, _of_entries(kind)))


def _items(array: Any) -> pa.Array:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def _of_entries(kind: Any) -> pa.DataType:
    return pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))


def _entries(pairs: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in sorted(pairs, key=_by_key)]


def _by_key(pair: tuple[Any, Any]) -> Any:
    """Return what sorts entries of a map by their keys, which are never null."""
    key = pair[0]
    return key.encode() if isinstance(key, str) else repr(key) if isinstance(key, dict) else key


def comparable_as_stored(array: pa.Array) -> pa.Array:
    """Return comparable values with every instant cut to milliseconds, as it will be stored."""
    return comparable(conform(conform(array, in_millis(array.type)), array.type))


def is_fine(kind: pa.DataType) -> bool:
    """Tell whether values of a type may hold times finer than milliseconds."""
    if pa.types.is_timestamp(kind):
        return kind.unit not in {"s", "ms"}
    return any(is_fine(kind.field(at).type) for at in range(kind.num_fields))


def event_times(array: pa.Array) -> pa.Array:
    """Return event times of a source without schema: seconds since 1970, or RFC 3339 texts.

    Raises InvalidQueryError for another text.
    """
    if pa.types.is_integer(array.type):
        return pc.multiply_checked(array.cast(pa.int64()), 1_000_000).cast(MICROS)
    if not pa.types.is_string(array.type):
        return array
    right = pc.match_substring_regex(array, RFC3339)
    texts, known = array.to_pylist(), right.to_pylist()
    return pa.array([_instant(*each) for each in zip(texts, known, strict=True)], MICROS)


def event_time_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of `event_times` of such a column."""
    return MICROS if pa.types.is_integer(kind) or pa.types.is_string(kind) else kind


def _instant(text: str | None, is_right: bool | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.upper()) if is_right else None
    except ValueError:
        at = None
    if at is None:
        raise InvalidQueryError(
            what=f"not an RFC 3339 time: {text}",
            why="the event time of a source that declares no columns is such a text, or seconds "
            "since 1970",
            fix="correct the source; or declare its columns with a timestampFormat, or convert it "
            "to a time in `preprocess`",
        )
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
