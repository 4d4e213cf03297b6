"""The FlatBuffers schema, for flatc and readers in other languages."""

from collections.abc import Iterator

from generator.model import Enumeration, Field, Model, TableType, UnionType

__all__ = ["fbs_text"]

_WIRE = {
    "bool": "bool",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "text": "string",
    "json": "string",
    "alias": "string",
    "ref": "string",
    "bytes": "[uint8]",
    "multihash": "[uint8]",
    "did": "[uint8]",
    "timestamp": "Timestamp",
}
_HEAD = """\
// Metadata of Open Data Fabric datasets.
// Made by schemas/generate.py from schemas/odf.yaml: change that, not this.

namespace odf;

// UTC: year, day of the year from 1, seconds since midnight, nanoseconds.
struct Timestamp {
  year: int32;
  ordinal: uint16;
  seconds_from_midnight: uint32;
  nanoseconds: uint32;
}
"""


def fbs_text(model: Model) -> str:
    """Return the whole schema."""
    parts = [
        _HEAD,
        *map(_enum, model.enums.values()),
        *map(_union, model.unions.values()),
        *(_wrapper(name) for name in _wrapped(model)),
        *(_table(table, model) for table in model.tables.values()),
    ]
    return "\n".join(parts) + "\nroot_type Manifest;\n"


def _enum(enum: Enumeration) -> str:
    return f"enum {enum.name}: {_WIRE[enum.wire]} {{ {', '.join(enum.values)} }}\n"


def _union(union: UnionType) -> str:
    members = "".join(f"  {table},\n" for _, table in union.members)
    return f"// {union.about}\nunion {union.name} {{\n{members}}}\n"


def _wrapped(model: Model) -> list[str]:
    """Return the unions that appear in lists, which FlatBuffers can only hold in tables."""
    fields = (field for table in model.tables.values() for field in table.fields)
    return sorted({field.type for field in fields if field.many and field.type in model.unions})


def _wrapper(union: str) -> str:
    return f"table {union}Wrapper {{\n  value: {union} (required);\n}}\n"


def _table(table: TableType, model: Model) -> str:
    lines = "".join(f"  {line}\n" for field in table.fields for line in _field(field, model))
    return f"// {table.about}\ntable {table.name} {{\n{lines}}}\n"


def _field(field: Field, model: Model) -> Iterator[str]:
    name = _WIRE.get(field.type, field.type)
    if field.many:
        name = f"[{name}Wrapper]" if field.type in model.unions else f"[{name}]"
    scalar = not field.many and (
        field.type in model.enums or name in set(_WIRE.values()) - _OBJECTS
    )
    suffix = ""
    if scalar and field.optional:
        suffix = " = null"
    elif not scalar and not field.optional:
        suffix = " (required)"
    yield f"{field.name}: {name}{suffix};"


_OBJECTS = {"string", "[uint8]", "Timestamp"}
