"""Parts of structs, lists and maps, and the columns of generator functions.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from odfbuild.odf.events import DataType, DataTypeList, DataTypeMap, DataTypeStruct
from odfbuild.sql.columns.types import UNKNOWN, Value
from odfbuild.sql.text.shape import Call, Expr, Literal
from odfbuild.sql.text.types import BIGINT, INT, STRING, unwrapped


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


def has_twice(value: Value, name: str) -> bool:
    """Return whether a struct, or every struct in a list, has several fields of a name."""
    kind = value.kind
    while isinstance(kind, DataTypeList):
        kind = unwrapped(kind.item_type)[0]
    return isinstance(kind, DataTypeStruct) and [f.name for f in kind.fields].count(name) > 1


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


GeneratedColumns: TypeAlias = list[tuple[str, Value]]


def generated(
    call: Call, args: Sequence[Value], names: Sequence[str], *, outer: bool
) -> GeneratedColumns:
    """Return the columns of a generator, under `names` if these are as many.

    Empty if they cannot be determined; if only the types cannot, the columns are those of `names`.
    """
    base = call.name.removesuffix("_outer")
    given = _columns_of(base, call.args, args)
    if outer or base != call.name:
        given = [(name, value.or_null()) for name, value in given]
    if not given:
        return [(name, UNKNOWN) for name in names]
    if not names:
        return given
    if len(names) != len(given):
        return []
    return [(name, value) for name, (_, value) in zip(names, given, strict=True)]


def wrong_names(call: Call, args: Sequence[Value], names: Sequence[str]) -> str | None:
    """Return the problem of a generator whose columns are not as many as its names."""
    given = len(_columns_of(call.name.removesuffix("_outer"), call.args, args))
    if not given or not names or len(names) == given:
        return None
    return f"{call.name}() has {given} column{'s' * (given != 1)}, but {len(names)} names"


def _columns_of(name: str, exprs: Sequence[Expr], args: Sequence[Value]) -> GeneratedColumns:
    match name:
        case "explode" if args:
            return _explode_columns(args[0])
        case "posexplode" if args and (items := _explode_columns(args[0])):
            return [("pos", Value(INT, False)), *items]
        case "inline" if args:
            return _inline_columns(args[0])
        case "stack" if args:
            return _stack_columns(exprs, args)
        case "json_tuple":
            return [(f"c{number}", Value(STRING)) for number in range(len(args) - 1)]
        case "range":
            return [("id", Value(BIGINT, False))]
    return []


def _explode_columns(value: Value) -> GeneratedColumns:
    match value.kind:
        case DataTypeList(item_type=item):
            return [("col", Value(*unwrapped(item)))]
        case DataTypeMap(key_type=key, value_type=inner):
            return [("key", Value(unwrapped(key)[0], False)), ("value", Value(*unwrapped(inner)))]
    return []


def _inline_columns(value: Value) -> GeneratedColumns:
    if not isinstance(value.kind, DataTypeList):
        return []
    item, missing = unwrapped(value.kind.item_type)
    if not isinstance(item, DataTypeStruct):
        return []
    parts = [(field.name, unwrapped(field.type)) for field in item.fields]
    return [(name, Value(kind, null or missing)) for name, (kind, null) in parts]


def _stack_columns(exprs: Sequence[Expr], args: Sequence[Value]) -> GeneratedColumns:
    count = exprs[0]
    if not isinstance(count, Literal) or count.kind != "integer" or int(count.text) < 1:
        return []
    rows, rest = int(count.text), args[1:]
    width = -(-len(rest) // rows)
    return [(f"col{at}", _column(rest[at::width])) for at in range(width)]


def _column(values: Sequence[Value]) -> Value:
    """Return the value of a column of `stack`: unknown unless its items have one type."""
    kinds = {value.kind for value in values}
    return Value(kinds.pop(), True) if len(kinds) == 1 else UNKNOWN
