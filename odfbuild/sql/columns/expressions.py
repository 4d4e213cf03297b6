"""Types and input columns of an expression.  Pure.

Columns that only decide on rows, order or groups are collected apart from those that values are
computed from.  A form that is not understood has no type, but its columns still count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import combinations

from odfbuild.odf.events import DataField, DataType, DataTypeDecimal, DataTypeList, DataTypeStruct
from odfbuild.sql.columns.argument_types import cast_to, compared, mismatch
from odfbuild.sql.columns.constants import (
    ConstantFailure,
    cast_failure,
    failure,
    literal_failure,
    operator_failure,
    type_failure,
)
from odfbuild.sql.columns.functions import AGGREGATES, RANKINGS, SCALARS, WINDOW_PARTS, WINDOWED
from odfbuild.sql.columns.output import Attribute, ColumnRef, RelationColumns
from odfbuild.sql.columns.scope import Ambiguous, Missing, NameScope, Resolution, fields_of
from odfbuild.sql.columns.structs import field_of, has_twice, item_of
from odfbuild.sql.columns.types import (
    UNKNOWN,
    Value,
    arithmetic,
    cast,
    common,
    literal,
    negative,
    rounded,
    wider,
)
from odfbuild.sql.forbidden import FORBIDDEN
from odfbuild.sql.spark_functions import ALLOWED
from odfbuild.sql.text import types
from odfbuild.sql.text.shape import (
    Call,
    Case,
    Cast,
    Column,
    Element,
    Expr,
    Field,
    Lambda,
    Literal,
    Operation,
    QueryShape,
    StarExpr,
    Subquery,
    TextPlace,
    Unknown,
    WindowShape,
    walk,
)
from odfbuild.sql.text.types import BOOLEAN, STRING, unwrapped
from odfbuild.values import dataclass

_SURE = {"is null", "is not null", "<=>", "is", "is distinct from"}
_ARITHMETIC = {"+", "-", "*", "/", "%", "div"}
_BITS = {"&", "|", "^"}
_COMPARED = {"=", "<>", "<", "<=", ">", ">=", "between", "in"}


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A name that the inputs do not have, or that several columns or fields have (`ambiguous`).

    `closest` is a suggestion: the most similar name, or the qualified names, if they differ.
    """

    name: str
    step: int
    place: TextPlace | None
    closest: str | None
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class UnknownFunction:
    """A call of a function that the engine does not have."""

    name: str
    step: int
    place: TextPlace | None


@dataclass(frozen=True, slots=True)
class WrongConstant:
    """A constant with which the engine fails on the first row: the failure, and its remedy.

    With `typed` it is a value of a type that the engine does not accept there, whatever the row.
    """

    what: str
    fix: str
    step: int
    place: TextPlace | None
    typed: bool = False


