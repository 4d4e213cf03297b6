"""One part of a query: its class, its key, and the columns that it gives.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from odfbuild.odf.events import DataSchema, DataType, DataTypeStruct
from odfbuild.planner.sql.functions import WINDOWED
from odfbuild.planner.sql.generators import GENERATORS, generated
from odfbuild.planner.sql.output_columns import (
    Attribute,
    ColumnRef,
    OpenPart,
    Rows,
    Token,
    unknown_rows,
)
from odfbuild.planner.sql.output_names import output_name
from odfbuild.planner.sql.scope import Found, Scope, fields_of
from odfbuild.planner.sql.shape import (
    Call,
    Column,
    Expr,
    NamedTable,
    Over,
    Select,
    StarExpr,
)
from odfbuild.planner.sql.spark_types import as_read, unwrapped
from odfbuild.planner.sql.types import UNKNOWN, Value

__all__ = [
    "Columns",
    "Keys",
    "Part",
    "Token",
    "generated_rows",
    "partition_of",
    "shared",
    "whole",
]

Keys: TypeAlias = frozenset[Token]

_NOTHING = frozenset[ColumnRef]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a query: its class, the clause that makes it so, and the key it works by.

    `keys` is None where there are several.  `rows` are the columns in scope, `group` is the only
    keyed operator, where that is a GROUP BY.  `aliases` are what the items of the SELECT over it
    are called, and `windows` the event-time windows that it groups by.
    """

    name: str
    because: str | None = None
    keys: Keys | None = frozenset()
    rows: Rows = field(default_factory=lambda: Rows([]))
    group: Select | None = None
    aliases: frozenset[str] = frozenset()
    windows: Mapping[Call, Token] = field(default_factory=dict)


def whole(because: str) -> Part:
    """Return a part that must be computed in full."""
    return Part(name="whole", because=because, keys=None)


def shared(
    left: Part, right: Part, pairs: Sequence[tuple[Token, Token]], root: Callable[[Token], Token]
) -> list[tuple[Token, Token]]:
    """Return the pairs of columns by which both sides of a join work; a linear one works by any.

    `root` gives the token that stands for all that are equal to one.
    """
    keys = [None if p.name == "linear" else set(map(root, p.keys or ())) for p in (left, right)]
    return [
        pair
        for pair in pairs
        if all(k is None or root(token) in k for token, k in zip(pair, keys, strict=True))
    ]


