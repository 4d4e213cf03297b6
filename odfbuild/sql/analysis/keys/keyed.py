"""The key by which a query works: the parts of a query and how they combine.  Pure.

A key is a set of columns that keep their identity from the inputs on: through projections, as keys
of groups, and across inner joins on equality.  Operators with different keys work together by the
columns that these share: a coarser key only takes more rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import TypeAlias

from odfbuild.odf.events import DataSchema, DataType, DataTypeStruct
from odfbuild.sql.analysis.row_by_row import is_aggregate, keys_of, obstacle, refusal, some
from odfbuild.sql.columns.expressions import output_name
from odfbuild.sql.columns.functions import WINDOWED
from odfbuild.sql.columns.output import (
    Attribute,
    ColumnRef,
    OpenPart,
    RelationColumns,
    Token,
    unknown_rows,
)
from odfbuild.sql.columns.scope import NameScope, Resolution, fields_of
from odfbuild.sql.columns.structs import generated
from odfbuild.sql.columns.types import UNKNOWN, Value
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    Join,
    NamedTable,
    OpaqueRelation,
    Operation,
    QueryShape,
    RowGenerator,
    Select,
    SetQuery,
    Source,
    StarExpr,
    Unknown,
    WindowShape,
    walk,
)
from odfbuild.sql.text.types import as_read, unwrapped
from odfbuild.values import dataclass

Keys: TypeAlias = frozenset[Token]

_NOTHING = frozenset[ColumnRef]()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPart:
    """A part of a query: its class, the clause that makes it so, and the key it works by.

    `keys` is None where there are several.  `rows` are the columns in scope, `group` is the only
    keyed operator, where that is a GROUP BY.  `aliases` are the names of the items of the SELECT
    over it, and `windows` the event-time windows that it groups by.
    """

    name: str
    because: str | None = None
    keys: Keys | None = frozenset()
    rows: RelationColumns = field(default_factory=lambda: RelationColumns([]))
    group: Select | None = None
    aliases: frozenset[str] = frozenset()
    windows: Mapping[Call, Token] = field(default_factory=dict)


def computed_in_full(because: str) -> QueryPart:
    """Return a part that must be computed in full."""
    return QueryPart(name="whole", because=because, keys=None)


def shared_keys(
    left: QueryPart,
    right: QueryPart,
    pairs: Sequence[tuple[Token, Token]],
    root: Callable[[Token], Token],
) -> list[tuple[Token, Token]]:
    """Return the pairs of columns by which both sides of a join work; a linear one works by any.

    `root` returns the representative of all tokens that are equal to one.
    """
    keys = [None if p.name == "linear" else set(map(root, p.keys or ())) for p in (left, right)]
    return [
        pair
        for pair in pairs
        if all(k is None or root(token) in k for token, k in zip(pair, keys, strict=True))
    ]


class ColumnIdentities:
    """Gives the columns of inputs their identities, and resolves names to them.

    `inputs` are the columns of the inputs, as far as they are known; `uses` has for each use of an
    input the tokens of its columns, or of the columns that were named if not all are known;
    `matched` leads from columns of the other side of an outer join to those of the preserved one.
    `asked` are the names by which the query works, `redefined` those that a star does not pass
    unchanged; `unknown` are names that could not be resolved.
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

    def known(self, expr: Expr, part: QueryPart) -> Token | None:
        """Return the token of a plain column or of a grouped event-time window."""
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

    def token(self, expr: Expr, part: QueryPart) -> Token:
        """Return the token of an expression, equal for equal values; a new one if unknown."""
        if isinstance(expr, Column):
            self.asked.add(expr.name)
        token = self.known(expr, part)
        self.note_unknown(expr, token, part)
        return next(self.fresh) if token is None else token

    def note_unknown(self, expr: Expr, token: Token | None, part: QueryPart) -> None:
        """Record a name that may not be a column, as not all columns are known."""
        if token is None and isinstance(expr, Column) and part.rows.open:
            self.unknown.append(".".join(expr.parts))

    @property
    def doubt(self) -> str:
        """The first unresolved name as the end of a reason, empty if there is none."""
        return f" (which column {self.unknown[0]} is cannot be determined)" if self.unknown else ""

    def equal(self, one: Token, other: Token) -> None:
        """Record that two columns are equal in all rows."""
        if self.root(one) != self.root(other):
            self._same[self.root(other)] = self.root(one)

    def root(self, token: Token) -> Token:
        """Return the representative of all tokens that are equal to this one."""
        while token in self._same:
            token = self._same[token]
        return token

    def rooted(self, token: Token | None) -> Token | None:
        """Return the representative of a token, if there is one."""
        return None if token is None else self.root(token)

    def roots(self, keys: Iterable[Token]) -> Keys:
        """Return the representatives of some tokens."""
        return frozenset(map(self.root, keys))

    def input(self, source: NamedTable) -> RelationColumns:
        """Return the columns of an input, with new tokens for each use of it."""
        tokens: dict[str, Token] = {}
        self.uses.append((source.name, tokens))
        name = source.alias or source.name
        schema = self.inputs.get(source.name)
        if schema is None:
            part = OpenPart(name, frozenset({source.name}))
            known = lambda each: tokens.setdefault(each, next(self.fresh))  # noqa: E731
            rows = RelationColumns([], open=[part._replace(token=known)], bases={name: source.name})
        else:
            tokens.update((each.name, next(self.fresh)) for each in schema.fields)
            columns = [
                Attribute(each.name, _struct(each.type), _NOTHING, name, token=tokens[each.name])
                for each in schema.fields
            ]
            rows = RelationColumns(columns, bases={name: source.name})
        return self.listed(rows, name, source.columns) if source.columns else rows

    def listed(
        self, rows: RelationColumns, name: str | None, columns: tuple[str, ...]
    ) -> RelationColumns:
        """Return the columns of a relation under its name, and under a list of names."""
        found = rows.named(name, columns)
        if columns:
            self._compare(rows, found, columns)
        return found

    def outputs(self, select: Select, part: QueryPart) -> RelationColumns:
        """Return the columns of a SELECT list."""
        given = RelationColumns([])
        structs = {
            self.rooted(each.token): each.value for each in part.rows.columns if each.value.kind
        }
        for output in select.outputs:
            value, names = output.value, output.aliases
            if isinstance(value, StarExpr):
                given = given.joined_with(self._star_columns(value, part.rows))
            elif isinstance(value, Call) and value.name in GENERATORS and value.over is None:
                given = given.joined_with(generated_rows(value, names, None))
            else:
                found = self._output(names, value, part)
                kind = UNKNOWN if found.token is None else structs.get(found.token, UNKNOWN)
                given.columns.append(found._replace(value=kind) if kind.kind else found)
        if any(isinstance(each.value, StarExpr) for each in select.outputs):
            self._compare(part.rows, given)
        return given

    def _output(self, names: Sequence[str], value: Expr, part: QueryPart) -> Attribute:
        token = self.known(value, part)
        name = names[0] if len(names) == 1 else "" if names else output_name(value)
        if isinstance(value, Column) and value.name in self.redefined:
            self.redefined.add(name)
        return Attribute(name, UNKNOWN, _NOTHING, token=token)

    def _star_columns(self, star: StarExpr, rows: RelationColumns) -> RelationColumns:
        found = rows.starred(star)
        if found is None:
            struct = NameScope(rows).resolve(star.qualifier)
            if isinstance(struct, Resolution):
                found = fields_of(star, struct.value, frozenset())
        return unknown_rows() if found is None else found

    def _is_alias(self, column: Column, part: QueryPart) -> bool:
        """Return whether a name may be that of an item of the same SELECT list.

        A known column of that name takes precedence.
        """
        name = column.parts[0]
        if len(column.parts) > 1 and part.rows.relation(name) is not None:
            return False
        return name in part.aliases and not any(each.name == name for each in part.rows.columns)

    def _compare(
        self, before: RelationColumns, after: RelationColumns, names: Iterable[str] = ()
    ) -> None:
        """Record the names whose meaning changes."""
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