class ExpressionReader(ABC):
    """Reads expressions; its results are shared by all queries of a transform."""

    def __init__(self) -> None:
        self.into: set[ColumnRef] = set()
        self.shaping: set[ColumnRef] = set()
        self.places: dict[ColumnRef, tuple[int, TextPlace]] = {}
        self.unknown_columns: list[UnknownColumn] = []
        self.unknown_functions: list[UnknownFunction] = []
        self.wrong_constants: list[WrongConstant] = []
        self.step = 0

    @abstractmethod
    def subquery(self, query: QueryShape, outer: NameScope) -> RelationColumns:
        """Return the columns of a query inside an expression."""

    def sourced(self, expr: Expr, scope: NameScope) -> tuple[Value, frozenset[ColumnRef]]:
        """Return the value of an expression, and the columns that it is computed from."""
        before, self.into = self.into, set()
        try:
            return self.value(expr, scope), frozenset(self.into)
        finally:
            self.into = before

    def shape(self, exprs: Sequence[Expr], scope: NameScope) -> None:
        """Read expressions that decide on rows; their columns shape the result."""
        before, self.into = self.into, self.shaping
        for expr in exprs:
            self.value(expr, scope)
        self.into = before

    def condition(self, expr: Expr, scope: NameScope) -> None:
        """Read a condition, which decides on rows."""
        before, self.into = self.into, self.shaping
        value = self.value(expr, scope)
        self.into = before
        self.note_types("condition", [expr], [value], None)

    def value(self, expr: Expr, scope: NameScope) -> Value:
        return _READERS[type(expr)](self, expr, scope)

    def values(self, exprs: Sequence[Expr], scope: NameScope) -> list[Value]:
        return [self.value(expr, scope) for expr in exprs]

    # Names

    def column(self, expr: Column, scope: NameScope) -> Value:
        found = scope.resolve(expr.parts)
        if isinstance(found, Resolution):
            self.use(found.sources, expr.place)
            return found.value
        self._missing(expr, found)
        return UNKNOWN

    def use(self, sources: frozenset[ColumnRef], place: TextPlace | None) -> None:
        """Record columns that are used."""
        self.into |= sources
        if place is not None:
            for ref in sources:
                self.places.setdefault(ref, (self.step, place))

    def note_failure(self, failure: ConstantFailure | None, place: TextPlace | None) -> None:
        """Record a constant with which the engine fails."""
        if failure is not None:
            found = WrongConstant(failure.what, failure.fix, self.step, place, failure.typed)
            self.wrong_constants.append(found)

    def note_types(
        self, name: str, exprs: Sequence[Expr], values: Sequence[Value], place: TextPlace | None
    ) -> None:
        """Record a value of a type that a function or an operator does not accept."""
        places = (e.place for each in exprs for e in walk(each) if isinstance(e, Column | Call))
        self.note_failure(mismatch(name, exprs, values), place or next(places, None))

    def placed(self, place: TextPlace | None) -> tuple[int, TextPlace] | None:
        """Return a place with the number of the step that it is in."""
        return None if place is None else (self.step, place)

    def _missing(self, expr: Column, found: Missing | Ambiguous) -> None:
        name = ".".join(expr.parts)
        if isinstance(found, Ambiguous):
            self.use(found.sources, expr.place)
            closest, ambiguous = " or ".join(found.candidates), True
        else:
            closest, ambiguous = found.closest or "", False
        self.unknown_columns.append(
            UnknownColumn(name, self.step, expr.place, closest or None, ambiguous)
        )

    def star(self, expr: StarExpr, scope: NameScope) -> Value:
        """Read a star as an argument: all its columns are used."""
        found = self.expanded(expr, scope)
        for each in () if found is None else found.columns:
            self.use(each.sources, expr.place)
        return UNKNOWN

    def expanded(self, expr: StarExpr, scope: NameScope) -> RelationColumns | None:
        """Return the columns of a star; None if they are not known."""
        spots = dict(zip(expr.excluded, expr.spots, strict=True))
        for each in scope.rows.columns:
            named = (each.name,) in spots and expr.qualifier in {(), (each.qualifier,)}
            if named:
                self._note(each.sources, spots[each.name,] or expr.place)
        found = scope.rows.starred(expr)
        return self._fields(expr, scope) if found is None else found

    def _note(self, sources: frozenset[ColumnRef], place: TextPlace | None) -> None:
        if place is not None:
            for ref in sources:
                self.places.setdefault(ref, (self.step, place))

    def _fields(self, expr: StarExpr, scope: NameScope) -> RelationColumns | None:
        """Return the fields of a struct that a star expands."""
        found = scope.resolve(expr.qualifier)
        if not isinstance(found, Resolution):
            self._missing(Column(expr.qualifier, expr.place), found)
            return None
        self._note(found.sources, expr.place)
        fields = fields_of(expr, found.value, found.sources)
        if fields is None:
            self.use(found.sources, expr.place)
        return fields

    # Values

    def literal(self, expr: Literal, _: NameScope) -> Value:
        self.note_failure(literal_failure(expr), None)
        return literal(expr.kind, expr.text)

    def cast(self, expr: Cast, scope: NameScope) -> Value:
        value = self.value(expr.value, scope)
        self.note_failure(type_failure(expr.type), None)
        if not expr.safe:
            self.note_failure(cast_failure(expr.value, expr.type), None)
        if expr.literal and expr.type is not None:
            return Value(expr.type, False)
        self.note_types(cast_to(expr.type), [expr.value], [value], None)
        return cast(value, expr.type, safe=expr.safe)

    def field(self, expr: Field, scope: NameScope) -> Value:
        value = self.value(expr.value, scope)
        self.note_types("field", [expr.value], [value], None)
        return self.part(value, expr.name, expr.value)

    def element(self, expr: Element, scope: NameScope) -> Value:
        index = self.value(expr.index, scope)
        inner = self.value(expr.value, scope)
        self.note_types("element", [expr.value, expr.index], [inner, index], None)
        if isinstance(inner.kind, DataTypeStruct) and isinstance(expr.index, Literal):
            return self.part(inner, expr.index.text, expr.value)
        return item_of(inner)

    def part(self, value: Value, name: str, of: Expr) -> Value:
        """Return a field of a struct; record one that it does not have."""
        found = field_of(value, name)
        kind = value.kind
        while isinstance(kind, DataTypeList):
            kind = unwrapped(kind.item_type)[0]
        if found is None and isinstance(kind, DataTypeStruct):
            twice = has_twice(value, name)
            names = [] if twice else [field.name for field in kind.fields]
            closest = get_close_matches(name, names, n=1)
            path = f"{'.'.join(of.parts)}." if isinstance(of, Column) else ""
            place = next((each.place for each in walk(of) if isinstance(each, Column)), None)
            meant = f"{path}{closest[0]}" if closest else None
            self.unknown_columns.append(
                UnknownColumn(f"{path}{name}", self.step, place, meant, ambiguous=twice)
            )
        return found or UNKNOWN

    def case(self, expr: Case, scope: NameScope) -> Value:
        operand = None if expr.operand is None else self.value(expr.operand, scope)
        results = []
        for condition, result in expr.branches:
            given = self.value(condition, scope)
            if expr.operand is None or operand is None:
                self.note_types("condition", [condition], [given], None)
            else:
                self.note_types("=", [expr.operand, condition], [operand, given], None)
            results.append(self.value(result, scope))
        values = [result for _, result in expr.branches]
        if expr.default is not None:
            values.append(expr.default)
            results.append(self.value(expr.default, scope))
        for one, other in combinations(range(len(values)), 2):
            pair = (one, other)
            self.note_types("case", [values[n] for n in pair], [results[n] for n in pair], None)
        return common(results) if expr.default is not None else common(results).or_null()

    def operation(self, expr: Operation, scope: NameScope) -> Value:
        op = expr.op
        if op == "escape" and isinstance(expr.args[0], Operation):
            args = self.values(expr.args[0].args, scope)
            self.note_failure(operator_failure(op, expr.args, args), None)
            return Value(BOOLEAN, True)
        args = self.values(expr.args, scope)
        place = next((each.place for each in expr.args if isinstance(each, Column)), None)
        self.note_failure(operator_failure(op, expr.args, args), place)
        for name, of in compared(op, len(args)):
            self.note_types(name, [expr.args[n] for n in of], [args[n] for n in of], None)
        if op in _ARITHMETIC:
            return arithmetic(op, args[0], args[1], [fit(each) for each in expr.args])
        if op == "||":
            return SCALARS["concat"](args)
        if op == "neg":
            number = integer(expr)
            return negative(args[0]) if number is None else literal("integer", str(number))
        if op in _BITS or op == "~":
            kind = args[0].kind if op == "~" else wider(args[0].kind, args[1].kind)
            known = kind in {
                types.BYTE,
                types.SHORT,
                types.INT,
                types.BIGINT,
            }
            return Value(kind, any(a.nullable for a in args)) if known else UNKNOWN
        if op == "row":
            return UNKNOWN
        return Value(BOOLEAN, op not in _SURE and not _sure(op, args))

    def inner(self, expr: Subquery, scope: NameScope) -> Value:
        """Read a subquery: its columns are values, or decide on an IN."""
        rows = self.subquery(expr.query, scope)
        for each in rows.columns:
            self.into |= each.sources
        if expr.kind == "exists":
            return Value(BOOLEAN, False)
        if expr.kind == "in":
            assert expr.value is not None  # noqa: S101 - IN has a left side
            self.value(expr.value, scope)
            return Value(BOOLEAN, True)
        return rows.columns[0].value.or_null() if len(rows.columns) == 1 else UNKNOWN

    def unknown(self, expr: Unknown, scope: NameScope) -> Value:
        self.values(expr.args, scope)
        place = next((e.place for a in expr.args for e in walk(a) if isinstance(e, Column)), None)
        self.note_failure(_ABSENT.get(expr.why), place)
        return UNKNOWN

    def function(self, expr: Lambda, scope: NameScope, of: Sequence[Value] = ()) -> Value:
        """Read the body of `x -> ...`, with the known types of its arguments."""
        known = [*of, *[UNKNOWN] * len(expr.names)]
        bound = {
            name: Attribute(name, value, frozenset())
            for name, value in zip(expr.names, known, strict=False)
        }
        return self.value(expr.body, NameScope(RelationColumns([]), scope, variables=bound))

    @abstractmethod
    def call(self, expr: Call, scope: NameScope) -> Value:
        """Return the value of a call."""


