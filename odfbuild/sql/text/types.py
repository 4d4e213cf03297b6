"""Types of Spark SQL as types of ODF: those that casts name, and those of stored columns.

Inside a query there are types that no dataset has: times without zone, intervals.
"""

from __future__ import annotations

from typing import TypeAlias

from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataType, TimeUnit
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time inside a query; it cannot be stored."""

    fields: str


SqlType: TypeAlias = DataType | Interval

BOOLEAN = events.DataTypeBool()
BYTE = events.DataTypeInt8()
SHORT = events.DataTypeInt16()
INT = events.DataTypeInt32()
BIGINT = events.DataTypeInt64()
FLOAT = events.DataTypeFloat32()
DOUBLE = events.DataTypeFloat64()
STRING = events.DataTypeString()
BINARY = events.DataTypeBinary()
DATE = events.DataTypeDate()
NULL = events.DataTypeNull()
TIMESTAMP = events.DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")
LOCAL_TIME = events.DataTypeTimestamp(TimeUnit.MICROSECOND, "")  # TIMESTAMP_NTZ
DAYS = Interval("day")
DAY_TIME = Interval("day to second")
YEAR_MONTH = Interval("year to month")

_READ: dict[type, DataType] = {
    events.DataTypeBool: BOOLEAN,
    events.DataTypeInt8: BYTE,
    events.DataTypeInt16: SHORT,
    events.DataTypeInt32: INT,
    events.DataTypeInt64: BIGINT,
    events.DataTypeUInt8: SHORT,
    events.DataTypeUInt16: INT,
    events.DataTypeUInt32: BIGINT,
    events.DataTypeUInt64: events.DataTypeDecimal(20, 0),
    events.DataTypeFloat16: FLOAT,
    events.DataTypeFloat32: FLOAT,
    events.DataTypeFloat64: DOUBLE,
    events.DataTypeString: STRING,
    events.DataTypeBinary: BINARY,
    events.DataTypeDate: DATE,
    events.DataTypeTimestamp: TIMESTAMP,
    events.DataTypeNull: NULL,
}


def unwrapped(of: DataType) -> tuple[DataType, bool]:
    """Return the type of the values, and whether they may be null."""
    if isinstance(of, events.DataTypeOption):
        return unwrapped(of.inner)[0], True
    return of, isinstance(of, events.DataTypeNull)


def as_read(of: DataType) -> DataType | None:
    """Return the type in which a query sees a column of a dataset; None if that is not known."""
    plain = _READ.get(type(of))
    if plain is not None:
        return plain
    match of:
        case events.DataTypeDecimal():
            return of
        case events.DataTypeOption(inner=inner):
            return _optional(as_read(inner))
        case events.DataTypeList(item_type=item):
            read = as_read(item)
            return None if read is None else events.DataTypeList(read)
        case events.DataTypeMap(key_type=key, value_type=value):
            keys, values = as_read(key), as_read(value)
            return None if keys is None or values is None else events.DataTypeMap(keys, values)
        case events.DataTypeStruct(fields=fields):
            return _struct([(f.name, as_read(f.type)) for f in fields])
    return None


def as_stored(of: SqlType | None) -> DataType | None:
    """Return the type in which a result is stored: every time as UTC in milliseconds.

    None if it is not known, or cannot be stored.
    """
    match of:
        case (
            None
            | Interval()
            | events.DataTypeDuration()
            | events.DataTypeTime()
            | events.DataTypeNull()
        ):
            return None
        case events.DataTypeTimestamp():
            return TIMESTAMP
        case events.DataTypeOption(inner=inner):
            return _optional(as_stored(inner))
        case events.DataTypeList(item_type=item):
            stored = as_stored(item)
            return None if stored is None else events.DataTypeList(stored)
        case events.DataTypeMap(key_type=key, value_type=value):
            keys, values = as_stored(key), as_stored(value)
            return None if keys is None or values is None else events.DataTypeMap(keys, values)
        case events.DataTypeStruct(fields=fields):
            return _struct([(f.name, as_stored(f.type)) for f in fields])
    return of


def _optional(of: DataType | None) -> DataType | None:
    return None if of is None else events.DataTypeOption(of)


def _struct(members: list[tuple[str, DataType | None]]) -> DataType | None:
    fields = [DataField(name, of) for name, of in members if of is not None]
    return events.DataTypeStruct(tuple(fields)) if len(fields) == len(members) else None
