"""Schemas as raw Arrow bytes: what SetDataSchema holds in ODF 0.34.1, without pyarrow.

The bytes are one Arrow `Schema` table as a FlatBuffers buffer of its own: no message around it,
no length before it.  Objects are created in the order of Arrow's Rust implementation, so that
the bytes, and with them block hashes, are equal to its bytes:

    field  = name, type and children, then slots name 0, type tag 2, nullable 1, children 5, type 3
    type   = the empty vector of children before the table for numbers, after it otherwise;
             the children of nested types come first
    schema = fields, vector of them, then slot fields 1

Slots that hold their default (false, 0, and what is said in `_parameters`) are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from odfbuild.errors import ProtocolError
from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, TimeUnit
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.types import inner
from odfbuild.values import dataclass

_NULL, _INT, _FLOAT, _BINARY, _UTF8, _BOOL, _DECIMAL, _DATE, _TIME, _TIMESTAMP = range(1, 11)
_LIST, _STRUCT, _FIXED_BINARY, _FIXED_LIST, _MAP, _DURATION = 12, 13, 15, 16, 17, 18
_LARGE_BINARY, _LARGE_UTF8, _LARGE_LIST, _BINARY_VIEW, _UTF8_VIEW = 19, 20, 21, 23, 24

_INTS: dict[DataType, tuple[int, bool]] = {
    events.DataTypeInt8(): (8, True),
    events.DataTypeInt16(): (16, True),
    events.DataTypeInt32(): (32, True),
    events.DataTypeInt64(): (64, True),
    events.DataTypeUInt8(): (8, False),
    events.DataTypeUInt16(): (16, False),
    events.DataTypeUInt32(): (32, False),
    events.DataTypeUInt64(): (64, False),
}
_FLOATS: dict[DataType, int] = {
    events.DataTypeFloat16(): 0,
    events.DataTypeFloat32(): 1,
    events.DataTypeFloat64(): 2,
}
_EMPTY: dict[DataType, int] = {
    events.DataTypeNull(): _NULL,
    events.DataTypeBinary(): _BINARY,
    events.DataTypeString(): _UTF8,
    events.DataTypeBool(): _BOOL,
}
_INT_TYPES = {key: data_type for data_type, key in _INTS.items()}
_FLOAT_TYPES = {key: data_type for data_type, key in _FLOATS.items()}
_UNITS = tuple(TimeUnit)
_MAX_DEPTH = 64


class InvalidArrowSchemaError(ProtocolError):
    """Bytes are not an Arrow schema, or use a type that ODF lacks."""

    code = "invalid-arrow-schema"

    def __init__(self, problem: str) -> None:
        super().__init__(
            what=f"raw Arrow schema: {problem}",
            why="SetDataSchema holds one Arrow Schema table in FlatBuffers form "
            '(ODF 0.34.1, "SetDataSchema")',
            fix="compare with another copy of the dataset; the program that wrote the block may "
            "be newer or faulty",
        )


def arrow_bytes(schema: DataSchema) -> bytes:
    """Return the schema as raw Arrow bytes; extra attributes have no place there.

    Raises UnsupportedVariantError for types of a newer version of the format.
    """
    from flatbuffers import Builder  # which imports numpy; readers do without

    refuse_opaque(schema)
    builder = Builder(256)
    offsets = [_put_field(builder, field.name, field.type) for field in schema.fields]
    fields = _vector(builder, offsets)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, fields, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def from_arrow_bytes(data: bytes) -> DataSchema:
    """Return the schema that raw Arrow bytes hold; large and view variants read as the plain type.

    Raises InvalidArrowSchemaError.
    """
    root = int.from_bytes(data[:4], "little")
    if root < 4:
        raise InvalidArrowSchemaError("the bytes are too few")
    try:
        reading = _SchemaReader(8 * len(data) + 1024)
        fields = _Table(data, root).tables(1)
        return DataSchema(tuple(reading.field(field, 0) for field in fields))
    except (StructError, IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
        raise InvalidArrowSchemaError("the bytes cannot be read as one") from error


# --- writing ---------------------------------------------------------------------------------

_Placed: TypeAlias = tuple[int, int, int]


def _put_field(builder: Any, name: str, data_type: DataType) -> int:
    nullable = isinstance(data_type, events.DataTypeOption)
    label = builder.CreateString(name)
    tag, table, children = _put_type(builder, inner(data_type))
    builder.StartObject(7)
    builder.PrependUOffsetTRelativeSlot(0, label, 0)
    builder.PrependUint8Slot(2, tag, 0)
    builder.PrependBoolSlot(1, nullable, False)
    builder.PrependUOffsetTRelativeSlot(5, children, 0)
    builder.PrependUOffsetTRelativeSlot(3, table, 0)
    return int(builder.EndObject())


def _put_type(builder: Any, of: DataType) -> _Placed:
    if of in _INTS:
        bits, signed = _INTS[of]
        children = _vector(builder, [])
        return _INT, _table(builder, 2, (1, "Bool", signed, False), (0, "Int32", bits, 0)), children
    if of in _FLOATS:
        children = _vector(builder, [])
        return _FLOAT, _table(builder, 1, (0, "Int16", _FLOATS[of], 0)), children
    if of in _EMPTY:
        return _leaf(builder, _EMPTY[of], _table(builder, 0))
    match of:
        case events.DataTypeList() | events.DataTypeStruct() | events.DataTypeMap():
            return _put_nested(builder, of)
        case events.DataTypeTimestamp():
            return _leaf(builder, _TIMESTAMP, _put_timestamp(builder, of))
        case _:
            tag, *slots = _parameters(of)
            return _leaf(builder, tag, _table(builder, 3, *slots))


def _parameters(of: Any) -> Any:
    """Return the type tag and the slots (slot, kind, value, default) in the order of writing."""
    match of:
        case events.DataTypeBinary(fixed_length=length):
            return _FIXED_BINARY, (0, "Int32", length, 0)
        case events.DataTypeDate():
            return _DATE, (0, "Int16", 0, 1)
        case events.DataTypeDecimal(precision=precision, scale=scale):
            bits = 128 if precision <= 38 else 256
            parts = ((0, "Int32", precision, 0), (1, "Int32", scale, 0), (2, "Int32", bits, 128))
            return _DECIMAL, *parts
        case events.DataTypeTime(unit=unit):
            number = _unit(unit)
            return _TIME, (1, "Int32", 32 if number < 2 else 64, 32), (0, "Int16", number, 1)
        case _:
            return _DURATION, (0, "Int16", _unit(of.unit), 1)


def _put_timestamp(builder: Any, of: events.DataTypeTimestamp) -> int:
    zone = "UTC" if of.timezone is None else of.timezone
    text = builder.CreateString(zone)
    builder.StartObject(2)
    builder.PrependInt16Slot(0, _unit(of.unit), 0)
    if zone:
        builder.PrependUOffsetTRelativeSlot(1, text, 0)
    return int(builder.EndObject())


def _put_nested(
    builder: Any, of: events.DataTypeList | events.DataTypeStruct | events.DataTypeMap
) -> _Placed:
    match of:
        case events.DataTypeStruct(fields=fields):
            children = [_put_field(builder, field.name, field.type) for field in fields]
            tag, table = _STRUCT, _table(builder, 0)
        case events.DataTypeList(item_type=item, fixed_length=None):
            children = [_put_field(builder, "item", item)]
            tag, table = _LIST, _table(builder, 0)
        case events.DataTypeList(item_type=item, fixed_length=length):
            children = [_put_field(builder, "item", item)]
            tag, table = _FIXED_LIST, _table(builder, 1, (0, "Int32", length, 0))
        case events.DataTypeMap(key_type=key, value_type=value, keys_sorted=keys_sorted):
            pairs = events.DataTypeStruct((DataField("key", key), DataField("value", value)))
            children = [_put_field(builder, "entries", pairs)]
            tag, table = _MAP, _table(builder, 1, (0, "Bool", bool(keys_sorted), False))
    return tag, table, _vector(builder, children)


def _leaf(builder: Any, tag: int, table: int) -> _Placed:
    return tag, table, _vector(builder, [])


def _table(builder: Any, slots: int, *values: tuple[int, str, Any, Any]) -> int:
    builder.StartObject(slots)
    for slot, kind, value, default in values:
        getattr(builder, f"Prepend{kind}Slot")(slot, value, default)
    return int(builder.EndObject())


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _unit(unit: TimeUnit | None) -> int:
    return _UNITS.index(TimeUnit.MILLISECOND if unit is None else unit)


# --- reading ---------------------------------------------------------------------------------


_U8, _BOOLEAN, _U16 = Struct("<B"), Struct("<?"), Struct("<H")
_I16, _I32, _U32 = Struct("<h"), Struct("<i"), Struct("<I")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a FlatBuffers buffer, at a place in its bytes; fields are asked for by slot."""

    data: bytes
    at: int

    def number(self, slot: int, kind: Struct, default: int) -> int:
        place = self._place(slot)
        return default if place is None else self._get(kind, place)

    def text(self, slot: int) -> str | None:
        place = self._place(slot)
        if place is None:
            return None
        start = place + self._get(_U32, place)
        end = start + 4 + self._get(_U32, start)
        return self.data[start + 4 : end].decode()

    def table(self, slot: int) -> "_Table | None":
        place = self._place(slot)
        return None if place is None else _Table(self.data, place + self._get(_U32, place))

    def tables(self, slot: int) -> "Iterator[_Table]":
        """Yield the tables of a vector."""
        place = self._place(slot)
        if place is None:
            return
        start = place + self._get(_U32, place)
        size = self._get(_U32, start)
        if size * 4 > len(self.data):
            raise InvalidArrowSchemaError("a vector is longer than the bytes")
        for entry in range(start + 4, start + 4 + 4 * size, 4):
            yield _Table(self.data, entry + self._get(_U32, entry))

    def _place(self, slot: int) -> int | None:
        """Return where a field lies, None of one that has its default."""
        vtable = self.at - self._get(_I32, self.at)
        entry = 4 + 2 * slot
        if entry >= self._get(_U16, vtable):
            return None
        return self.at + offset if (offset := self._get(_U16, vtable + entry)) else None

    def _get(self, kind: Struct, place: int) -> int:
        if place < 0:
            raise IndexError(place)
        return int(kind.unpack_from(self.data, place)[0])