_ABSENT = {
    "AtTimeZone": ConstantFailure(
        "Spark has no AT TIME ZONE",
        "write from_utc_timestamp(a time, 'Europe/Berlin'), or to_utc_timestamp() for the reverse",
    ),
}
"""Forms that can be parsed, but that the engine does not have, by their kind."""


def integer(expr: Expr) -> int | None:
    """Return the value of an integer literal, None for other expressions."""
    if isinstance(expr, Operation) and expr.op == "neg":
        number = integer(expr.args[0])
        return None if number is None else -number
    return int(expr.text) if isinstance(expr, Literal) and expr.kind == "integer" else None


def fit(expr: Expr) -> int | None:
    """Return the number of digits of an integer literal, None for others, -1 if in doubt.

    `1L` and `cast(1 as bigint)` look the same here, and count one digit or twenty.
    """
    if isinstance(expr, Cast) and isinstance(expr.value, Literal):
        return -1
    number = integer(expr) if isinstance(expr, Literal) else None
    return None if number is None else len(str(number))


def _sure(op: str, args: Sequence[Value]) -> bool:
    """Return whether an operator never returns null: operands must need no conversion."""
    if any(value.nullable for value in args):
        return False
    if op in _COMPARED:
        return not common(args).nullable
    return all(value.kind in {BOOLEAN, STRING} for value in args)


