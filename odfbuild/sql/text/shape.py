"""The shape of one SQL statement: selects, their sources and expressions.

Plain values without the parser's tree, small enough to be sent between processes.  Names are as
written, without quotes; letter case is kept, but that of function names, which are in lower case.
Shapes are equal when they say the same, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from odfbuild.odf.events import DataType
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where in a text something stands: 0-based start and length, 1-based line and column."""

    start: int
    length: int
    line: int
    column: int

    @classmethod
    def of(cls, text: str, start: int, length: int) -> TextPlace:
        head = text[:start]
        return cls(start, max(length, 1), head.count("\n") + 1, start - head.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written, without its quotes; `qualifier` is what is before the last dot."""

    text: str
    place: TextPlace
    qualifier: str | None = None


# Expressions


@dataclass(frozen=True, slots=True)
class Column:
    """A name in dots: `a`, `t.a`, `t.s.x`; which part means what depends on the scope."""

    parts: tuple[str, ...]
    place: TextPlace | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def qualifier(self) -> tuple[str, ...]:
        return self.parts[:-1]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: string, integer, decimal, double, boolean, null, binary or interval.

    The text of an interval is its unit in lower case; of a boolean, `true` or `false`.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another type; None where the type is none that ODF has.

    `safe` gives null for what cannot be cast; `literal` marks a typed constant such as `1L`.
    """

    value: Expr
    type: DataType | None
    safe: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True)
class FrameBound:
    """An end of a frame: so many rows or units `preceding` or `following`, or the `current` row.

    `distance` is None where it is unbounded, and for the current row.
    """

    side: str
    distance: Expr | None = None