def generated_rows(call: Expr, names: Sequence[str], alias: str | None) -> RelationColumns:
    """Return the columns of a generator."""
    found = []
    if isinstance(call, Call) and call.name in GENERATORS:
        found = generated(call, [UNKNOWN] * len(call.args), names, outer=False)
    if not found:
        return unknown_rows().named(alias)
    return RelationColumns([Attribute(name, UNKNOWN, frozenset(), alias) for name, _ in found])


def partition_of(over: WindowShape, named: Mapping[str, WindowShape]) -> tuple[Expr, ...]:
    """Return the PARTITION BY of a window, also of a named one, and of a name for that."""
    for _ in range(2):
        if not over.partition and over.name is not None:
            over = named.get(over.name, over)
    return over.partition


_MOST = 500  # queries that are read, counted for each use


@dataclass(frozen=True, slots=True)
class _NamedQuery:
    """A query that can be read by name, and the named queries in its scope."""

    query: QueryShape
    tables: _Tables
    columns: tuple[str, ...] = ()


_Tables: TypeAlias = "dict[str, _NamedQuery]"
_Pair: TypeAlias = tuple[Token, Token]


class QueryParts(ColumnIdentities):
    """Reads queries; `steps` are those that can be read by name.  Each use is read again.

    `timed` are the times of event-time windows and of joins with versions, None for one that is not
    a plain column; `spans` leads from windows of a fixed length to their times.  `versions` are the
    primary keys of the tables that have versions.
    """

    def __init__(
        self,
        steps: Mapping[str, QueryShape],
        inputs: Mapping[str, DataSchema | None],
        versions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(inputs)
        self.versions = versions or {}
        self.tables: _Tables = {}
        for name, step in steps.items():
            self.tables = {**self.tables, name: _NamedQuery(step, self.tables)}
        self.timed: list[Token | None] = []
        self.spans: dict[Token, Token] = {}
        self._left = _MOST

    def query(self, query: QueryShape) -> QueryPart:
        """Return the part of a query."""
        self._left -= 1
        if isinstance(query, Unknown) or self._left < 0:
            return computed_in_full(
                "this form of statement" if self._left >= 0 else "the size of the query"
            )
        if query.recursive:
            return computed_in_full("WITH RECURSIVE")
        before = self.tables
        for part in query.with_:
            table = _NamedQuery(part.query, self.tables, part.columns)
            self.tables = {**self.tables, part.name: table}
        try:
            return self._select(query) if isinstance(query, Select) else self._set(query)
        finally:
            self.tables = before

    # SELECT

    def _select(self, select: Select) -> QueryPart:
        if select.source is None:
            return computed_in_full("SELECT without FROM")
        part = self._from(select.source)
        if part.name == "whole":
            return part
        if (clause := refusal(select)) is not None:
            return computed_in_full(clause)
        part = replace(part, aliases=frozenset(_aliases(select)), windows={})
        part = self._group_part(select, part)
        part = self._window_part(select, part)
        if part.name == "whole":
            return part
        rows = self.outputs(select, part)
        if select.group is not None:
            rows = self._of_keys(rows, select, part)
        part = replace(part, rows=rows, aliases=frozenset(), windows={})
        return self._by(part, self._all(rows), "DISTINCT") if select.distinct else part

    def _group_part(self, select: Select, part: QueryPart) -> QueryPart:
        group = select.group
        exprs = [*(output.value for output in select.outputs), *some(select.having)]
        if group is None:
            plain = any(is_aggregate(e) for expr in exprs for e in walk(expr))
            return computed_in_full("an aggregate without GROUP BY") if plain else part
        if group.sets:
            return computed_in_full("ROLLUP, CUBE or GROUPING SETS")
        keys = keys_of(group, select)
        tokens = {each: self.token(each, part) for each in keys}
        windows = {e: t for e, t in tokens.items() if isinstance(e, Call) and e.name in WINDOWED}
        for call, token in windows.items():
            time = self.known(call.args[0], part) if call.args else None
            self.asked.update(e.name for e in call.args[:1] if isinstance(e, Column))
            self.timed.append(time)
            if time is not None and call.name not in {"session", "session_window"}:
                self.spans[token] = time
        clause = "an event-time window" if windows else "GROUP BY"
        found = self._by(part, frozenset(tokens.values()), clause)
        fresh = part.name == "linear" and not windows
        return replace(found, windows=windows, group=select if fresh else None)

    def _of_keys(self, rows: RelationColumns, select: Select, part: QueryPart) -> RelationColumns:
        """Remove the identities of columns of a SELECT with groups that are not keys."""
        keys = keys_of(select.group, select) if select.group else ()
        held = {self.known(each, part) for each in keys}
        columns = [
            each._replace(token=None) if self.rooted(each.token) not in held else each
            for each in rows.columns
        ]
        return RelationColumns(columns, open=[each._replace(token=None) for each in rows.open])

    def _window_part(self, select: Select, part: QueryPart) -> QueryPart:
        """Add the window functions, whose partitions must all be the same."""
        named = dict(select.windows)
        exprs = [*(output.value for output in select.outputs), *some(select.qualify)]
        overs = [e.over for x in exprs for e in walk(x) if isinstance(e, Call) and e.over]
        for over in overs:
            partition = partition_of(over, named)
            if not partition:
                return computed_in_full("a window function without PARTITION BY")
            keys = frozenset(self.token(each, part) for each in partition)
            part = self._by(part, keys, "a window function (OVER)")
        return part

    def _all(self, rows: RelationColumns) -> Keys:
        self.asked.update(each.name for each in rows.columns)
        tokens = [*(self.rooted(each.token) for each in rows.columns), *(None for _ in rows.open)]
        return frozenset(next(self.fresh) if each is None else each for each in tokens)

    # Keys

    def _by(self, part: QueryPart, keys: Keys, clause: str) -> QueryPart:
        """Return a part below an operator that works by a key."""
        if part.name == "whole":
            return part
        if part.name == "linear":
            return replace(part, name="keyed", because=clause, keys=keys, group=None)
        common = self.roots(part.keys or ()) & self.roots(keys)
        if common:
            return replace(part, name="keyed", because=clause, keys=common, group=None)
        return computed_in_full(f"{clause} over {part.because} by another key{self.doubt}")

    # FROM

    def _from(self, source: From) -> QueryPart:
        part = self._source(source.source)
        for join in source.joins:
            part = self._join(part, join)
        for view in source.views:
            clause = obstacle([view.call], GENERATORS)
            if part.name != "whole":
                part = (
                    self._generator_part(part, view) if clause is None else computed_in_full(clause)
                )
        return part

    def _generator_part(self, part: QueryPart, view: RowGenerator) -> QueryPart:
        rows = generated_rows(view.call, view.columns, view.alias)
        return replace(part, rows=part.rows.joined_with(rows))

    def _source(self, source: Source) -> QueryPart:
        match source:
            case NamedTable(versioned=True):
                return computed_in_full("FOR SYSTEM_TIME AS OF")
            case NamedTable():
                return self._table(source)
            case Derived(lateral=True):
                return computed_in_full("LATERAL")
            case Derived(query=From() as inner):
                part = self._from(inner)
                return part if source.alias is None else self._alias_part(part, source)
            case Derived(query=query) if not isinstance(query, From):
                return self._alias_part(self.query(query), source)
            case RowGenerator():
                return computed_in_full("a table function")
            case OpaqueRelation(why=why):
                return computed_in_full(why)
        return computed_in_full("this form of statement")

    def _alias_part(self, part: QueryPart, source: NamedTable | Derived) -> QueryPart:
        name = source.alias
        if name is None and isinstance(source, NamedTable):
            name = source.name
        return replace(part, rows=self.listed(part.rows, name, source.columns))

    def _table(self, source: NamedTable) -> QueryPart:
        known = self.tables.get(source.name)
        if known is None:
            return QueryPart(name="linear", rows=self.input(source))
        before, self.tables = self.tables, known.tables
        part = self.query(known.query)
        self.tables = before
        part = replace(part, rows=self.listed(part.rows, None, known.columns))
        return self._alias_part(part, source)

    # Joins

    def _join(self, left: QueryPart, join: Join) -> QueryPart:
        if left.name == "whole":
            return left
        if isinstance(join.source, RowGenerator):
            return self._unnest_part(left, join)
        if isinstance(join.source, NamedTable) and join.source.versioned:
            return self._as_of(left, join.source, join)
        right = self._source(join.source)
        if right.name == "whole":
            return right
        clause = obstacle(some(join.on))
        if clause is not None:
            return computed_in_full(clause)
        if join.natural:
            return computed_in_full("NATURAL JOIN")
        pairs = self._pairs(left, right, join)
        part = self._pair_part(left, right, pairs, join)
        return replace(part, rows=_joined_rows(left.rows, right.rows, join))

    def _unnest_part(self, left: QueryPart, join: Join) -> QueryPart:
        """Read `join lateral explode(...)`, which gives rows for each row."""
        assert isinstance(join.source, RowGenerator)  # noqa: S101 - the caller looked
        clause = obstacle([join.source.call], GENERATORS)
        if join.kind not in {"inner", "cross"} or clause is not None:
            return computed_in_full(clause or "LATERAL")
        return self._generator_part(left, join.source)

    def _as_of(self, left: QueryPart, table: NamedTable, join: Join) -> QueryPart:
        """Read a join with the versions of a table, which works by columns of its primary key."""
        right = self._table(table)
        clause = "FOR SYSTEM_TIME AS OF"
        key = {right.rows.token((name,)) for name in self.versions.get(table.name, ())}
        found = [(a, b) for a, b in self._pairs(left, right, join) if b in key]
        pairs = shared_keys(left, right, found, self.root)
        if right.name == "whole" or table.time is None or not found:
            return computed_in_full(clause if right.name != "whole" else right.because or clause)
        if not pairs:
            return computed_in_full(f"{clause} with {left.because or right.because} by another key")
        self.asked.update(self.versions.get(table.name, ()))
        self.timed.append(self.known(table.time, left))
        self._join_columns(pairs, join)
        part = QueryPart(name="keyed", because=clause, keys=frozenset(a for a, _ in pairs))
        return replace(part, rows=_joined_rows(left.rows, right.rows, join))

    def _pairs(self, left: QueryPart, right: QueryPart, join: Join) -> list[_Pair]:
        """Return the columns that a join compares for equality."""
        if join.using:
            self.asked.update(join.using)
            found = ((left.rows.token((k,)), right.rows.token((k,))) for k in join.using)
            return [(a, b) for a, b in found if a is not None and b is not None]
        return list(self._equalities(left, right, join.on))

    def _equalities(self, left: QueryPart, right: QueryPart, on: Expr | None) -> Iterator[_Pair]:
        if not isinstance(on, Operation):
            return
        if on.op == "and":
            for each in on.args:
                yield from self._equalities(left, right, each)
        elif on.op == "=":
            sides = [self._side(each, left, right) for each in on.args]
            ours = [token for token, is_left in filter(None, sides) if is_left]
            theirs = [token for token, is_left in filter(None, sides) if not is_left]
            yield from zip(ours, theirs, strict=False)

    def _side(self, expr: Expr, left: QueryPart, right: QueryPart) -> tuple[Token, bool] | None:
        """Return the token of a name in a join, and whether it is one of the left side."""
        both = QueryPart(name="join", rows=left.rows.joined_with(right.rows))
        token = self.known(expr, both)
        self.note_unknown(expr, token, both)
        if isinstance(expr, Column):
            self.asked.add(expr.name)
        if token is None:
            return None
        return token, self.known(expr, left) == token

    def _pair_part(
        self, left: QueryPart, right: QueryPart, pairs: Sequence[_Pair], join: Join
    ) -> QueryPart:
        inner = join.kind in {"inner", "cross"}
        clause = "JOIN" if inner else f"{join.kind.upper()} JOIN"
        if not inner and not pairs:
            return computed_in_full(f"{clause} without an equality of columns{self.doubt}")
        found = shared_keys(left, right, pairs, self.root)
        mine, theirs = frozenset(a for a, _ in found), frozenset(b for _, b in found)
        rank = max(left.name, right.name, key=["linear", "join", "keyed"].index)
        if not found and (rank == "keyed" or not inner):
            other = left.because or right.because
            return computed_in_full(f"{clause} with {other} by another key{self.doubt}")
        self._join_columns(pairs, join)
        if inner:
            name = "keyed" if rank == "keyed" else "join"
            return QueryPart(name=name, because=clause, keys=mine or None)
        keys = {"right": theirs, "full": frozenset({next(self.fresh)})}.get(join.kind, mine)
        return QueryPart(name="keyed", because=clause, keys=keys)

    def _join_columns(self, pairs: Sequence[_Pair], join: Join) -> None:
        """Record that columns are equal in all rows of a join, or in those that have both sides."""
        for a, b in pairs:
            ours, unmatched = (b, a) if join.kind == "right" else (a, b)
            if join.kind not in {"inner", "cross"}:
                self.matched[self.root(unmatched)] = self.root(ours)
            else:
                self.equal(a, b)

    # UNION, INTERSECT, EXCEPT

    def _set(self, query: SetQuery) -> QueryPart:
        if query.kind != "union" or query.foreign:
            return computed_in_full(query.kind.upper())
        if query.order or query.limited:
            return computed_in_full("LIMIT" if query.limited else "ORDER BY")
        left, right = self.query(query.left), self.query(query.right)
        for part in (left, right):
            if part.name == "whole":
                return part
        keyed = next((part for part in (left, right) if part.name == "keyed"), None)
        if keyed is not None:
            return computed_in_full(f"UNION over {keyed.because}")
        joined = "join" in {left.name, right.name}
        rows = RelationColumns(
            [each._replace(token=None) for each in left.rows.columns],
            open=[each._replace(token=None) for each in left.rows.open],
        )
        because = "JOIN" if joined else None
        both = QueryPart(name="join" if joined else "linear", because=because, rows=rows)
        if not query.distinct:
            return replace(both, keys=None) if joined else both
        if joined:
            return computed_in_full("UNION without ALL over JOIN")
        return replace(both, name="keyed", because="UNION without ALL", keys=None)


def _aliases(select: Select) -> Iterator[str]:
    """Yield the aliases of items that are not columns of the same name."""
    for output in select.outputs:
        own = output.value.name if isinstance(output.value, Column) else None
        yield from (name for name in output.aliases if name != own)


def _joined_rows(left: RelationColumns, right: RelationColumns, join: Join) -> RelationColumns:
    if join.kind in {"semi", "anti"}:
        return left
    if join.using:
        return left.merged(right, join.using, join.kind)
    return left.joined_with(right)