_READERS: dict[type, Callable[..., Value]] = {
    Column: ExpressionReader.column,
    Literal: ExpressionReader.literal,
    Cast: ExpressionReader.cast,
    Call: lambda reader, expr, scope: reader.call(expr, scope),
    Operation: ExpressionReader.operation,
    Case: ExpressionReader.case,
    Field: ExpressionReader.field,
    Element: ExpressionReader.element,
    Lambda: ExpressionReader.function,
    StarExpr: ExpressionReader.star,
    Subquery: ExpressionReader.inner,
    Unknown: ExpressionReader.unknown,
}

CASTS: dict[str, DataType] = {
    "string": STRING,
    "int": types.INT,
    "bigint": types.BIGINT,
    "smallint": types.SHORT,
    "tinyint": types.BYTE,
    "double": types.DOUBLE,
    "float": types.FLOAT,
    "boolean": BOOLEAN,
    "binary": types.BINARY,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP,
    "decimal": DataTypeDecimal(10, 0),
}
_NAMES = ALLOWED | FORBIDDEN.keys() | WINDOWED | WINDOW_PARTS
_ROUNDING = {"round", "bround", "floor", "ceil", "ceiling"}
_ORDERED_SETS = {"mode", "percentile_cont", "percentile_disc"}  # of the type of their ORDER BY
_SECONDS = {"second", "seconds", "sec", "secs", "s"}


