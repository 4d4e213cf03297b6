"""Parts of columns: leaves as Parquet stores them, texts, and members and lengths of lists.

Parquet has lists of any length only, and a file says by itself which members of a struct may be
null, so what the chain records of them is for the rows to keep.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.odf.hashing import storage, storage_type


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the values of each leaf of a column: itself, or what is in its structs and lists.

    What is in no list has a value for each row, null where a struct around it is.
    """
    column = storage(column)
    if not _is_nested(column.type):
        yield column
    for part, _ in _parts(column, column.type):
        yield from leaves(part)


def leaf_types(column: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the leaves of a column."""
    column = storage_type(column)
    if not _is_nested(column):
        yield column
    for part in _part_types(column):
        yield from leaf_types(part)


def first_without_utf8(column: pa.Array) -> int | None:
    """Return the first row that has a text which is not UTF-8, be it inside; None if none has.

    Arrow takes the bytes of a file and of other programs for text as they are.
    """
    return first_row_unless(column, _is_utf8)


def first_of_other_length(column: pa.Array, kind: pa.DataType) -> int | None:
    """Return the first row with a list that is not as long as the type records; None if all are.

    The column may have lists of any length where the type has those of one.
    """
    if not _has_fixed_lists(kind):
        return None
    return first_row_unless(column, lambda rows: _has_lengths(rows, kind))


def first_without_member(column: pa.Array, field: pa.Field) -> int | None:
    """Return the first row that has a null where something inside of the column is required."""
    if not _requires_members(field.type):
        return None
    return first_row_unless(column, lambda rows: _has_members(rows, field.type))


def first_row_unless(column: pa.Array, holds: Callable[[pa.Array], bool]) -> int | None:
    """Return the first row of which something does not hold; None if it holds of all rows.

    What holds of several rows holds of each of them.
    """
    if holds(column):
        return None
    first, behind = 0, len(column)
    while behind - first > 1:
        middle = (first + behind) // 2
        if holds(column.slice(first, middle - first)):
            first = middle
        else:
            behind = middle
    return first


def _is_utf8(column: pa.Array) -> bool:
    for each in leaves(column):
        if _is_text(each.type):
            try:
                each.validate(full=True)
            except pa.ArrowInvalid:
                return False
    return True


def _is_text(of: Any) -> bool:
    return bool(
        pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    )


def _has_lengths(column: pa.Array, kind: Any) -> bool:
    column = storage(column)
    if pa.types.is_fixed_size_list(kind):
        lengths = pc.list_value_length(column)
        if not pc.all(pc.equal(lengths, kind.list_size), min_count=0).as_py():
            return False
    return all(_has_lengths(*each) for each in _parts(column, kind))


def _has_members(column: pa.Array, kind: Any) -> bool:
    column = storage(column).drop_null()
    required = _required_parts(kind)
    parts = list(_parts(column, kind))
    if any(part.null_count for (part, _), is_so in zip(parts, required, strict=True) if is_so):
        return False
    return all(_has_members(*each) for each in parts)


def _parts(column: Any, kind: Any) -> list[tuple[pa.Array, pa.DataType]]:
    """Return what is in a column, each with its type in the schema; nothing of what is null."""
    if pa.types.is_struct(kind):
        return [(each, kind.field(at).type) for at, each in enumerate(column.flatten())]
    if pa.types.is_map(kind):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        both = (column.keys, kind.key_type), (column.items, kind.item_type)
        return [(each.slice(first, last - first), of) for each, of in both]
    if _is_list(kind):
        return [(column.flatten(), kind.value_type)]
    return []


def _required_parts(kind: Any) -> list[bool]:
    """Tell of each part whether it may have no nulls."""
    if pa.types.is_struct(kind):
        return [not each.nullable for each in kind]
    if pa.types.is_map(kind):
        return [True, not kind.item_field.nullable]
    return [not kind.value_field.nullable] if _is_list(kind) else []


def _requires_members(kind: Any) -> bool:
    return any(_required_parts(kind)) or any(_requires_members(each) for each in _part_types(kind))


def _has_fixed_lists(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind)) or any(map(_has_fixed_lists, _part_types(kind)))


def _part_types(kind: Any) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [each.type for each in kind]
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if _is_list(kind) else []


def _is_nested(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind)) or _is_list(kind)


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