class Columns:
    """Gives the columns of inputs their identities, and finds them again by what they are called.

    `inputs` are the columns of the inputs, as far as they are known; `uses` is what was read of
    them: for each time that one is read, the tokens of its columns, of those that mattered where
    not all are known; `matched` leads from columns of the other side of an outer join to those of
    the preserved one.  `asked` are the names by which the query works, `redefined` those that a
    star does not pass on as they are; `unknown` are names that no rule leads to a column.
    """

    def __init__(self, inputs: Mapping[str, DataSchema | None]) -> None:
        self.inputs = inputs
        self.uses: list[tuple[str, dict[str, Token]]] = []
        self.matched: dict[Token, Token] = {}
        self.asked: set[str] = set()
        self.redefined: set[str] = set()
        self.unknown: list[str] = []
        self.fresh = count()
        self._same: dict[Token, Token] = {}

    def known(self, expr: Expr, part: Part) -> Token | None:
        """Return the token of a mere column or of a grouped event-time window."""
        if isinstance(expr, Call) and expr.name in WINDOWED:
            if any(each.name == expr.name for each in part.rows.columns):
                self.asked.add(expr.name)
                self.redefined.add(expr.name)
            return part.windows.get(expr)
        if not isinstance(expr, Column):
            return None
        token = None
        if not self._is_alias(expr, part):
            token = part.rows.token(expr.parts)
        if token is None and len(expr.parts) == 1:
            windows = [t for e, t in part.windows.items() if e.name == expr.name]
            named = any(each.name == expr.name for each in part.rows.columns)
            token = windows[0] if len(windows) == 1 and not named else None
        return self.rooted(token)

    def token(self, expr: Expr, part: Part) -> Token:
        """Return what is equal for equal values of an expression; a new one if nothing is known."""
        if isinstance(expr, Column):
            self.asked.add(expr.name)
        token = self.known(expr, part)
        self.note_unknown(expr, token, part)
        return next(self.fresh) if token is None else token

    def note_unknown(self, expr: Expr, token: Token | None, part: Part) -> None:
        """Note a name that is no certain column only as not all columns are known."""
        if token is None and isinstance(expr, Column) and part.rows.open:
            self.unknown.append(".".join(expr.parts))

    @property
    def doubt(self) -> str:
        """Return which name is not known to be a column, as the end of a reason; else nothing."""
        return f" (which column {self.unknown[0]} is cannot be told)" if self.unknown else ""

    def equal(self, one: Token, other: Token) -> None:
        """Note that two columns are equal in all rows."""
        if self.root(one) != self.root(other):
            self._same[self.root(other)] = self.root(one)

    def root(self, token: Token) -> Token:
        """Return the token that stands for all that are equal to this one."""
        while token in self._same:
            token = self._same[token]
        return token

    def rooted(self, token: Token | None) -> Token | None:
        """Return the token that stands for one, if there is one."""
        return None if token is None else self.root(token)

    def roots(self, keys: Iterable[Token]) -> Keys:
        """Return the tokens that stand for some."""
        return frozenset(map(self.root, keys))

    def input(self, source: NamedTable) -> Rows:
        """Return the columns of an input, which differ for each time that it is read."""
        tokens: dict[str, Token] = {}
        self.uses.append((source.name, tokens))
        name = source.alias or source.name
        schema = self.inputs.get(source.name)
        if schema is None:
            part = OpenPart(name, frozenset({source.name}))
            known = lambda each: tokens.setdefault(each, next(self.fresh))  # noqa: E731
            rows = Rows([], open=[part._replace(token=known)], bases={name: source.name})
        else:
            tokens.update((each.name, next(self.fresh)) for each in schema.fields)
            columns = [
                Attribute(each.name, _struct(each.type), _NOTHING, name, token=tokens[each.name])
                for each in schema.fields
            ]
            rows = Rows(columns, bases={name: source.name})
        return self.listed(rows, name, source.columns) if source.columns else rows

    def listed(self, rows: Rows, name: str | None, columns: tuple[str, ...]) -> Rows:
        """Return the columns of a relation under its name, and under a list of names."""
        found = rows.named(name, columns)
        if columns:
            self._compare(rows, found, columns)
        return found

    def outputs(self, select: Select, part: Part) -> Rows:
        """Return the columns that the items of a SELECT list give."""
        given = Rows([])
        structs = {
            self.rooted(each.token): each.value for each in part.rows.columns if each.value.kind
        }
        for output in select.outputs:
            value, names = output.value, output.aliases
            if isinstance(value, StarExpr):
                given = given.beside(self._starred(value, part.rows))
            elif isinstance(value, Call) and value.name in GENERATORS and value.over is None:
                given = given.beside(generated_rows(value, names, None))
            else:
                found = self._output(names, value, part)
                kind = UNKNOWN if found.token is None else structs.get(found.token, UNKNOWN)
                given.columns.append(found._replace(value=kind) if kind.kind else found)
        if any(isinstance(each.value, StarExpr) for each in select.outputs):
            self._compare(part.rows, given)
        return given

    def _output(self, names: Sequence[str], value: Expr, part: Part) -> Attribute:
        token = self.known(value, part)
        name = names[0] if len(names) == 1 else "" if names else output_name(value)
        if isinstance(value, Column) and value.name in self.redefined:
            self.redefined.add(name)
        return Attribute(name, UNKNOWN, _NOTHING, token=token)

    def _starred(self, star: StarExpr, rows: Rows) -> Rows:
        found = rows.starred(star)
        if found is None:
            struct = Scope(rows).resolve(star.qualifier)
            if isinstance(struct, Found):
                found = fields_of(star, struct.value, frozenset())
        return unknown_rows() if found is None else found

    def _is_alias(self, column: Column, part: Part) -> bool:
        """Tell whether a name may be that of an item of the same SELECT list.

        A column of what is read goes first, where it is known to have one.
        """
        name = column.parts[0]
        if len(column.parts) > 1 and part.rows.relation(name) is not None:
            return False
        return name in part.aliases and not any(each.name == name for each in part.rows.columns)

    def _compare(self, before: Rows, after: Rows, names: Iterable[str] = ()) -> None:
        """Note which names no longer mean what they meant."""
        was, now = before.tokens(), after.tokens()
        gone = {name for each in after.open for name in each.without}
        for name in {*was, *now, *gone, *names}:
            token = was[name] if name in was else before.token((name,))
            if token is not None and token != (now[name] if name in now else after.token((name,))):
                self.redefined.add(name)


def _struct(of: DataType) -> Value:
    """Return the type of a struct; other types do not matter here."""
    kind, null = unwrapped(of)
    return Value(as_read(kind), null) if isinstance(kind, DataTypeStruct) else UNKNOWN


def generated_rows(call: Expr, names: Sequence[str], alias: str | None) -> Rows:
    """Return the columns that a generator gives."""
    found = []
    if isinstance(call, Call) and call.name in GENERATORS:
        found = generated(call, [UNKNOWN] * len(call.args), names, outer=False)
    if not found:
        return unknown_rows().named(alias)
    return Rows([Attribute(name, UNKNOWN, frozenset(), alias) for name, _ in found])


def partition_of(over: Over, named: Mapping[str, Over]) -> tuple[Expr, ...]:
    """Return the PARTITION BY of a window, also where a name, or one for another, stands for it."""
    for _ in range(2):
        if not over.partition and over.name is not None:
            over = named.get(over.name, over)
    return over.partition
