"""Schemas in Arrow's forms: raw bytes equal to the reference's, and both ways through pyarrow."""

import base64
import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
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
from odfbuild.odf.schema.arrow import UnknownArrowTypeError, from_arrow, to_arrow
from odfbuild.odf.schema.arrow_bytes import InvalidArrowSchemaError, arrow_bytes, from_arrow_bytes
from odfbuild.odf.schema.types import spelled_out
from tests.support.cases import load

SCHEMAS = load("flatbuffers-blocks")["arrow_schemas"]
NAMED: dict[str, DataType] = {
    "Int(64, signed)": DataTypeInt64(),
    "Int(32, signed)": DataTypeInt32(),
    "Int(64, unsigned)": DataTypeUInt64(),
    "Bool": DataTypeBool(),
    "Utf8": DataTypeString(),
    "Float(64)": DataTypeFloat64(),
    "Timestamp(ms, UTC)": DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC"),
}


@pytest.mark.parametrize("vector", SCHEMAS, ids=[v["id"] for v in SCHEMAS])
def test_vector_schemas_have_the_bytes_of_the_reference(vector: dict[str, Any]) -> None:
    schema = DataSchema(
        tuple(
            DataField(name, DataTypeOption(NAMED[of]) if nullable else NAMED[of])
            for name, of, nullable in vector["fields"]
        )
    )
    assert base64.b64encode(arrow_bytes(schema)).decode() == vector["base64"]
    assert from_arrow_bytes(bytes.fromhex(vector["hex"])) == schema


UNITS = st.sampled_from(TimeUnit)
PLAIN: list[DataType] = [
    DataTypeBool(),
    DataTypeInt8(),
    DataTypeInt16(),
    DataTypeInt32(),
    DataTypeInt64(),
    DataTypeUInt8(),
    DataTypeUInt16(),
    DataTypeUInt32(),
    DataTypeUInt64(),
    DataTypeFloat16(),
    DataTypeFloat32(),
    DataTypeFloat64(),
    DataTypeDate(),
    DataTypeString(),
    DataTypeBinary(),
    DataTypeBinary(7),
]
LEAVES: st.SearchStrategy[DataType] = (
    st.sampled_from(PLAIN)
    | st.builds(DataTypeTime, UNITS | st.none())
    | st.builds(DataTypeDuration, UNITS | st.none())
    | st.builds(DataTypeTimestamp, UNITS | st.none(), st.sampled_from([None, "", "Asia/Tokyo"]))
    | st.builds(DataTypeDecimal, st.integers(20, 76), st.integers(0, 20))
)


