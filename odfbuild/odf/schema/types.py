"""Data types beyond their fields: optional or not, names for people, bytes for the logical hash.

arrow0-sha3-256 takes structs apart into columns, which it cannot do inside of a list, and has no
bytes for maps, durations and structs without fields.  What has no hash cannot be in a data slice.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeBinary,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    TimeUnit,
)
from odfbuild.odf.opaque import is_opaque

UNITS: Final = {
    TimeUnit.SECOND: "s",
    TimeUnit.MILLISECOND: "ms",
    TimeUnit.MICROSECOND: "us",
    TimeUnit.NANOSECOND: "ns",
}
"""The short names of units of time, as Arrow has them."""
UNIT_OF: Final = {text: unit for unit, text in UNITS.items()}


def is_optional(of: DataType) -> bool:
    """Tell whether values of the type may be null."""
    return isinstance(of, DataTypeOption)


def inner(of: DataType) -> DataType:
    """Return the type of values that are not null."""
    return inner(of.inner) if isinstance(of, DataTypeOption) else of


def optional(of: DataType) -> DataType:
    """Return the type with null allowed."""
    return of if isinstance(of, DataTypeOption) else DataTypeOption(of)


def spelled_out(of: DataType) -> DataType:
    """Return the type with all defaults filled in, so that short and long forms are equal.

    A timestamp without time zone has the empty text for a zone: an absent one means UTC.
    """
    match of:
        case DataTypeOption(inner=value):
            return DataTypeOption(spelled_out(value))
        case DataTypeTimestamp(unit=unit, timezone=zone):
            return DataTypeTimestamp(_unit(unit), "UTC" if zone is None else zone)
        case DataTypeTime(unit=unit):
            return DataTypeTime(_unit(unit))
        case DataTypeDuration(unit=unit):
            return DataTypeDuration(_unit(unit))
        case DataTypeList(item_type=item, fixed_length=length):
            return DataTypeList(spelled_out(item), length)
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=is_sorted):
            return DataTypeMap(spelled_out(key), spelled_out(value), bool(is_sorted))
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(tuple(replace(f, type=spelled_out(f.type)) for f in fields))
        case _:
            return of


def type_name(of: DataType) -> str:
    """Return the type as people write it: `Decimal(18, 4)`, `Option<List<String>>`."""
    match spelled_out(of):
        case DataTypeOption(inner=value):
            return f"Option<{type_name(value)}>"
        case DataTypeTimestamp(unit=TimeUnit() as unit, timezone=zone):
            return f"Timestamp({unit.value}, {zone or 'no zone'})"
        case DataTypeTime(unit=TimeUnit() as unit):
            return f"Time({unit.value})"
        case DataTypeDuration(unit=TimeUnit() as unit):
            return f"Duration({unit.value})"
        case DataTypeDecimal(precision=precision, scale=scale):
            return f"Decimal({precision}, {scale})"
        case DataTypeBinary(fixed_length=int() as length):
            return f"Binary({length})"
        case DataTypeList(item_type=item, fixed_length=length):
            return f"List<{type_name(item)}{'' if length is None else f', {length}'}>"
        case DataTypeMap(key_type=key, value_type=value):
            return f"Map<{type_name(key)}, {type_name(value)}>"
        case DataTypeStruct(fields=fields):
            return f"Struct<{', '.join(map(_member, fields))}>"
        case plain if is_opaque(plain):
            return f"Unknown({plain.tag})"
        case plain:
            return type(plain).__name__.removeprefix("DataType")


def _member(field: DataField) -> str:
    return f"{field.name}: {type_name(field.type)}"


def _unit(unit: TimeUnit | None) -> TimeUnit:
    return TimeUnit.MILLISECOND if unit is None else unit


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


MOST_DIGITS = 38
"""The digits of the widest decimal that the engine, and the files that it writes, can hold."""


def too_wide(of: DataType) -> DataType | None:
    """Return the decimal within a type that has more than `MOST_DIGITS`, None if none has."""
    match inner(of):
        case DataTypeDecimal(precision=precision) as value:
            return value if precision > MOST_DIGITS else None
        case DataTypeList(item_type=item):
            return too_wide(item)
        case DataTypeMap(key_type=key, value_type=value):
            return too_wide(key) or too_wide(value)
        case DataTypeStruct(fields=fields):
            return _first(too_wide(field.type) for field in fields)
        case _:
            return None


def repeated(of: DataType) -> str | None:
    """Return a name that two fields of a struct within a type have, None if none is there twice."""
    match inner(of):
        case DataTypeList(item_type=item):
            return repeated(item)
        case DataTypeMap(key_type=key, value_type=value):
            named = repeated(key)
            return repeated(value) if named is None else named
        case DataTypeStruct(fields=fields):
            names = [field.name for field in fields]
            twice = [name for at, name in enumerate(names) if name in names[:at]]
            within = (repeated(field.type) for field in fields)
            return next((each for each in (*twice, *within) if each is not None), None)
        case _:
            return None


def _first(found: Iterable[DataType | None]) -> DataType | None:
    return next((each for each in found if each is not None), None)
