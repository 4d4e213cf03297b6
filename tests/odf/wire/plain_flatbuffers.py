"""FlatBuffers by the stock runtime and the published schema alone: a second opinion on our codec.

Values are plain here: a table is a dictionary of the fields that are present, a union a pair of
member name and table, a Timestamp a tuple of its four numbers, an enum a number.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import flatbuffers
from flatbuffers.table import Table

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp

__all__ = ["SCHEMA", "Schema", "plain", "read", "write"]

_SIZES = {
    "bool": "?",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "int16": "h",
    "int32": "i",
    "int64": "q",
}
_TIME = "<iHxxII"


@dataclass
class Schema:
    """Tables as name -> [(field, type, nullable, slot)], unions as name -> members."""

    enums: dict[str, str] = field(default_factory=dict)
    unions: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, str, bool, int]]] = field(default_factory=dict)

    def scalar(self, name: str) -> str | None:
        return _SIZES.get(self.enums.get(name, name))


def _parse(text: str) -> Schema:
    schema = Schema()
    bare = re.sub(r"//.*", "", text)
    for name, wire in re.findall(r"enum (\w+): (\w+)", bare):
        schema.enums[name] = wire
    for name, body in re.findall(r"union (\w+) \{([^}]*)\}", bare):
        schema.unions[name] = re.findall(r"\w+", body)
    for name, body in re.findall(r"table (\w+) \{([^}]*)\}", bare):
        schema.tables[name] = list(_fields(body, schema))
    return schema


def _fields(body: str, schema: Schema) -> Iterator[tuple[str, str, bool, int]]:
    slot = 0
    for name, kind, rest in re.findall(r"(\w+): (\[?\w+\]?)([^;]*);", body):
        yield name, kind, "= null" in rest, slot
        slot += 2 if kind in schema.unions else 1


SCHEMA = _parse((Path(__file__).parents[3] / "schemas" / "odf.fbs").read_text("utf-8"))


def plain(value: Any, kind: str = "") -> Any:
    """Return one of our values in plain form."""
    match value:
        case Record():
            own = {name: kind for name, kind, _, _ in SCHEMA.tables[type(value).__name__]}
            table = {
                name: plain(getattr(value, name), kind)
                for name, kind in own.items()
                if getattr(value, name) is not None
            }
            return (type(value).__name__, table) if kind in SCHEMA.unions else table
        case tuple():
            inner = kind.strip("[]")
            if inner.endswith("Wrapper"):
                union = inner.removesuffix("Wrapper")
                return [{"value": plain(item, union)} for item in value]
            return [plain(item, inner) for item in value]
        case Multihash() | DatasetId():
            return plain(value.to_bytes()) if kind == "[uint8]" else str(value)
        case DatasetAlias():
            return str(value)
        case Timestamp():
            return value.parts()
        case Enum():
            return list(type(value)).index(value)
    return value


def read(name: str, data: bytes) -> Any:
    """Read a table from a finished buffer with the stock runtime."""
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, data, 0)
    return _read_table(name, Table(bytearray(data), root))


def _read_table(name: str, table: Table) -> dict[str, Any]:
    found = {}
    for key, kind, nullable, slot in SCHEMA.tables[name]:
        at = table.Offset(4 + 2 * slot)
        value = _absent(kind, nullable) if at == 0 else _read(kind, table, table.Pos + at, slot)
        if value is not None:
            found[key] = value
    return found


def _absent(kind: str, nullable: bool) -> Any:
    return None if nullable or SCHEMA.scalar(kind) is None else 0


def _read(kind: str, table: Table, at: int, slot: int) -> Any:
    if (code := SCHEMA.scalar(kind)) is not None:
        return struct.unpack_from(f"<{code}", table.Bytes, at)[0]
    if kind == "string":
        return table.String(at).decode()
    if kind == "Timestamp":
        return struct.unpack_from(_TIME, table.Bytes, at)
    if kind in SCHEMA.unions:
        member = SCHEMA.unions[kind][table.Bytes[at] - 1]
        value = table.Pos + table.Offset(4 + 2 * (slot + 1))
        return member, _read_table(member, Table(table.Bytes, table.Indirect(value)))
    if kind in SCHEMA.tables:
        return _read_table(kind, Table(table.Bytes, table.Indirect(at)))
    start, count = table.Vector(at - table.Pos), table.VectorLen(at - table.Pos)
    if kind == "[uint8]":
        return bytes(table.Bytes[start : start + count])
    return [_read(kind.strip("[]"), table, start + 4 * i, 0) for i in range(count)]


def write(name: str, value: dict[str, Any], time_align: int) -> bytes:
    """Write a plain table with the stock Builder, in two passes in schema order."""
    builder = flatbuffers.Builder(64)
    builder.Finish(_write_table(builder, name, value, time_align))
    return bytes(builder.Output())


def _write_table(b: Any, name: str, value: dict[str, Any], time_align: int) -> int:
    made = {
        key: _outside(b, kind, value[key], time_align)
        for key, kind, _, _ in SCHEMA.tables[name]
        if key in value
    }
    slots = sum(2 if kind in SCHEMA.unions else 1 for _, kind, _, _ in SCHEMA.tables[name])
    b.StartObject(slots)
    for key, kind, nullable, slot in SCHEMA.tables[name]:
        if key in value:
            _inside(b, kind, made[key], slot, nullable, time_align)
    return int(b.EndObject())


def _outside(b: Any, kind: str, value: Any, time_align: int) -> Any:
    """Write what lies outside of a table; return its place, or the value if nothing does."""
    if kind == "string":
        return b.CreateString(value)
    if kind == "[uint8]":
        return b.CreateByteVector(value)
    if kind in SCHEMA.unions:
        member, inner = value
        tag = SCHEMA.unions[kind].index(member) + 1
        return tag, _write_table(b, member, inner, time_align)
    if kind in SCHEMA.tables:
        return _write_table(b, kind, value, time_align)
    if kind.startswith("["):
        places = [_outside(b, kind.strip("[]"), item, time_align) for item in value]
        b.StartVector(4, len(places), 4)
        for place in reversed(places):
            b.PrependUOffsetTRelative(place)
        return b.EndVector()
    return value


def _inside(b: Any, kind: str, made: Any, slot: int, nullable: bool, time_align: int) -> None:
    if kind == "Timestamp":
        b.Prep(time_align, 16)
        for byte in reversed(struct.pack(_TIME, *made)):
            b.Place(byte, flatbuffers.number_types.Uint8Flags)
        b.PrependStructSlot(slot, b.Offset(), 0)
    elif kind in SCHEMA.unions:
        b.PrependUint8Slot(slot, made[0], 0)
        b.PrependUOffsetTRelativeSlot(slot + 1, made[1], 0)
    elif SCHEMA.scalar(kind) is None:
        b.PrependUOffsetTRelativeSlot(slot, made, 0)
    elif nullable or made:
        getattr(b, f"Prepend{SCHEMA.enums.get(kind, kind).capitalize()}")(made)
        b.Slot(slot)