def _items(values: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return values | values.map(DataTypeOption)


def _fields(items: st.SearchStrategy[DataType]) -> st.SearchStrategy[tuple[DataField, ...]]:
    fields = st.builds(DataField, st.text(max_size=4), items)
    return st.lists(fields, max_size=4, unique_by=lambda f: f.name).map(tuple)


def _nested(below: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return (
        st.builds(DataTypeList, _items(below), st.none() | st.integers(1, 3))
        | st.builds(DataTypeStruct, _fields(_items(below)))
        | st.builds(DataTypeMap, below, _items(below), st.none() | st.booleans())
    )


TYPES = st.recursive(LEAVES, _nested, max_leaves=6)
SCHEMA = _fields(_items(TYPES)).map(DataSchema)


def _plain(schema: DataSchema) -> DataType:
    """Return the schema as one type with its defaults spelled out, so that forms compare."""
    return spelled_out(DataTypeStruct(schema.fields))


@given(SCHEMA)
def test_raw_bytes_read_back_as_the_schema(schema: DataSchema) -> None:
    assert _plain(from_arrow_bytes(arrow_bytes(schema))) == _plain(schema)


@given(SCHEMA)
def test_pyarrow_reads_the_raw_bytes_as_the_same_schema(schema: DataSchema) -> None:
    assert pa.ipc.read_schema(_message(arrow_bytes(schema))).equals(to_arrow(schema))


@given(SCHEMA)
def test_a_schema_survives_pyarrow(schema: DataSchema) -> None:
    assert _plain(from_arrow(to_arrow(schema))) == _plain(schema)


@given(SCHEMA)
def test_what_pyarrow_serialises_is_understood(schema: DataSchema) -> None:
    written = to_arrow(schema).serialize().to_pybytes()
    assert _plain(from_arrow_bytes(_table_of(written))) == _plain(schema)


def _message(schema: bytes) -> pa.Buffer:
    """Wrap a Schema table as an IPC message, by pointing a Message table at it.

    The Message {version 0, header_type 1, header 2} comes before the table, whose root offset is
    added to the distance.
    """
    vtable = struct.pack("<HHHHH", 10, 12, 8, 10, 4)
    root = struct.unpack("<I", schema[:4])[0]
    table_at, body_at = 16, 32
    head = struct.pack("<I", table_at) + b"\0\0" + vtable
    table = struct.pack("<iIHBB", table_at - 6, body_at + root - table_at - 4, 4, 1, 0)
    message = head.ljust(table_at, b"\0") + table
    message = message.ljust(body_at, b"\0") + schema
    message += b"\0" * (-len(message) % 8)
    return pa.py_buffer(struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message)


def _table_of(serialised: bytes) -> bytes:
    """Return the Schema table inside an IPC message, as a buffer that begins with its offset."""
    message = serialised[8:]
    table = struct.unpack_from("<I", message)[0]
    vtable = table - struct.unpack_from("<i", message, table)[0]
    field = table + struct.unpack_from("<H", message, vtable + 4 + 2 * 2)[0]
    header = field + struct.unpack_from("<I", message, field)[0]
    return struct.pack("<I", header) + message[4:]


def test_encodings_are_read_as_the_plain_type() -> None:
    coded = pa.schema(
        [
            pa.field("a", pa.dictionary(pa.int8(), pa.large_string()), nullable=False),
            pa.field("b", pa.large_list(pa.binary_view())),
            pa.field("c", pa.date64()),
        ]
    )
    expected = DataSchema(
        (
            DataField("a", DataTypeString()),
            DataField("b", DataTypeOption(DataTypeList(DataTypeOption(DataTypeBinary())))),
            DataField("c", DataTypeOption(DataTypeDate())),
        )
    )
    assert from_arrow(coded) == expected
    assert from_arrow_bytes(_table_of(coded.serialize().to_pybytes())) == expected


def test_a_column_of_nulls_may_be_null_whatever_is_said() -> None:
    schema = DataSchema((DataField("a", DataTypeNull()),))
    assert from_arrow_bytes(arrow_bytes(schema)) == schema
    assert to_arrow(schema) == pa.schema([pa.field("a", pa.null())])
    assert from_arrow(to_arrow(schema)).fields[0].type == DataTypeOption(DataTypeNull())


def test_a_type_that_odf_lacks_is_refused_by_name() -> None:
    with pytest.raises(UnknownArrowTypeError, match="month_day_nano_interval"):
        from_arrow(pa.schema([("a", pa.month_day_nano_interval())]))
    written = pa.schema([("a", pa.month_day_nano_interval())]).serialize().to_pybytes()
    with pytest.raises(InvalidArrowSchemaError, match="'a' is of an Arrow type that ODF lacks"):
        from_arrow_bytes(_table_of(written))


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\xff" * 40, b"not a schema at all"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArrowSchemaError):
        from_arrow_bytes(data)


def test_types_within_types_without_end_are_refused() -> None:
    deep: DataType = DataTypeInt8()
    for _ in range(70):
        deep = DataTypeList(deep)
    data = arrow_bytes(DataSchema((DataField("a", deep),)))
    with pytest.raises(InvalidArrowSchemaError, match="nested too deeply"):
        from_arrow_bytes(data)


def _tagged(schema: DataSchema, tag: int) -> bytes:
    """Return raw bytes in which the type tag of the first Int64 field is another one."""
    data = arrow_bytes(schema)
    at = data.index(b"\x02\x1c\0\0\0")
    return data[:at] + bytes([tag]) + data[at + 1 :]


@pytest.mark.parametrize("tag", [3, 12, 17])
def test_a_type_whose_parts_do_not_fit_is_refused(tag: int) -> None:
    schema = DataSchema((DataField("a", DataTypeOption(DataTypeInt64())),))
    with pytest.raises(InvalidArrowSchemaError, match="'a' is of a malformed type"):
        from_arrow_bytes(_tagged(schema, tag))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_bytes_are_read_or_refused_but_nothing_worse(at: int, byte: int) -> None:
    data = bytearray(bytes.fromhex(SCHEMAS[-1]["hex"]))
    data[at % len(data)] = byte
    with suppress(InvalidArrowSchemaError):
        from_arrow_bytes(bytes(data))