class Calls(ExpressionReader):
    """Reads calls; a function that is not known has no type, but its arguments still count."""

    def call(self, expr: Call, scope: NameScope) -> Value:
        if expr.name in _ORDERED_SETS:
            expr = replace(expr, args=(*expr.order, *expr.args), order=())
        self.shape(expr.order, scope)
        if expr.where is not None:
            self.condition(expr.where, scope)
        if expr.over is not None:
            self.over(expr.over, scope)
        special = _SPECIAL.get(expr.name)
        if special is not None:
            return special(self, expr, scope)
        if expr.name in AGGREGATES:
            return self.aggregate(expr, scope)
        args = self.values(expr.args, scope)
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        if expr.name == "if" and len(args) == 3:
            self.note_types("condition", expr.args[:1], args[:1], expr.place)
            self.note_types("case", expr.args[1:], args[1:], expr.place)
        else:
            self.note_types(expr.name, expr.args, args, expr.place)
        rule = SCALARS.get(expr.name) or RANKINGS.get(expr.name)
        if rule is not None:
            return rule(args)
        if expr.name not in _NAMES:
            self.unknown_functions.append(UnknownFunction(expr.name, self.step, expr.place))
        to = CASTS.get(expr.name)
        if to is not None and len(args) == 1:
            self.note_failure(cast_failure(expr.args[0], to), expr.place)
        return cast(args[0], to) if to is not None and len(args) == 1 else UNKNOWN

    def over(self, over: WindowShape, scope: NameScope) -> None:
        self.shape([*over.partition, *over.order], scope)

    def aggregate(self, expr: Call, scope: NameScope) -> Value:
        """Return the value of an aggregate; `count(*)` uses no column."""
        plain = [e for e in expr.args if not (isinstance(e, StarExpr) and not e.qualifier)]
        args = self.values(plain, scope)
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        if len(plain) == len(expr.args) and not expr.order:
            self.note_types(expr.name, plain, args, expr.place)
        return AGGREGATES[expr.name](args)

    def struct(self, expr: Call, scope: NameScope) -> Value:
        members: list[tuple[str, Value]] = []
        names = expr.names or (None,) * len(expr.args)
        known = True
        for number, (name, arg) in enumerate(zip(names, expr.args, strict=True), 1):
            if isinstance(arg, StarExpr):
                found = self.expanded(arg, scope)
                known = known and found is not None and not found.open
                for each in () if found is None else found.columns:
                    self.use(each.sources, arg.place)
                    members.append((each.name, each.value))
            else:
                own = arg.name if isinstance(arg, Column | Field) else f"col{number}"
                members.append((name or own, self.value(arg, scope)))
        return _struct(members) if known else UNKNOWN

    def named_struct(self, expr: Call, scope: NameScope) -> Value:
        values = self.values(expr.args[1::2], scope)
        names = [e.text for e in expr.args[::2] if isinstance(e, Literal) and e.kind == "string"]
        if len(names) != len(values):
            return UNKNOWN
        return _struct(list(zip(names, values, strict=True)))

    def extract(self, expr: Call, scope: NameScope) -> Value:
        unit, of = expr.args[0], self.value(expr.args[-1], scope)
        self.note_failure(failure(expr.name, expr.args, [UNKNOWN, of]), expr.place)
        if not isinstance(unit, Literal) or isinstance(of.kind, types.Interval):
            return UNKNOWN
        second = unit.text.lower() in _SECONDS
        sure = not of.nullable and of.kind in {types.DATE, types.TIMESTAMP}
        return Value(DataTypeDecimal(8, 6) if second else types.INT, not sure)

    def round(self, expr: Call, scope: NameScope) -> Value:
        args = self.values(expr.args, scope)
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        self.note_types(expr.name, expr.args, args, expr.place)
        if len(args) == 1 and expr.name in SCALARS and expr.name != "bround":
            return SCALARS[expr.name](args)
        to = 0 if len(args) == 1 else integer(expr.args[1])
        if expr.name not in {"round", "bround"} and not isinstance(args[0].kind, DataTypeDecimal):
            return UNKNOWN
        return rounded(args[0], to)

    def modulo(self, expr: Call, scope: NameScope) -> Value:
        args = self.values(expr.args, scope)
        if len(args) != 2:
            return UNKNOWN
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        self.note_types(expr.name, expr.args, args, expr.place)
        return arithmetic("%", args[0], args[1], [fit(each) for each in expr.args])

    def higher(self, expr: Call, scope: NameScope) -> Value:
        """Read a call with functions among its arguments, of the items of its first one."""
        functions = [arg for arg in expr.args if isinstance(arg, Lambda)]
        args = self.values([a for a in expr.args if not isinstance(a, Lambda)], scope)
        kind = args[0].kind if args else None
        self.note_types(expr.name, expr.args[:1], args[:1], expr.place)
        item = UNKNOWN
        if isinstance(kind, DataTypeList):
            item = Value(*unwrapped(kind.item_type))
        of = (item, Value(types.INT, False)) if expr.name in _OF_ITEMS else ()
        results = [self.function(each, scope, of) for each in functions]
        if expr.name == "transform" and results and isinstance(kind, DataTypeList):
            made = results[0].stored
            return UNKNOWN if made is None else Value(DataTypeList(made), args[0].nullable)
        rule = SCALARS.get(expr.name)
        return UNKNOWN if rule is None else rule(args)


