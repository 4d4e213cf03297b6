"""Types of SQL values by the rules of Spark 4.3 with ANSI mode on.  Pure.

A value has a type, or None where it is not known, and may be null or not; in doubt it may.
Nothing is guessed: a type with an unknown part is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.sql.text.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DAY_TIME,
    DAYS,
    DOUBLE,
    FLOAT,
    INT,
    LOCAL_TIME,
    NULL,
    SHORT,
    STRING,
    TIMESTAMP,
    YEAR_MONTH,
    Interval,
    SqlType,
    unwrapped,
)


class Value(NamedTuple):
    """The type of a value, and whether it may be null."""

    kind: SqlType | None
    nullable: bool = True

    def or_null(self) -> Value:
        return self if self.nullable else Value(self.kind, True)

    @property
    def stored(self) -> DataType | None:
        """Return the type of an item or field with such values."""
        if self.kind is None or isinstance(self.kind, Interval):
            return None
        return DataTypeOption(self.kind) if self.nullable else self.kind


UNKNOWN = Value(None)

_INTEGERS: dict[DataType, int] = {BYTE: 3, SHORT: 5, INT: 10, BIGINT: 20}  # with their digits
_ORDER: tuple[DataType, ...] = (BYTE, SHORT, INT, BIGINT, FLOAT, DOUBLE)
_RANK = {kind: rank for rank, kind in enumerate(_ORDER)}
TIMES: tuple[DataType, ...] = (DATE, LOCAL_TIME, TIMESTAMP)
_MAX = 38


def digits(kind: SqlType | None) -> DataTypeDecimal | None:
    """Return the decimal type for all values of an exact numeric type."""
    if isinstance(kind, DataTypeDecimal):
        return kind
    size = None if kind is None or isinstance(kind, Interval) else _INTEGERS.get(kind)
    return None if size is None else DataTypeDecimal(size, 0)


def decimal(precision: int, scale: int) -> DataTypeDecimal:
    """Return a decimal type cut to 38 digits, at the cost of digits after the point."""
    if precision <= _MAX:
        return DataTypeDecimal(precision, scale)
    whole = precision - scale
    return DataTypeDecimal(_MAX, max(_MAX - whole, min(scale, 6)))


# Literals and casts

_CONSTANTS: dict[str, DataType] = {
    "string": STRING,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "binary": BINARY,
}


def literal(kind: str, text: str) -> Value:
    """Return the type of a constant as it is written."""
    match kind:
        case "integer":
            return Value(_integer(int(text)), False)
        case "decimal":
            whole, _, fraction = text.partition(".")
            size = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
            return Value(DataTypeDecimal(size, len(fraction)) if size <= _MAX else None, False)
        case "null":
            return Value(NULL, True)
        case "interval":
            return Value(_interval(text), False)
    plain: DataType | None = _CONSTANTS.get(kind)
    return Value(plain, False)


def _integer(number: int) -> DataType | None:
    if -(2**31) <= number < 2**31:
        return INT
    if -(2**63) <= number < 2**63:
        return BIGINT
    size = len(str(abs(number)))
    return DataTypeDecimal(size, 0) if size <= _MAX else None


_UNITS: dict[str, Interval] = {
    "day": DAYS,
    "days": DAYS,
    **dict.fromkeys(("week", "weeks"), DAYS),
    **dict.fromkeys(("hour", "hours", "minute", "minutes", "second", "seconds"), DAY_TIME),
    **dict.fromkeys(("day to second", "day to hour", "day to minute"), DAY_TIME),
    **dict.fromkeys(("month", "months", "year", "years", "year to month"), YEAR_MONTH),
}


def _interval(unit: str) -> Interval | None:
    return _UNITS.get(unit)


def cast(value: Value, to: DataType | None, *, safe: bool = False) -> Value:
    """Return a value as another type; null is possible where the conversion may fail."""
    if to is None:
        return UNKNOWN
    if safe:
        return Value(to, True)
    return Value(to, value.nullable or not _is_sure(value.kind, to))


def _is_sure(of: SqlType | None, to: DataType) -> bool:
    """Return whether a cast never makes a value null, as Spark declares it."""
    if of is None or isinstance(of, Interval):
        return False
    if of == to or to in {STRING, BINARY}:
        return of not in {NULL}
    if of in _INTEGERS:
        room = digits(to) if isinstance(to, DataTypeDecimal) else None
        if room is not None:
            return room.precision - room.scale >= _INTEGERS[of]
        return to in _RANK
    if isinstance(of, DataTypeDecimal):
        fits = isinstance(to, DataTypeDecimal) and (
            to.scale >= of.scale and to.precision - to.scale >= of.precision - of.scale
        )
        return fits or to in {FLOAT, DOUBLE}
    if of in {FLOAT, DOUBLE}:
        return to in {FLOAT, DOUBLE}
    return of in TIMES and to in TIMES


# Common types


def common(values: Iterable[Value]) -> Value:
    """Return the common type of several values; nullable if any of them is."""
    given = list(values)
    kind: SqlType | None = NULL
    for value in given:
        kind = wider(kind, value.kind)
    if kind is None or isinstance(kind, Interval):
        return Value(kind, True)
    return Value(kind, any(cast(value, kind).nullable for value in given))


def wider(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """Return the least common type of two; None where there is none or it is not known."""
    if left is None or right is None:
        return None
    if right in (left, NULL):
        return left
    if left == NULL:
        return right
    if isinstance(left, Interval) or isinstance(right, Interval):
        return None
    if STRING in (left, right):
        return _with_text(right if left == STRING else left)
    if left in TIMES and right in TIMES:
        return TIMES[max(TIMES.index(left), TIMES.index(right))]
    return _wider_number(left, right) or _wider_nested(left, right)


def are_unlike(left: SqlType | None, right: SqlType | None) -> bool:
    """Return whether it is certain that two types have no common one."""
    return len(found := {_family(left), _family(right)}) > 1 and None not in found


def _family(kind: SqlType | None) -> str | None:
    """Return the family within which a type has common types; None if they are in several."""
    if kind == BOOLEAN:
        return "BOOLEAN"
    if kind in TIMES:
        return "a date or time"
    return "a number" if kind in _RANK or isinstance(kind, DataTypeDecimal) else None


def _with_text(other: DataType) -> DataType | None:
    if other in _INTEGERS:
        return BIGINT
    if other in {FLOAT, DOUBLE} or isinstance(other, DataTypeDecimal):
        return DOUBLE
    return other if other in {BOOLEAN, *TIMES} else None


def _wider_number(left: DataType, right: DataType) -> DataType | None:
    if left in _RANK and right in _RANK:
        widest = _ORDER[max(_RANK[left], _RANK[right])]
        return DOUBLE if widest == FLOAT else widest
    a, b = digits(left), digits(right)
    if a is not None and b is not None:
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        if whole + scale > _MAX:
            return None
        return DataTypeDecimal(whole + scale, scale)
    inexact = (a is not None and right in _RANK) or (b is not None and left in _RANK)
    return DOUBLE if inexact else None


def _wider_nested(left: DataType, right: DataType) -> DataType | None:
    match left, right:
        case DataTypeList(), DataTypeList():
            item = _wider_part(left.item_type, right.item_type)
            return None if item is None else DataTypeList(item)
        case DataTypeMap(), DataTypeMap():
            key = _wider_part(left.key_type, right.key_type)
            value = _wider_part(left.value_type, right.value_type)
            return None if key is None or value is None else DataTypeMap(key, value)
        case DataTypeStruct(), DataTypeStruct():
            if [f.name for f in left.fields] != [f.name for f in right.fields]:
                return None
            pairs = zip(left.fields, right.fields, strict=True)
            kinds = [(f.name, _wider_part(f.type, g.type)) for f, g in pairs]
            fields = [DataField(name, kind) for name, kind in kinds if kind is not None]
            return DataTypeStruct(tuple(fields)) if len(fields) == len(kinds) else None
    return None


def _wider_part(left: DataType, right: DataType) -> DataType | None:
    (a, a_null), (b, b_null) = unwrapped(left), unwrapped(right)
    kind = wider(a, b)
    if kind is None or isinstance(kind, Interval):
        return None
    sure = _is_sure(a, kind) and _is_sure(b, kind)
    return DataTypeOption(kind) if a_null or b_null or not sure else kind


# Arithmetic


def arithmetic(op: str, left: Value, right: Value, fits: Sequence[int | None] = ()) -> Value:
    """Return the type of `left op right`.

    `fits` are the digits of operands that are integer literals, which matter next to decimals;
    -1 if in doubt.
    """
    nullable = left.nullable or right.nullable or op in {"/", "%", "div"}
    a, b = left.kind, right.kind
    if a is None or b is None:
        return UNKNOWN
    if op in {"+", "-", "*"} and (timed := _time_type(op, a, b)) is not None:
        return Value(timed, nullable)
    if isinstance(a, Interval) or isinstance(b, Interval) or a in TIMES or b in TIMES:
        return UNKNOWN
    if NULL in (a, b):
        a, b = (b, b) if a == NULL else (a, a)
    if STRING in {a, b}:
        kind = None if a == b else wider(a, b)
        return Value(_plain(op, kind, kind), True)
    if isinstance(a, DataTypeDecimal) or isinstance(b, DataTypeDecimal):
        return _decimals(op, (a, b), tuple(fits) or (None, None), nullable)
    return Value(_plain(op, a, b), nullable)


def _plain(op: str, a: SqlType | None, b: SqlType | None) -> DataType | None:
    if a not in _RANK or b not in _RANK:
        return None
    if op == "/":
        return DOUBLE
    if op == "div":
        return BIGINT if a in _INTEGERS and b in _INTEGERS else None
    kind = wider(a, b)
    return None if isinstance(kind, Interval) else kind


def _time_type(op: str, a: SqlType, b: SqlType) -> SqlType | None:
    """Return the type of sums and differences of dates, times and intervals."""
    if op == "*":
        return None
    if op == "-" and a in TIMES and b in TIMES:
        return DAYS if a == b == DATE else DAY_TIME
    if op == "+" and b in TIMES:
        a, b = b, a
    if a not in TIMES:
        return None
    if isinstance(b, Interval):
        return a if a != DATE or b in (DAYS, YEAR_MONTH) else TIMESTAMP
    return DATE if a == DATE and b in {BYTE, SHORT, INT} else None


def _decimals(
    op: str, kinds: tuple[DataType, DataType], fits: tuple[int | None, ...], nullable: bool
) -> Value:
    if any(kind in {FLOAT, DOUBLE} for kind in kinds):
        return Value(None if op == "div" else DOUBLE, nullable)
    sizes = [
        DataTypeDecimal(fit, 0) if fit is not None and kind in _INTEGERS else digits(kind)
        for kind, fit in zip(kinds, fits, strict=True)
    ]
    a, b = sizes
    if a is None or b is None or -1 in fits:
        return UNKNOWN
    narrowed = any(fit is not None for fit in fits)
    if op == "div":
        return Value(BIGINT, True)
    return Value(_decimal(op, a, b), nullable or narrowed)


def _decimal(op: str, a: DataTypeDecimal, b: DataTypeDecimal) -> DataTypeDecimal | None:
    p, s, q, r = a.precision, a.scale, b.precision, b.scale
    match op:
        case "+" | "-":
            scale = max(s, r)
            return decimal(max(p - s, q - r) + scale + 1, scale)
        case "*":
            return decimal(p + q + 1, s + r)
        case "/":
            scale = max(6, s + q + 1)
            return decimal(p - s + r + scale, scale)
        case "%":
            scale = max(s, r)
            return decimal(min(p - s, q - r) + scale, scale)
    return None


def negative(value: Value) -> Value:
    """Return the type of `-value`, which is that of `abs(value)` too."""
    if value.kind == STRING:
        return Value(DOUBLE, True)
    number = value.kind in _RANK or isinstance(value.kind, DataTypeDecimal | Interval)
    return value if number else UNKNOWN


def rounded(value: Value, to: int | None) -> Value:
    """Return the type of a value rounded to so many digits after the point, known or not."""
    kind = value.kind
    if kind == STRING:
        return Value(DOUBLE, True)
    if kind in _RANK:
        return Value(kind, True)
    if not isinstance(kind, DataTypeDecimal) or to is None:
        return UNKNOWN
    whole = kind.precision - kind.scale + 1
    if to < 0:
        return Value(DataTypeDecimal(min(max(whole, 1 - to), _MAX), 0), True)
    scale = min(kind.scale, to)
    return Value(DataTypeDecimal(min(whole + scale, _MAX), scale), True)
