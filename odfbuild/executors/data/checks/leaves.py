"""Leaves of columns: what Parquet stores of them, in its order, and whether texts are texts."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from odfbuild.odf.hashing import storage, storage_type


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the values of each leaf of a column: itself, or what is in its structs and lists.

    What is in no list has a value for each row, null where a struct around it is.
    """
    column = storage(column)
    if pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from leaves(child)
    elif pa.types.is_map(column.type):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        for child in column.keys, column.items:
            yield from leaves(child.slice(first, last - first))
    elif _is_list(column.type):
        yield from leaves(column.flatten())
    else:
        yield column


def leaf_types(column: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the leaves of a column."""
    column = storage_type(column)
    if pa.types.is_map(column):
        yield from leaf_types(column.key_type)
        yield from leaf_types(column.item_type)
    elif _is_list(column):
        yield from leaf_types(column.value_type)
    elif pa.types.is_struct(column):
        for at in range(column.num_fields):
            yield from leaf_types(column.field(at).type)
    else:
        yield column


def first_without_utf8(column: pa.Array) -> int | None:
    """Return the first row that has a text which is not UTF-8, be it inside; None if none has.

    Arrow takes the bytes of a file and of other programs for text as they are.
    """
    return first_row_unless(column, _is_utf8)


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


def _is_list(of: Any) -> bool:
    return bool(
        pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of)
    )
