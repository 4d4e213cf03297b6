"""Which data types the logical hash has bytes for.  Pure.

arrow0-sha3-256 takes structs apart into columns, which it cannot do inside of a list, and has no
bytes for maps, durations and structs without fields.  What has no hash cannot be in a data slice.
"""

from collections.abc import Iterable

from odfbuild.odf.datatypes import inner
from odfbuild.odf.events import (
    DataType,
    DataTypeDuration,
    DataTypeList,
    DataTypeMap,
    DataTypeStruct,
)

__all__ = ["unhashable"]


def unhashable(of: DataType) -> DataType | None:
    """Return the part of a type that has no logical hash, None if all of it has one."""
    value = inner(of)
    if isinstance(value, DataTypeStruct) and value.fields:
        return _first(unhashable(field.type) for field in value.fields)
    return _of_value(value)


def _of_value(value: DataType) -> DataType | None:
    match value:
        case DataTypeMap() | DataTypeDuration() | DataTypeStruct():  # one without fields
            return value
        case DataTypeList(item_type=item):
            held = inner(item)
            return value if isinstance(held, DataTypeStruct) else _of_value(held)
        case _:
            return None


def _first(found: Iterable[DataType | None]) -> DataType | None:
    return next((each for each in found if each is not None), None)