class _SchemaReader:
    """One pass over the fields; parts that are shared again and again cannot multiply the work."""

    def __init__(self, budget: int) -> None:
        self.left = budget

    def field(self, field: _Table, depth: int) -> DataField:
        name = field.text(0) or ""
        self._spend(16 + len(name), depth)
        tag = field.number(2, _U8, 0)
        of = field.table(3)
        if of is None:
            raise InvalidArrowSchemaError(f"field {name!r} has no type")
        children = [self.field(child, depth + 1) for child in field.tables(5)]
        data_type = _read_type(name, tag, of, children)
        if isinstance(data_type, events.DataTypeTimestamp):
            self._spend(len(data_type.timezone or ""), depth)
        nullable = field.number(1, _BOOLEAN, 0)
        return DataField(name, events.DataTypeOption(data_type) if nullable else data_type)

    def _spend(self, bytes_read: int, depth: int) -> None:
        self.left -= bytes_read
        if depth > _MAX_DEPTH:
            raise InvalidArrowSchemaError("types are nested too deeply")
        if self.left < 0:
            raise InvalidArrowSchemaError("it stands for far more fields than it has bytes")


def _read_type(name: str, tag: int, of: _Table, children: list[DataField]) -> DataType:
    reader = _READERS.get(tag)
    if reader is None:
        raise InvalidArrowSchemaError(f"field {name!r} is of an Arrow type that ODF lacks ({tag})")
    try:
        return reader(of, children)
    except (KeyError, ValueError) as error:
        raise InvalidArrowSchemaError(f"field {name!r} is of a malformed type") from error


