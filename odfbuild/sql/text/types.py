"""Types of Spark SQL as types of ODF: the ones that casts name, and how stored types are read.

Inside a query there are types that no dataset has: times without zone, intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time inside a query; it cannot be stored."""

    fields: str


SqlType: TypeAlias = DataType | Interval

BOOLEAN = DataTypeBool()
BYTE = DataTypeInt8()
SHORT = DataTypeInt16()
INT = DataTypeInt32()
BIGINT = DataTypeInt64()
FLOAT = DataTypeFloat32()
DOUBLE = DataTypeFloat64()
STRING = DataTypeString()
BINARY = DataTypeBinary()
DATE = DataTypeDate()
NULL = DataTypeNull()
TIMESTAMP = DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")
LOCAL_TIME = DataTypeTimestamp(TimeUnit.MICROSECOND, "")  # TIMESTAMP_NTZ
DAYS = Interval("day")
DAY_TIME = Interval("day to second")
YEAR_MONTH = Interval("year to month")

_READ: dict[type, DataType] = {
    DataTypeBool: BOOLEAN,
    DataTypeInt8: BYTE,
    DataTypeInt16: SHORT,
    DataTypeInt32: INT,
    DataTypeInt64: BIGINT,
    DataTypeUInt8: SHORT,
    DataTypeUInt16: INT,
    DataTypeUInt32: BIGINT,
    DataTypeUInt64: DataTypeDecimal(20, 0),
    DataTypeFloat16: FLOAT,
    DataTypeFloat32: FLOAT,
    DataTypeFloat64: DOUBLE,
    DataTypeString: STRING,
    DataTypeBinary: BINARY,
    DataTypeDate: DATE,
    DataTypeTimestamp: TIMESTAMP,
    DataTypeNull: NULL,
}


def unwrapped(of: DataType) -> tuple[DataType, bool]:
    """Return the type of the values, and whether they may be null."""
    if isinstance(of, DataTypeOption):
        return unwrapped(of.inner)[0], True
    return of, isinstance(of, DataTypeNull)


def as_read(of: DataType) -> DataType | None:
    """Return the type in which a query sees a column of a dataset; None if that is not known."""
    plain = _READ.get(type(of))
    if plain is not None:
        return plain
    match of:
        case DataTypeDecimal():
            return of
        case DataTypeOption(inner=inner):
            return _optional(as_read(inner))
        case DataTypeList(item_type=item):
            read = as_read(item)
            return None if read is None else DataTypeList(read)
        case DataTypeMap(key_type=key, value_type=value):
            keys, values = as_read(key), as_read(value)
            return None if keys is None or values is None else DataTypeMap(keys, values)
        case DataTypeStruct(fields=fields):
            return _struct([(f.name, as_read(f.type)) for f in fields])
    return None


def as_stored(of: SqlType | None) -> DataType | None:
    """Return the type in which a result is stored: every time as UTC in milliseconds.

    None if it is not known, or cannot be stored.
    """
    match of:
        case None | Interval() | DataTypeDuration() | DataTypeTime() | DataTypeNull():
            return None
        case DataTypeTimestamp():
            return TIMESTAMP
        case DataTypeOption(inner=inner):
            return _optional(as_stored(inner))
        case DataTypeList(item_type=item):
            stored = as_stored(item)
            return None if stored is None else DataTypeList(stored)
        case DataTypeMap(key_type=key, value_type=value):
            keys, values = as_stored(key), as_stored(value)
            return None if keys is None or values is None else DataTypeMap(keys, values)
        case DataTypeStruct(fields=fields):
            return _struct([(f.name, as_stored(f.type)) for f in fields])
    return of


def _optional(of: DataType | None) -> DataType | None:
    return None if of is None else DataTypeOption(of)


def _struct(members: list[tuple[str, DataType | None]]) -> DataType | None:
    fields = [DataField(name, of) for name, of in members if of is not None]
    return DataTypeStruct(tuple(fields)) if len(fields) == len(members) else None