@dataclass(frozen=True, slots=True)
class WindowShape:
    """A window: `name` refers to one of the WINDOW clause, `frame` is empty or the frame's kind.

    `bounds` are the two ends of a frame; one that is not written is the current row.
    """

    partition: tuple[Expr, ...] = ()
    order: tuple[Expr, ...] = ()
    frame: str = ""
    name: str | None = None
    bounds: tuple[FrameBound, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call; the name is in lower case.

    `names` are those of arguments, as in `struct(a AS b)`, None where an argument has none.
    `order` is what is in WITHIN GROUP.
    """

    name: str
    args: tuple[Expr, ...]
    place: TextPlace | None = field(default=None, compare=False)
    names: tuple[str | None, ...] = ()
    distinct: bool = False
    where: Expr | None = None
    order: tuple[Expr, ...] = ()
    over: WindowShape | None = None
    ignores_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator between values: `+`, `and`, `is null`, `in`, `like`, ..."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """CASE with conditions and their values; `operand` is what all conditions are compared to."""

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct that is not a mere name: `f(a).b`, `a[0].b`."""

    value: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """An item of a list, from 0, or a value of a map: `a[0]`, `m['k']`."""

    value: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function given to a function: `x -> x + 1`."""

    names: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class StarExpr:
    """All columns of what is in scope, of a relation, or all fields of a struct.

    `spots` are the places of those that are excluded, where they are known.
    """

    qualifier: tuple[str, ...]
    excluded: tuple[tuple[str, ...], ...]
    place: TextPlace | None = field(compare=False)
    spots: tuple[TextPlace | None, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ReplacingStar(StarExpr):
    """A star of which some columns have other values: those of items of their names."""

    replaced: tuple[SelectItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query inside an expression: scalar, exists or in; `value` is what is looked for."""

    kind: str
    query: QueryShape
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that is not understood here; what is in it is still read."""

    why: str
    args: tuple[Expr, ...] = ()


Expr: TypeAlias = (
    Column
    | Literal
    | Cast
    | Call
    | Operation
    | Case
    | Field
    | Element
    | Lambda
    | StarExpr
    | Subquery
    | Unknown
)


# Sources


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table read by its name: an input, an earlier step or a common table expression.

    `time` says of which time its versions are asked for, if it is `versioned`.
    """

    name: str
    alias: str | None
    columns: tuple[str, ...]
    place: TextPlace | None = field(compare=False)
    versioned: bool = False
    time: Expr | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """A query or a join in parentheses; `lateral` sees what is to the left of it."""

    query: QueryShape | From
    alias: str | None
    columns: tuple[str, ...]
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class RowGenerator:
    """A function that gives rows: LATERAL VIEW (`view`), LATERAL f(...), or a table function."""

    call: Expr
    alias: str | None
    columns: tuple[str, ...]
    outer: bool = False
    view: bool = False


@dataclass(frozen=True, slots=True)
class OpaqueRelation:
    """A relation changed in a way that is not understood here: PIVOT, TABLESAMPLE, ..."""

    why: str
    inside: Source | None = None


@dataclass(frozen=True, slots=True)
class Inline(OpaqueRelation):
    """Rows that are in the query itself (VALUES): so many `names`, of which no more is known."""

    alias: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pivot(OpaqueRelation):
    """A relation turned around: `values` is worked out of its rows, and by what they are turned."""

    values: tuple[Expr, ...] = ()


Source: TypeAlias = NamedTable | Derived | RowGenerator | OpaqueRelation


@dataclass(frozen=True, slots=True)
class Join:
    """A join: `kind` is inner, left, right, full, semi, anti or cross."""

    source: Source
    kind: str
    on: Expr | None = None
    using: tuple[str, ...] = ()
    natural: bool = False


@dataclass(frozen=True, slots=True)
class From:
    """What a SELECT reads: a source, joins with it in turn, then lateral views."""

    source: Source
    joins: tuple[Join, ...] = ()
    views: tuple[RowGenerator, ...] = ()


# Queries


@dataclass(frozen=True, slots=True)
class CommonTable:
    """One part of WITH; `columns` rename those of its query."""

    name: str
    columns: tuple[str, ...]
    query: QueryShape
    place: TextPlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One item of a SELECT list; `aliases` are several for a generator, none for a bare value."""

    value: Expr
    aliases: tuple[str, ...]
    place: TextPlace | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class GroupBy:
    """GROUP BY; `sets` tells of ROLLUP, CUBE or GROUPING SETS, whose keys may be null."""

    keys: tuple[Expr, ...]
    sets: bool = False
    all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """One SELECT.  `spread` are the keys of SORT, DISTRIBUTE and CLUSTER BY.

    `foreign` are clauses that are not understood, by name and place; `source` None is no FROM;
    `counts` are the numbers of rows of LIMIT and OFFSET.
    """

    outputs: tuple[SelectItem, ...]
    source: From | None
    where: Expr | None = None
    group: GroupBy | None = None
    having: Expr | None = None
    qualify: Expr | None = None
    order: tuple[Expr, ...] = ()
    spread: tuple[Expr, ...] = ()
    windows: tuple[tuple[str, WindowShape], ...] = ()
    distinct: bool = False
    counts: tuple[Expr, ...] = ()
    with_: tuple[CommonTable, ...] = ()
    recursive: bool = False
    foreign: tuple[Name, ...] = ()

    @property
    def limited(self) -> bool:
        """Tell whether some of the rows are left out by their number."""
        return bool(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuery:
    """Two queries as one: `kind` is union, intersect or except."""

    kind: str
    left: QueryShape
    right: QueryShape
    distinct: bool
    by_name: bool = False
    order: tuple[Expr, ...] = ()
    counts: tuple[Expr, ...] = ()
    with_: tuple[CommonTable, ...] = ()
    recursive: bool = False
    foreign: tuple[Name, ...] = ()

    @property
    def limited(self) -> bool:
        """Tell whether some of the rows are left out by their number."""
        return bool(self.counts)


QueryShape: TypeAlias = Select | SetQuery | Unknown


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside one; a subquery's own are not among them."""
    match expr:
        case Call():
            inner = (*expr.args, *expr.order, *(() if expr.where is None else (expr.where,)))
            return inner if expr.over is None else (*inner, *expr.over.partition, *expr.over.order)
        case Operation() | Unknown():
            return expr.args
        case Cast() | Field():
            return (expr.value,)
        case Element():
            return (expr.value, expr.index)
        case Case():
            ends = (each for each in (expr.operand, expr.default) if each is not None)
            return (*ends, *(each for branch in expr.branches for each in branch))
        case Lambda():
            return (expr.body,)
        case Subquery():
            return () if expr.value is None else (expr.value,)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all that is inside it; subqueries are yielded, not entered."""
    yield expr
    for child in children(expr):
        yield from walk(child)