def _struct(members: list[tuple[str, Value]]) -> Value:
    fields = [DataField(n, v.stored) for n, v in members if v.stored is not None]
    return Value(DataTypeStruct(tuple(fields)), False) if len(fields) == len(members) else UNKNOWN


_OF_ITEMS = {"transform", "filter", "exists", "forall", "array_sort"}
_HIGHER = _OF_ITEMS | {
    *("aggregate", "reduce", "zip_with", "transform_values", "transform_keys", "map_filter"),
    "map_zip_with",
}
_Special = Callable[[Calls, Call, NameScope], Value]
_SPECIAL: dict[str, _Special] = {
    "struct": Calls.struct,
    "named_struct": Calls.named_struct,
    **dict.fromkeys(("extract", "date_part", "datepart"), Calls.extract),
    **dict.fromkeys(_ROUNDING, Calls.round),
    **dict.fromkeys(("mod", "pmod"), Calls.modulo),
    **dict.fromkeys(_HIGHER, Calls.higher),
}

_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_OPERATORS = {"+", "-", "*", "/", "%", "=", "<", "<=", ">", ">="}


def output_name(expr: Expr) -> str:
    """Return the name of an item; empty if only the engine determines it."""
    match expr:
        case Column() | Field():
            return expr.name
        case Cast(value=Column() as column):
            return column.name
        case Literal(kind="integer" | "string", text=text):
            return text
        case Call(name="window" | "session_window" as name):
            return name
        case Call(over=None, where=None) if expr.name in _AGGREGATES:
            return _call(expr)
        case Operation(op=op, args=(left, right)) if op in _OPERATORS:
            names = [_operand(left), _operand(right)]
            return f"({names[0]} {op} {names[1]})" if all(names) else ""
    return ""


def _call(call: Call) -> str:
    args = ["1" if isinstance(a, StarExpr) else _operand(a) for a in call.args]
    starred = any(isinstance(a, StarExpr) and a.qualifier for a in call.args)
    if starred or not args or not all(args):
        return ""
    return f"{call.name}({'DISTINCT ' if call.distinct else ''}{', '.join(args)})"


def _operand(expr: Expr) -> str:
    if isinstance(expr, Column):
        return expr.name if len(expr.parts) <= 2 else ""
    if isinstance(expr, Literal) and expr.kind in {"integer", "string"}:
        return expr.text
    return output_name(expr) if isinstance(expr, Operation) else ""