def _read_int(of: _Table, _: list[DataField]) -> DataType:
    signed = bool(of.number(1, _BOOLEAN, 0))
    return _INT_TYPES[of.number(0, _I32, 0), signed]


def _read_time_unit(of: _Table, default: int) -> TimeUnit:
    number = of.number(0, _I16, default)
    return dict(enumerate(_UNITS))[number]


def _read_timestamp(of: _Table, _: list[DataField]) -> DataType:
    return events.DataTypeTimestamp(_read_time_unit(of, 0), of.text(1) or "")


def _read_decimal(of: _Table, _: list[DataField]) -> DataType:
    return events.DataTypeDecimal(of.number(0, _I32, 0), of.number(1, _I32, 0))


def _read_list(_: _Table, children: list[DataField]) -> DataType:
    (item,) = children
    return events.DataTypeList(item.type)


def _read_fixed_list(of: _Table, children: list[DataField]) -> DataType:
    (item,) = children
    return events.DataTypeList(item.type, of.number(0, _I32, 0))


def _read_map(of: _Table, children: list[DataField]) -> DataType:
    (entries,) = children
    pairs = inner(entries.type)
    if not isinstance(pairs, events.DataTypeStruct):
        raise ValueError("entries of a map are structs")
    key, value = pairs.fields
    keys_sorted = of.number(0, _BOOLEAN, 0)
    return events.DataTypeMap(key.type, value.type, True if keys_sorted else None)


_READERS: dict[int, Callable[[_Table, list[DataField]], DataType]] = {
    _NULL: lambda _, __: events.DataTypeNull(),
    _INT: _read_int,
    _FLOAT: lambda of, _: _FLOAT_TYPES[of.number(0, _I16, 0)],
    _BINARY: lambda _, __: events.DataTypeBinary(),
    _LARGE_BINARY: lambda _, __: events.DataTypeBinary(),
    _BINARY_VIEW: lambda _, __: events.DataTypeBinary(),
    _FIXED_BINARY: lambda of, _: events.DataTypeBinary(of.number(0, _I32, 0)),
    _UTF8: lambda _, __: events.DataTypeString(),
    _LARGE_UTF8: lambda _, __: events.DataTypeString(),
    _UTF8_VIEW: lambda _, __: events.DataTypeString(),
    _BOOL: lambda _, __: events.DataTypeBool(),
    _DECIMAL: _read_decimal,
    _DATE: lambda _, __: events.DataTypeDate(),
    _TIME: lambda of, _: events.DataTypeTime(_read_time_unit(of, 1)),
    _TIMESTAMP: _read_timestamp,
    _DURATION: lambda of, _: events.DataTypeDuration(_read_time_unit(of, 1)),
    _LIST: _read_list,
    _LARGE_LIST: _read_list,
    _FIXED_LIST: _read_fixed_list,
    _MAP: _read_map,
    _STRUCT: lambda _, children: events.DataTypeStruct(tuple(children)),
}
