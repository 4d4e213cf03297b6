"""Rules for the type of a function's result, from the types of its arguments.

A signature has a letter for each argument, the last one repeated with `*`: t text, x text or
bytes, i integer, n number, d date or time, b boolean, a anything.  A result is sure not to be null
only if every argument is, and has such a type already: the conversion to another type may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.planner.sql import spark_types as of
from odfbuild.planner.sql.parts import item_of
from odfbuild.planner.sql.spark_types import SqlType, unwrapped
from odfbuild.planner.sql.types import (
    UNKNOWN,
    Value,
    arithmetic,
    cast,
    common,
)

__all__ = [
    "Rule",
    "apart",
    "approximate",
    "array",
    "avg",
    "by",
    "by_count",
    "coalesce",
    "collected",
    "concat",
    "concat_ws",
    "cut",
    "decode",
    "entries",
    "first",
    "flatten",
    "from_arrays",
    "gives",
    "if_",
    "item",
    "list_",
    "loose",
    "map_",
    "moved",
    "never",
    "operator",
    "part_of_map",
    "percentile",
    "range_",
    "repeated",
    "reverse",
    "same",
    "shift",
    "shifted",
    "sized",
    "sum_",
    "whole",
    "window",
    "window_part",
    "zero_if_null",
]

Rule = Callable[[Sequence[Value]], Value]

_INTEGERS = {of.BYTE, of.SHORT, of.INT, of.BIGINT}
_TIMES = {of.DATE, of.TIMESTAMP, of.LOCAL_TIME}


def _is(letter: str, kind: SqlType | None) -> bool:
    """Tell whether a type is taken as it is, or converted without fail."""
    if kind is None or kind == of.NULL:
        return False
    match letter:
        case "a":
            return True
        case "t":
            return kind == of.STRING or kind in _INTEGERS | _TIMES or kind == of.BOOLEAN
        case "x":
            return kind in {of.STRING, of.BINARY}
        case "i":
            return kind in _INTEGERS
        case "n":
            return kind in _INTEGERS | {of.FLOAT, of.DOUBLE} or isinstance(kind, DataTypeDecimal)
        case "d":
            return kind in _TIMES
        case _:
            return kind == of.BOOLEAN


def _sure(signature: str, args: Sequence[Value]) -> bool:
    if signature.endswith("*"):
        signature = signature[:-1] + signature[-2] * len(args)
    return len(args) <= len(signature) and not any(
        value.nullable or not _is(letter, value.kind)
        for letter, value in zip(signature, args, strict=False)
    )


def gives(kind: SqlType, signature: str | None = None) -> Rule:
    """Make the rule of a function with one result type; without signature it may give null."""
    return lambda args: Value(kind, signature is None or not _sure(signature, args))


def never(kind: SqlType) -> Rule:
    """Make the rule of a function that never gives null."""
    return lambda _: Value(kind, False)


def first(args: Sequence[Value]) -> Value:
    """Give the type of the first argument, and null."""
    return args[0].or_null() if args else UNKNOWN


def same(args: Sequence[Value]) -> Value:
    return args[0] if args else UNKNOWN


# Conditions


def coalesce(args: Sequence[Value]) -> Value:
    kind = common(args).kind
    if kind is None or isinstance(kind, of.Interval):
        return UNKNOWN
    return Value(kind, all(cast(value, kind).nullable for value in args))


def if_(args: Sequence[Value]) -> Value:
    return common(args[1:]) if len(args) == 3 else UNKNOWN


def decode(args: Sequence[Value]) -> Value:
    if len(args) < 3:
        return Value(of.STRING, True)
    rest = args[1:]
    results = [*rest[1::2], *(rest[-1:] if len(rest) % 2 else ())]
    kind = common(results)
    return kind if len(rest) % 2 else kind.or_null()


# Text and times


def concat(args: Sequence[Value]) -> Value:
    kinds = {type(value.kind) for value in args}
    if DataTypeList in kinds:
        return common(args) if kinds == {DataTypeList} else UNKNOWN
    if all(value.kind == of.BINARY for value in args):
        return Value(of.BINARY, any(value.nullable for value in args))
    if any(value.kind is None for value in args):
        return UNKNOWN
    return Value(of.STRING, any(cast(value, of.STRING).nullable for value in args))


def concat_ws(args: Sequence[Value]) -> Value:
    return Value(of.STRING, not args or args[0].nullable or args[0].kind != of.STRING)


def cut(args: Sequence[Value]) -> Value:
    """Give a part of a text, or of bytes."""
    kind = args[0].kind if args else None
    if kind is None:
        return UNKNOWN
    plain = of.BINARY if kind == of.BINARY else of.STRING
    sure = _sure("xii", args) or _sure("tii", args)
    return Value(plain, not sure)


def reverse(args: Sequence[Value]) -> Value:
    if not args or args[0].kind is None:
        return UNKNOWN
    return args[0] if isinstance(args[0].kind, DataTypeList) else gives(of.STRING, "t")(args)


def by_count(*rules: Rule) -> Rule:
    """Choose the rule by the number of arguments, from one on; the last serves all more."""
    return lambda args: rules[min(max(len(args), 1), len(rules)) - 1](args)


def moved(args: Sequence[Value]) -> Value:
    """Give a date moved by days, or a time moved by a unit: `dateadd(day, 1, t)`."""
    if len(args) != 3:
        return gives(of.DATE, "di")(args)
    kind = of.LOCAL_TIME if args[2].kind == of.LOCAL_TIME else of.TIMESTAMP
    return UNKNOWN if args[2].kind is None else Value(kind, not _sure("id", args[1:]))


def apart(args: Sequence[Value]) -> Value:
    if len(args) == 3:
        return Value(of.BIGINT, not _sure("dd", args[1:]))
    return gives(of.INT, "dd")(args)


def window(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind is None:
        return UNKNOWN
    edge = DataTypeOption(of.LOCAL_TIME if kind == of.LOCAL_TIME else of.TIMESTAMP)
    return Value(DataTypeStruct((DataField("start", edge), DataField("end", edge))), False)


def window_part(args: Sequence[Value]) -> Value:
    """Give the type of TUMBLE_START and its like: an instant, of all but local times."""
    kind = args[0].kind if args else None
    return UNKNOWN if kind in {None, of.LOCAL_TIME} else Value(of.TIMESTAMP, True)


# Numbers


def whole(args: Sequence[Value]) -> Value:
    """Give the type of floor and ceil."""
    kind = args[0].kind if len(args) == 1 else None
    if isinstance(kind, DataTypeDecimal):
        if kind.scale == 0:
            return Value(kind, True)
        return Value(DataTypeDecimal(min(kind.precision - kind.scale + 1, 38), 0), True)
    return Value(of.BIGINT, True) if _is("n", kind) else UNKNOWN


def operator(op: str) -> Rule:
    def rule(args: Sequence[Value]) -> Value:
        if len(args) != 2 or any(isinstance(a.kind, DataTypeDecimal) for a in args):
            return UNKNOWN
        return arithmetic(op, args[0], args[1]).or_null()

    return rule


def shift(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind not in {of.INT, of.BIGINT}:
        return UNKNOWN
    return Value(kind, not _sure("ii", args))


def zero_if_null(args: Sequence[Value]) -> Value:
    return coalesce([*args, Value(of.INT, False)])


# Lists, maps and structs


def array(args: Sequence[Value]) -> Value:
    item = common(args).stored
    return UNKNOWN if item is None or not args else Value(DataTypeList(item), False)


def map_(args: Sequence[Value]) -> Value:
    key, value = common(args[::2]).kind, common(args[1::2]).stored
    if not args or len(args) % 2 or key is None or value is None or isinstance(key, of.Interval):
        return UNKNOWN
    return Value(DataTypeMap(key, value), False)


def sized(args: Sequence[Value]) -> Value:
    return gives(of.INT, "a")(args)


def item(args: Sequence[Value]) -> Value:
    return item_of(args[0]) if args else UNKNOWN


def list_(args: Sequence[Value]) -> Value:
    """Give the type of the first argument, if that is a list."""
    return args[0] if args and isinstance(args[0].kind, DataTypeList) else UNKNOWN


def loose(args: Sequence[Value]) -> Value:
    """Give a list of the same items, among them perhaps null."""
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeList):
        return UNKNOWN
    item = unwrapped(kind.item_type)[0]
    others = [value.kind for value in args[1:]]
    if any(other not in {kind, item} and not isinstance(other, DataTypeList) for other in others):
        return UNKNOWN
    if any(isinstance(o, DataTypeList) and unwrapped(o.item_type)[0] != item for o in others):
        return UNKNOWN
    return Value(DataTypeList(DataTypeOption(item)), True)


def flatten(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeList):
        return UNKNOWN
    inner = unwrapped(kind.item_type)[0]
    if not isinstance(inner, DataTypeList):
        return UNKNOWN
    return Value(DataTypeList(DataTypeOption(unwrapped(inner.item_type)[0])), True)


def repeated(args: Sequence[Value]) -> Value:
    item = args[0].stored if args else None
    return UNKNOWN if item is None else Value(DataTypeList(item), not _sure("ii", args[1:]))


def range_(args: Sequence[Value]) -> Value:
    kinds = {value.kind for value in args[:2]}
    kind = kinds.pop()
    if kinds or kind is None or isinstance(kind, of.Interval):
        return UNKNOWN
    return Value(DataTypeList(kind), True)


def part_of_map(part: str) -> Rule:
    def rule(args: Sequence[Value]) -> Value:
        kind = args[0].kind if args else None
        if not isinstance(kind, DataTypeMap):
            return UNKNOWN
        inner: DataType = getattr(kind, f"{part}_type")
        return Value(DataTypeList(DataTypeOption(unwrapped(inner)[0])), args[0].nullable)

    return rule


def entries(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeMap):
        return UNKNOWN
    fields = (DataField("key", kind.key_type), DataField("value", kind.value_type))
    return Value(DataTypeList(DataTypeStruct(fields)), args[0].nullable)


def from_arrays(args: Sequence[Value]) -> Value:
    if len(args) != 2:
        return UNKNOWN
    keys, values = args[0].kind, args[1].kind
    if not isinstance(keys, DataTypeList) or not isinstance(values, DataTypeList):
        return UNKNOWN
    value = DataTypeOption(unwrapped(values.item_type)[0])
    return Value(DataTypeMap(unwrapped(keys.item_type)[0], value), True)


# Aggregates


def sum_(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if isinstance(kind, DataTypeDecimal):
        return Value(DataTypeDecimal(min(kind.precision + 10, 38), kind.scale), True)
    if kind in _INTEGERS:
        return Value(of.BIGINT, True)
    return Value(of.DOUBLE if kind in {of.FLOAT, of.DOUBLE, of.STRING} else None, True)


def avg(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if isinstance(kind, DataTypeDecimal):
        size, scale = min(kind.precision + 4, 38), min(kind.scale + 4, 38)
        return Value(DataTypeDecimal(size, scale), True)
    known = kind in _INTEGERS | {of.FLOAT, of.DOUBLE, of.STRING}
    return Value(of.DOUBLE if known else None, True)


def collected(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind is None or isinstance(kind, of.Interval):
        return UNKNOWN
    return Value(DataTypeList(kind), False)


def by(args: Sequence[Value]) -> Value:
    """Give the value of the row with the greatest rank, or a list of the values of several."""
    item = args[0].stored if len(args) == 3 else None
    return (
        first(args) if len(args) != 3 or item is None else Value(DataTypeList(_loose(item)), True)
    )


def _loose(item: DataType) -> DataType:
    return DataTypeOption(unwrapped(item)[0])


def percentile(args: Sequence[Value]) -> Value:
    if len(args) > 1 and (args[1].kind is None or isinstance(args[1].kind, DataTypeList)):
        return UNKNOWN
    return Value(of.DOUBLE, True)


def approximate(args: Sequence[Value]) -> Value:
    if len(args) < 2 or args[1].kind is None or isinstance(args[1].kind, DataTypeList):
        return UNKNOWN
    kind = args[0].kind
    return Value(kind if kind in _INTEGERS | _TIMES | {of.FLOAT, of.DOUBLE} else None, True)


# Windows


def shifted(args: Sequence[Value]) -> Value:
    """Give the value of another row, or the default where there is no such row."""
    if len(args) < 3:
        return first(args)
    sure = not args[0].nullable and not args[2].nullable and args[0].kind == args[2].kind
    return Value(args[0].kind, not sure)
