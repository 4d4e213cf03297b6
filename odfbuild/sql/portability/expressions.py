"""Expressions of portable queries: the list of those that mean the same in both engines.  Pure.

Whatever is not named here is no part of a portable query.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from odfbuild.odf.events import DataType, DataTypeDecimal
from odfbuild.sql.portability.parts import (
    BITS,
    DIGITS,
    EXACT_IN_DOUBLE,
    PortableColumn,
    PortableValue,
    UnportableError,
    fits,
    is_scalar,
    value_of,
)
from odfbuild.sql.text.shape import Call, Case, Cast, Column, Expr, Literal, Operation, StarExpr
from odfbuild.sql.text.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP
from odfbuild.texts.patterns import late_pattern

COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})
_PREDICATES: Final = COMPARISONS | {"and", "or", "not", "is null", "is not null", "between", "in"}
AGGREGATES: Final = frozenset({"count", "min", "max", "sum"})
_ORDERED: Final = frozenset({*BITS, DOUBLE, STRING, DATE, TIMESTAMP})
_SUMMED: Final = 28  # digits of decimals whose sums have room for ten more
_UNITS: Final = frozenset({"year", "quarter", "month", "day"})
_DAY: Final = late_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BOOLEAN: Final = PortableValue(BOOLEAN)


class Expressions:
    """Reads expressions over columns; raises UnportableError at the first that is not listed."""

    def __init__(self, columns: Sequence[PortableColumn], *, grouped: bool = False) -> None:
        self._columns = columns
        self._grouped = grouped

    def condition(self, expr: Expr) -> None:
        """Read a condition."""
        if self.value(expr).kind != BOOLEAN:
            raise UnportableError("a condition that is not BOOLEAN", expr)

    def value(self, expr: Expr) -> PortableValue:
        """Return what is known of the value of an expression."""
        match expr:
            case Column():
                return self.column(expr)
            case Literal():
                return _literal(expr)
            case Cast():
                return self._cast(expr)
            case Case():
                return self._case(expr)
            case Operation():
                return self._operation(expr)
            case Call():
                return self._call(expr)
        raise UnportableError(f"{_named(expr)} is not in the list of what both read alike", expr)

    def column(self, expr: Column) -> PortableValue:
        """Return what is known of a column that is named."""
        found = self.named(expr)
        if found.value is None:
            raise UnportableError(f"{'.'.join(expr.parts)} is of a type that is not listed", expr)
        return found.value

    def named(self, expr: Column) -> PortableColumn:
        """Return the column that is named."""
        *qualifier, name = expr.parts
        found = [
            each
            for each in self._columns
            if each.name == name and (not qualifier or [each.relation] == qualifier)
        ]
        if len(found) != 1 or len(qualifier) > 1:
            raise UnportableError(
                f"{'.'.join(expr.parts)} is no column of what the SELECT reads, or of several", expr
            )
        return found[0]

    # Values

    def _cast(self, expr: Cast) -> PortableValue:
        to = expr.type
        if expr.safe or to is None or not is_scalar(to):
            raise UnportableError("TRY_CAST, or a CAST to a type that is not listed", expr)
        if isinstance(expr.value, Literal) and expr.value.kind == "null":
            return value_of(to)
        if to == DATE and isinstance(expr.value, Literal) and _is_day(expr.value):
            return value_of(to)
        return _as_type(self.value(expr.value), to, expr)

    def _case(self, expr: Case) -> PortableValue:
        if expr.operand is not None:
            operand = self.value(expr.operand)
            for condition, _ in expr.branches:
                self._compared(expr.operand, operand, condition)
        else:
            for condition, _ in expr.branches:
                self.condition(condition)
        results = [result for _, result in expr.branches]
        return self._branches([*results, *([] if expr.default is None else [expr.default])], expr)

    def _branches(self, exprs: Sequence[Expr], of: Expr) -> PortableValue:
        """Return the value of branches, which have one type without a cast of any."""
        values = [self.value(each) for each in exprs]
        kinds = {each.kind for each in values}
        written = None in kinds
        kinds.discard(None)
        if len(kinds) != 1 or (written and kinds != {BIGINT}):
            raise UnportableError(
                "branches of several types, or of numbers as they are written, which are INT in "
                "Spark and BIGINT in DataFusion: give them one type by CAST",
                of,
            )
        (kind,) = kinds
        low, high = min(each.low for each in values), max(each.high for each in values)
        return PortableValue(kind, low, high, any(each.signed for each in values))

    def _operation(self, expr: Operation) -> PortableValue:
        op, args = expr.op, expr.args
        match op:
            case "and" | "or" | "not":
                for each in args:
                    self.condition(each)
                return _BOOLEAN
            case "is null" | "is not null":
                self._operand(args[0])
                return _BOOLEAN
            case "between" | "in":
                value = self._operand(args[0])
                for each in args[1:]:
                    self._compared(args[0], value, each)
                return _BOOLEAN
            case "neg":
                return self._negative(expr)
            case "||":
                if any(self.value(each).kind != STRING for each in args):
                    raise UnportableError("|| of anything but texts", expr)
                return value_of(STRING)
            case "+" | "-" | "*":
                return _arithmetic(op, self.value(args[0]), self.value(args[1]), expr)
        if op in COMPARISONS:
            self._compared(args[0], self._operand(args[0]), args[1])
            return _BOOLEAN
        raise UnportableError(f"the operator {op.upper()} is not in the list", expr)

    def _operand(self, expr: Expr) -> PortableValue:
        """Return the value of an operand, whose end both engines see at the same place."""
        if isinstance(expr, Operation) and expr.op in _PREDICATES:
            raise UnportableError("a condition that is compared, or asked for null", expr)
        return self.value(expr)

    def _compared(self, one: Expr, value: PortableValue, other: Expr) -> None:
        """Check that two values are compared in one type."""
        against = self._operand(other)
        for each, of in ((value, one), (against, other)):
            if each.signed:
                raise UnportableError(
                    "a comparison of what may be -0.0, such as a product of DOUBLEs", of
                )
        if not _is_comparable(value, against) and not _is_comparable(against, value):
            raise UnportableError(
                "a comparison of values of several types: give them one type by CAST", one
            )

    def _negative(self, expr: Operation) -> PortableValue:
        value = self.value(expr.args[0])
        low, high = -value.high, -value.low
        if not value.is_integer or not fits(low, high, value.kind or BIGINT):
            raise UnportableError("a negative value of a type without room for it", expr)
        return value._replace(low=low, high=high)

    # Calls

    def _call(self, expr: Call) -> PortableValue:
        plain = not (expr.order or expr.over or expr.names or expr.ignores_nulls or expr.where)
        if not plain:
            raise UnportableError(f"{expr.name}() with OVER, FILTER, an order or names", expr)
        if expr.name in AGGREGATES:
            return self._aggregate(expr)
        if expr.distinct:
            raise UnportableError(f"{expr.name}(DISTINCT ...)", expr)
        match expr.name, expr.args:
            case "coalesce", (_, _, *_):
                return self._branches(expr.args, expr)
            case (("char_length" | "length"), (value,)) if self.value(value).kind == STRING:
                return PortableValue(INT, 0, (1 << 31) - 1)
            case "extract", (Literal(text=unit), value) if unit in _UNITS:
                if self.value(value).kind in (DATE, TIMESTAMP):
                    return value_of(INT)
        raise UnportableError(
            f"{expr.name}() is not in the list of functions, or not of values of these types", expr
        )

    def _aggregate(self, expr: Call) -> PortableValue:
        if not self._grouped:
            raise UnportableError(f"{expr.name}() without GROUP BY, or within an aggregate", expr)
        if expr.name == "count" and len(expr.args) == 1 and isinstance(expr.args[0], StarExpr):
            if expr.args[0].qualifier or expr.args[0].excluded or expr.distinct:
                raise UnportableError("count() of a star that is not all columns", expr)
            return PortableValue(BIGINT, 0, (1 << 63) - 1)
        if len(expr.args) != 1:
            raise UnportableError(f"{expr.name}() of several values", expr)
        value = Expressions(self._columns).value(expr.args[0])
        kind = value.kind
        if kind is None or value.signed:
            raise UnportableError(f"{expr.name}() of a constant, or of what may be -0.0", expr)
        if expr.name == "count":
            if expr.distinct and not _has_order(kind):
                raise UnportableError("count(DISTINCT ...) of a value of this type", expr)
            return PortableValue(BIGINT, 0, (1 << 63) - 1)
        if expr.distinct:
            raise UnportableError(f"{expr.name}(DISTINCT ...)", expr)
        if expr.name in ("min", "max") and _has_order(kind):
            return value
        if expr.name == "sum" and isinstance(kind, DataTypeDecimal) and kind.precision <= _SUMMED:
            return value_of(DataTypeDecimal(kind.precision + 10, kind.scale))
        if expr.name == "sum" and kind in BITS and kind != BIGINT:
            return value_of(BIGINT)
        raise UnportableError(
            f"{expr.name}() of values of this type: a sum of BIGINTs that does not fit is an error "
            "in Spark, and another number in DataFusion; sum(cast(... as decimal(19, 0))) has room"
            if expr.name == "sum"
            else f"{expr.name}() of values of this type",
            expr,
        )


def _literal(expr: Literal) -> PortableValue:
    match expr.kind:
        case "integer" if (number := int(expr.text)) < 1 << 63:
            return PortableValue(None, number, number)
        case "string":
            return value_of(STRING)
        case "boolean":
            return _BOOLEAN
        case "double":
            return value_of(DOUBLE)
    raise UnportableError(
        "a number with a point, which is a DECIMAL in Spark and a DOUBLE in DataFusion: 15e-1 is "
        "a DOUBLE in both"
        if expr.kind == "decimal"
        else f"a constant of the kind {expr.kind}"
    )


def _is_day(expr: Literal) -> bool:
    """Say whether a constant is a day as both engines read and write it."""
    if expr.kind != "string" or _DAY.fullmatch(expr.text) is None:
        return False
    try:
        date.fromisoformat(expr.text)
    except ValueError:
        return False
    return True


def _as_type(value: PortableValue, to: DataType, at: Expr) -> PortableValue:
    """Return a value as another type, where no value can fail or be rounded unlike."""
    kind, low, high = value.kind, value.low, value.high
    if kind == to:
        return value
    if value.is_integer:
        if to in BITS and fits(low, high, to):
            return value._replace(kind=to)
        if isinstance(to, DataTypeDecimal):
            room = 10 ** (to.precision - to.scale)
            if -room < low and high < room:
                return value_of(to)
        if to == STRING and kind is not None:
            return value_of(to)
        if to == DOUBLE and max(-low, high) <= EXACT_IN_DOUBLE:
            return value_of(to)
    if isinstance(kind, DataTypeDecimal) and isinstance(to, DataTypeDecimal):
        whole = to.precision - to.scale >= kind.precision - kind.scale
        if whole and to.scale >= kind.scale:
            return value_of(to)
    if (kind, to) in {(BOOLEAN, STRING), (TIMESTAMP, DATE)}:
        return value_of(to)
    raise UnportableError("a CAST that may fail, round or write a value in another way", at)


def _arithmetic(op: str, one: PortableValue, other: PortableValue, at: Expr) -> PortableValue:
    if one.is_integer and other.is_integer:
        return _whole_numbers(op, one, other, at)
    kinds = {one.kind, other.kind}
    if kinds <= {DOUBLE, None}:
        number = one if one.kind is None else other
        if kinds == {DOUBLE} or abs(number.low) <= EXACT_IN_DOUBLE:
            return PortableValue(DOUBLE, signed=True)
    a, b = one.kind, other.kind
    if isinstance(a, DataTypeDecimal) and isinstance(b, DataTypeDecimal):
        precision, scale = _decimal_size(op, a, b)
        if precision <= DIGITS:
            return value_of(DataTypeDecimal(precision, scale))
    raise UnportableError(f"{op} of values of these types", at)


def _whole_numbers(op: str, one: PortableValue, other: PortableValue, at: Expr) -> PortableValue:
    kinds = [each.kind for each in (one, other) if each.kind is not None]
    written = len(kinds) < 2
    if not kinds or (written and kinds[0] != BIGINT):
        raise UnportableError(
            "arithmetic with a number as it is written, which is an INT in Spark and a BIGINT in "
            "DataFusion: cast the other operand to BIGINT",
            at,
        )
    kind = max(kinds, key=BITS.__getitem__)
    low, high = _range(op, one, other)
    if not fits(low, high, kind):
        raise UnportableError(
            f"{op} of integers whose result may not fit, which is an error in Spark and another "
            "number in DataFusion: cast smaller ones to BIGINT, or BIGINTs to DECIMAL(19, 0)",
            at,
        )
    return PortableValue(kind, low, high)


def _range(op: str, one: PortableValue, other: PortableValue) -> tuple[int, int]:
    if op == "+":
        return one.low + other.low, one.high + other.high
    if op == "-":
        return one.low - other.high, one.high - other.low
    corners = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    return min(corners), max(corners)


def _decimal_size(op: str, a: DataTypeDecimal, b: DataTypeDecimal) -> tuple[int, int]:
    if op == "*":
        return a.precision + b.precision + 1, a.scale + b.scale
    scale = max(a.scale, b.scale)
    return max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale


def _has_order(kind: DataType | None) -> bool:
    return kind in _ORDERED or isinstance(kind, DataTypeDecimal)


def _is_comparable(one: PortableValue, other: PortableValue) -> bool:
    """Say whether values are compared exactly; a number as it is written is the second."""
    if one.is_integer and other.is_integer:
        return True
    if other.kind is None and one.kind == DOUBLE:
        return abs(other.low) <= EXACT_IN_DOUBLE
    if other.kind is None and isinstance(one.kind, DataTypeDecimal):
        return one.kind.scale + max(one.kind.precision - one.kind.scale, 20) <= DIGITS
    return one.kind == other.kind and (_has_order(one.kind) or one.kind == BOOLEAN)


def _named(expr: Expr) -> str:
    return {
        "StarExpr": "a star as a value",
        "Subquery": "a query within an expression",
        "Lambda": "a function as a value",
        "Field": "a member of a struct",
        "Element": "an item of a list or map",
    }.get(type(expr).__name__, "this form")
