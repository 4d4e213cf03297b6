"""Parts of structs, lists and maps: what `a.b` and `a[0]` give.  Pure."""

from __future__ import annotations

from odfbuild.odf.events import DataType, DataTypeList, DataTypeMap, DataTypeStruct
from odfbuild.planner.sql.spark_types import unwrapped
from odfbuild.planner.sql.types import UNKNOWN, Value

__all__ = ["field_of", "item_of"]


def field_of(value: Value, name: str) -> Value | None:
    """Return a field of a struct, of every struct in a list, or the value of a key in a map.

    None if the struct has no such field.
    """
    kind = value.kind
    if isinstance(kind, DataTypeStruct):
        found = [field.type for field in kind.fields if field.name == name]
        return _part(found[0], value.nullable) if len(found) == 1 else None
    if isinstance(kind, DataTypeMap):
        return Value(unwrapped(kind.value_type)[0], True)
    if isinstance(kind, DataTypeList):
        item, null = unwrapped(kind.item_type)
        inner = field_of(Value(item, null), name) if isinstance(item, DataTypeStruct) else UNKNOWN
        if inner is None:
            return None
        stored = inner.stored
        return UNKNOWN if stored is None else Value(DataTypeList(stored), value.nullable)
    return UNKNOWN


def item_of(value: Value) -> Value:
    """Return an item of a list or a value of a map, which may always be missing."""
    kind = value.kind
    if isinstance(kind, DataTypeList):
        return Value(unwrapped(kind.item_type)[0], True)
    if isinstance(kind, DataTypeMap):
        return Value(unwrapped(kind.value_type)[0], True)
    return UNKNOWN


def _part(of: DataType, nullable: bool) -> Value:
    kind, null = unwrapped(of)
    return Value(kind, null or nullable)
