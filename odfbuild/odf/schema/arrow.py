"""Data schemas to and from pyarrow.

Encodings that do not change values are not kept: dictionaries, large and view variants, date64 and
extension types come back as the plain type.  A timestamp without zone has the zone "" (absent
means UTC).
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from odfbuild.errors import ProtocolError
from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, ReadStep, TimeUnit
from odfbuild.odf.hashing import storage_type
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import UNIT_OF, UNITS, is_optional, spelled_out

_PLAIN: dict[DataType, pa.DataType] = {
    events.DataTypeNull(): pa.null(),
    events.DataTypeBool(): pa.bool_(),
    events.DataTypeInt8(): pa.int8(),
    events.DataTypeInt16(): pa.int16(),
    events.DataTypeInt32(): pa.int32(),
    events.DataTypeInt64(): pa.int64(),
    events.DataTypeUInt8(): pa.uint8(),
    events.DataTypeUInt16(): pa.uint16(),
    events.DataTypeUInt32(): pa.uint32(),
    events.DataTypeUInt64(): pa.uint64(),
    events.DataTypeFloat16(): pa.float16(),
    events.DataTypeFloat32(): pa.float32(),
    events.DataTypeFloat64(): pa.float64(),
    events.DataTypeDate(): pa.date32(),
    events.DataTypeString(): pa.string(),
    events.DataTypeBinary(): pa.binary(),
}
_BY_ARROW: dict[pa.DataType, DataType] = {arrow: of for of, arrow in _PLAIN.items()} | {
    pa.date64(): events.DataTypeDate(),
    pa.large_string(): events.DataTypeString(),
    pa.string_view(): events.DataTypeString(),
    pa.large_binary(): events.DataTypeBinary(),
    pa.binary_view(): events.DataTypeBinary(),
}


class UnknownArrowTypeError(ProtocolError):
    """ODF has no data type for an Arrow type."""

    code = "unknown-arrow-type"

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(
            what=f"ODF has no data type for {data_type}",
            why='datasets hold the types of the ODF data schema (ODF 0.38, "DataType")',
            fix="cast the column to another type in the query",
        )


def to_arrow(schema: DataSchema) -> pa.Schema:
    """Return the schema for pyarrow; extra attributes are not carried over.

    Raises UnsupportedVariantError for types of a newer version of the format.
    """
    refuse_opaque(schema)
    return pa.schema([_field(field.name, field.type) for field in schema.fields])


def from_arrow(schema: pa.Schema) -> DataSchema:
    """Return the schema of pyarrow data as a plain value; raises UnknownArrowTypeError."""
    return DataSchema(tuple(DataField(field.name, _of(field)) for field in schema))


def _field(name: str, of: DataType) -> pa.Field:
    value = of.inner if isinstance(of, events.DataTypeOption) else of
    nullable = is_optional(of) or isinstance(of, events.DataTypeNull)
    return pa.field(name, _arrow(spelled_out(value)), nullable=nullable)


def _arrow(of: DataType) -> pa.DataType:
    match of:
        case events.DataTypeTimestamp(unit=TimeUnit() as unit, timezone=zone):
            return pa.timestamp(UNITS[unit], zone or None)
        case events.DataTypeTime(unit=TimeUnit() as unit):
            coarse = unit in {TimeUnit.SECOND, TimeUnit.MILLISECOND}
            return (pa.time32 if coarse else pa.time64)(UNITS[unit])
        case events.DataTypeDuration(unit=TimeUnit() as unit):
            return pa.duration(UNITS[unit])
        case events.DataTypeDecimal(precision=precision, scale=scale):
            return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
        case events.DataTypeBinary(fixed_length=int() as length):
            return pa.binary(length)
        case events.DataTypeList(item_type=item, fixed_length=length):
            return pa.list_(_field("item", item), -1 if length is None else length)
        case events.DataTypeStruct(fields=fields):
            return pa.struct([_field(field.name, field.type) for field in fields])
        case events.DataTypeMap(key_type=key, value_type=value, keys_sorted=is_sorted):
            return pa.map_(_field("key", key), _field("value", value), bool(is_sorted))
        case _:
            return _PLAIN[of]


def _of(field: pa.Field) -> DataType:
    data_type = _value_type(storage_type(field.type))
    return events.DataTypeOption(data_type) if field.nullable else data_type


def _value_type(arrow: pa.DataType) -> DataType:
    plain = _BY_ARROW.get(arrow)
    if plain is not None:
        return plain
    for is_kind, make in _KINDS:
        if is_kind(arrow):
            return make(arrow)
    raise UnknownArrowTypeError(arrow)


def _list(arrow: Any) -> DataType:
    return events.DataTypeList(_of(arrow.value_field))


def _struct(arrow: Any) -> DataType:
    members = (arrow.field(index) for index in range(arrow.num_fields))
    return events.DataTypeStruct(tuple(DataField(member.name, _of(member)) for member in members))


def _map(arrow: Any) -> DataType:
    is_sorted = True if arrow.keys_sorted else None
    return events.DataTypeMap(_of(arrow.key_field), _of(arrow.item_field), is_sorted)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], DataType]], ...] = (
    (pa.types.is_timestamp, lambda t: events.DataTypeTimestamp(UNIT_OF[t.unit], t.tz or "")),
    (pa.types.is_decimal, lambda t: events.DataTypeDecimal(t.precision, t.scale)),
    (pa.types.is_time, lambda t: events.DataTypeTime(UNIT_OF[t.unit])),
    (pa.types.is_duration, lambda t: events.DataTypeDuration(UNIT_OF[t.unit])),
    (pa.types.is_fixed_size_binary, lambda t: events.DataTypeBinary(t.byte_width)),
    (pa.types.is_map, _map),
    (pa.types.is_fixed_size_list, lambda t: events.DataTypeList(_of(t.value_field), t.list_size)),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_struct, _struct),
)


def declared_schema(step: ReadStep) -> pa.Schema | None:
    """Return the schema of a read step, from its ODF form or its DDL; None if it has neither."""
    if step.schema is not None:
        found = to_arrow(step.schema)
    elif step.ddl_schema:
        found = to_arrow(parse_ddl(step.ddl_schema))
    else:
        return None
    return _in_microseconds(found) if len(found) else None


def _in_microseconds(schema: pa.Schema) -> pa.Schema:
    """Return the schema with times of day in microseconds: Spark's files have no other ones."""
    return pa.schema([field.with_type(kept_type(field.type)) for field in schema])


def kept_type(of: pa.DataType) -> pa.DataType:
    """Return the type in which a column is kept, nested ones too.

    Durations, and timestamps within other values, are no finer than the engine has them.
    """
    if pa.types.is_time(of):
        return pa.time64("us")
    if pa.types.is_duration(of):
        return pa.duration("us")
    if pa.types.is_struct(of):
        return pa.struct([each.with_type(_kept_part(each.type)) for each in of])
    if pa.types.is_map(of):
        item = of.item_field.with_type(_kept_part(of.item_type))
        return pa.map_(of.key_field.with_type(_kept_part(of.key_type)), item)
    if pa.types.is_fixed_size_list(of):
        return pa.list_(of.value_field.with_type(_kept_part(of.value_type)), of.list_size)
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_kept_part(of.value_type)))
    return of


def _kept_part(of: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(of) and of.unit == "ns":
        return pa.timestamp("us", of.tz)
    return kept_type(of)
