"""Whether a query works key by key, and by which key: the parts of a query and how they combine.

A key is a set of columns that keep their identity from the inputs on: through projections, as keys
of groups, and across inner joins on equality.  Operators whose keys differ work together by the
columns that these share: what a coarser key takes together is only more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from odfbuild.planner.sql.functions import WINDOWED
from odfbuild.planner.sql.generators import GENERATORS
from odfbuild.planner.sql.keyed_part import (
    Keys,
    Part,
    Token,
    beside,
    name_of,
    partition_of,
    read_as,
    renamed,
    shared,
    whole,
)
from odfbuild.planner.sql.row_by_row import is_aggregate, keys_of, obstacle, refusal, some
from odfbuild.planner.sql.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    Generator,
    Join,
    NamedTable,
    Opaque,
    Operation,
    Query,
    Select,
    SetQuery,
    Source,
    StarExpr,
    Unknown,
    walk,
)

__all__ = ["Parts"]

_MOST = 500  # queries read, those that are used several times counted each time


@dataclass(frozen=True, slots=True)
class _Table:
    """A query that can be read by name, and what its own names mean."""

    query: Query
    tables: _Tables


_Tables: TypeAlias = "dict[str, _Table]"
_Pair: TypeAlias = tuple[Token, Token]


class Parts:
    """Reads queries; `steps` are those that can be read by name.  Each use is read anew.

    `inputs` are the names of the inputs' columns, as far as they are known; `uses` is what was
    read of them: for each time that one is read, the tokens of the columns that mattered;
    `matched` leads from columns of the other side of an outer join to those of the preserved one;
    `timed` are the times of event-time windows and of rows that meet versions, None for one that
    is no mere column; `spans` leads from windows of a fixed length to their times.  `versions` are
    the primary keys of the tables that have versions.
    """

    def __init__(
        self,
        steps: Mapping[str, Query],
        inputs: Mapping[str, frozenset[str] | None],
        versions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.inputs = inputs
        self.versions = versions or {}
        self.tables: _Tables = {}
        for name, step in steps.items():
            self.tables = {**self.tables, name: _Table(step, self.tables)}
        self.uses: list[tuple[str, dict[str, Token]]] = []
        self.matched: dict[Token, Token] = {}
        self.timed: list[Token | None] = []
        self.spans: dict[Token, Token] = {}
        self._fresh = count()
        self._same: dict[Token, Token] = {}
        self._left = _MOST

    def query(self, query: Query) -> Part:
        """Return what a query is."""
        self._left -= 1
        if isinstance(query, Unknown) or self._left < 0:
            return whole("this form of statement" if self._left >= 0 else "the size of the query")
        if query.recursive:
            return whole("WITH RECURSIVE")
        before = self.tables
        for part in query.with_:
            table = _Table(renamed(part.query, part.columns), self.tables)
            self.tables = {**self.tables, part.name: table}
        try:
            return self._select(query) if isinstance(query, Select) else self._set(query)
        finally:
            self.tables = before

    # SELECT

    def _select(self, select: Select) -> Part:
        if select.source is None:
            return whole("SELECT without FROM")
        part = self._from(select.source)
        if part.name == "whole":
            return part
        if (clause := refusal(select)) is not None:
            return whole(clause)
        part = self._grouped(select, part)
        part = self._windowed(select, part)
        part = replace(part, column=self._outputs(select, part))
        if select.distinct:
            part = self._by(part, self._all(select, part), "DISTINCT")
        return part

    def _grouped(self, select: Select, part: Part) -> Part:
        group = select.group
        exprs = [*(output.value for output in select.outputs), *some(select.having)]
        if group is None:
            plain = any(is_aggregate(e) for expr in exprs for e in walk(expr))
            return whole("an aggregate without GROUP BY") if plain else part
        if group.sets:
            return whole("ROLLUP, CUBE or GROUPING SETS")
        keys = keys_of(group, select)
        tokens = {each: self._token(each, part) for each in keys}
        timed = self._timed(tokens, part)
        clause = "an event-time window" if timed else "GROUP BY"
        found = self._by(part, frozenset(tokens.values()), clause)
        if found.name == "whole":
            return found
        fresh, inner = part.name == "linear" and not timed, part.column

        def column(qualifier: str | None, name: str) -> Token | None:
            token = inner(qualifier, name)
            named = [t for e, t in tokens.items() if isinstance(e, Call) and e.name == name]
            return named[0] if named and qualifier is None else token

        return replace(found, column=column, group=select if fresh else None)

    def _timed(self, tokens: Mapping[Expr, Token], part: Part) -> bool:
        """Note the times of the windows among some keys; tell whether there are any."""
        calls = [e for e in tokens if isinstance(e, Call) and e.name in WINDOWED]
        for call in calls:
            time = self._known(call.args[0], part) if call.args else None
            self.timed.append(time)
            if time is not None and call.name not in {"session", "session_window"}:
                self.spans[tokens[call]] = time
        return bool(calls)

    def _windowed(self, select: Select, part: Part) -> Part:
        """Add the window functions, whose partitions must all be the same."""
        named = dict(select.windows)
        exprs = [*(output.value for output in select.outputs), *some(select.qualify)]
        overs = [e.over for x in exprs for e in walk(x) if isinstance(e, Call) and e.over]
        for over in overs:
            partition = partition_of(over, named)
            if not partition:
                return whole("a window function without PARTITION BY")
            keys = frozenset(self._token(each, part) for each in partition)
            part = self._by(part, keys, "a window function (OVER)")
        return part

    def _outputs(self, select: Select, part: Part) -> Callable[[str | None, str], Token | None]:
        """Return how the columns of a SELECT are found by those who read it."""
        named: dict[str, Token] = {}
        keys = keys_of(select.group, select) if select.group else ()
        through = False
        for output in select.outputs:
            if isinstance(output.value, StarExpr):
                through = True
            elif (name := name_of(output)) and (select.group is None or output.value in keys):
                token = self._known(output.value, part)
                if token is not None:
                    named[name] = token
        inner = part.column

        def column(_: str | None, name: str) -> Token | None:
            return named.get(name, inner(None, name) if through else None)

        return column

    def _all(self, select: Select, part: Part) -> Keys:
        names = [name_of(output) for output in select.outputs]
        tokens = (part.column(None, name) if name else None for name in names)
        return frozenset(next(self._fresh) if t is None else self.root(t) for t in tokens)

    # Keys

    def _by(self, part: Part, keys: Keys, clause: str) -> Part:
        """Put an operator that works by a key over a part."""
        if part.name == "whole":
            return part
        if part.name == "linear":
            return replace(part, name="keyed", because=clause, keys=keys, group=None)
        common = self._roots(part.keys or ()) & self._roots(keys)
        if common:
            return replace(part, name="keyed", because=clause, keys=common, group=None)
        return whole(f"{clause} over {part.because} by another key")

    def _token(self, expr: Expr, part: Part) -> Token:
        token = self._known(expr, part)
        return next(self._fresh) if token is None else token

    def _known(self, expr: Expr, part: Part) -> Token | None:
        """Return the token of a mere column or of a grouped event-time window."""
        if isinstance(expr, Call) and expr.name in WINDOWED:
            return part.column(None, expr.name)
        if not isinstance(expr, Column) or len(expr.parts) > 2:
            return None
        qualifier = expr.parts[0] if len(expr.parts) == 2 else None
        token = part.column(qualifier, expr.name)
        return None if token is None else self.root(token)

    def root(self, token: Token) -> Token:
        """Return the token that stands for all that are equal to this one."""
        while token in self._same:
            token = self._same[token]
        return token

    def _roots(self, keys: Iterable[Token]) -> Keys:
        return frozenset(map(self.root, keys))

    # FROM

    def _from(self, source: From) -> Part:
        part = self._source(source.source)
        for join in source.joins:
            part = self._join(part, join)
        for view in source.views:
            clause = obstacle([view.call], GENERATORS)
            part = part if clause is None or part.name == "whole" else whole(clause)
        return part

    def _source(self, source: Source) -> Part:
        match source:
            case NamedTable(versioned=True):
                return whole("FOR SYSTEM_TIME AS OF")
            case NamedTable():
                return self._table(source)
            case Derived(lateral=True):
                return whole("LATERAL")
            case Derived(query=From() as inner):
                part = self._from(inner)
                return part if source.alias is None else read_as(part, source.alias)
            case Derived(query=query) if not isinstance(query, From):
                return read_as(self.query(renamed(query, source.columns)), source.alias)
            case Generator():
                return whole("a table function")
            case Opaque(why=why):
                return whole(why)
        return whole("this form of statement")

    def _table(self, source: NamedTable) -> Part:
        known = self.tables.get(source.name)
        name = source.alias or source.name
        if known is not None:
            before, self.tables = self.tables, known.tables
            part = self.query(renamed(known.query, source.columns))
            self.tables = before
            return read_as(part, name)
        tokens: dict[str, Token] = {}
        self.uses.append((source.name, {} if source.columns else tokens))
        names = None if source.columns else self.inputs.get(source.name)

        def column(_: str | None, each: str) -> Token | None:
            if names is not None and each not in names:
                return None
            return tokens.setdefault(each, next(self._fresh))

        return read_as(Part(name="linear", column=column), name)

    # Joins

    def _join(self, left: Part, join: Join) -> Part:
        if left.name == "whole":
            return left
        if isinstance(join.source, Generator):
            return self._unnested(left, join)
        if isinstance(join.source, NamedTable) and join.source.versioned:
            return self._as_of(left, join.source, join)
        right = self._source(join.source)
        if right.name == "whole":
            return right
        clause = obstacle(some(join.on))
        if clause is not None:
            return whole(clause)
        if join.natural:
            return whole("NATURAL JOIN")
        pairs = self._pairs(left, right, join)
        part = self._paired(left, right, pairs, join)
        return replace(part, column=beside(left, right, join))

    def _unnested(self, left: Part, join: Join) -> Part:
        """Read `join lateral explode(...)`, which gives rows for each row."""
        assert isinstance(join.source, Generator)  # noqa: S101 - the caller looked
        clause = obstacle([join.source.call], GENERATORS)
        if join.kind not in {"inner", "cross"} or clause is not None:
            return whole(clause or "LATERAL")
        return left

    def _as_of(self, left: Part, table: NamedTable, join: Join) -> Part:
        """Read a join with the versions of a table, which works by columns of its primary key."""
        right = read_as(self._table(table), table.alias or table.name)
        clause = "FOR SYSTEM_TIME AS OF"
        key = {right.column(None, name) for name in self.versions.get(table.name, ())}
        found = [(a, b) for a, b in self._pairs(left, right, join) if b in key]
        pairs = shared(left, right, found, self.root)
        if right.name == "whole" or table.time is None or not found:
            return whole(clause if right.name != "whole" else right.because or clause)
        if not pairs:
            return whole(f"{clause} with {left.because or right.because} by another key")
        self.timed.append(self._known(table.time, left))
        self._joined(pairs, join)
        part = Part(name="keyed", because=clause, keys=frozenset(a for a, _ in pairs))
        return replace(part, column=beside(left, right, join))

    def _pairs(self, left: Part, right: Part, join: Join) -> list[_Pair]:
        """Return the columns that a join compares for equality."""
        if join.using:
            found = ((left.column(None, k), right.column(None, k)) for k in join.using)
            return [(a, b) for a, b in found if a is not None and b is not None]
        return list(self._equalities(left, right, join.on))

    def _equalities(self, left: Part, right: Part, on: Expr | None) -> Iterator[_Pair]:
        if not isinstance(on, Operation):
            return
        if on.op == "and":
            for each in on.args:
                yield from self._equalities(left, right, each)
        elif on.op == "=":
            found = [
                (self._known(first, left), self._known(second, right))
                for first, second in (on.args, on.args[::-1])
            ]
            sure = [(a, b) for a, b in found if a is not None and b is not None]
            yield from sure if len(sure) == 1 else ()

    def _paired(self, left: Part, right: Part, pairs: Sequence[_Pair], join: Join) -> Part:
        inner = join.kind in {"inner", "cross"}
        clause = "JOIN" if inner else f"{join.kind.upper()} JOIN"
        if not inner and not pairs:
            return whole(f"{clause} without an equality of columns")
        found = shared(left, right, pairs, self.root)
        mine, theirs = frozenset(a for a, _ in found), frozenset(b for _, b in found)
        rank = max(left.name, right.name, key=["linear", "join", "keyed"].index)
        if not found and (rank == "keyed" or not inner):
            other = left.because or right.because
            return whole(f"{clause} with {other} by another key")
        self._joined(pairs, join)
        if inner:
            name = "keyed" if rank == "keyed" else "join"
            return Part(name=name, because=clause, keys=mine or None)
        keys = {"right": theirs, "full": frozenset({next(self._fresh)})}.get(join.kind, mine)
        return Part(name="keyed", because=clause, keys=keys)

    def _joined(self, pairs: Sequence[_Pair], join: Join) -> None:
        """Note that columns are equal in all rows of a join, or in those that have both sides."""
        for a, b in pairs:
            ours, unmatched = (b, a) if join.kind == "right" else (a, b)
            if join.kind not in {"inner", "cross"}:
                self.matched[self.root(unmatched)] = self.root(ours)
            elif self.root(a) != self.root(b):
                self._same[self.root(b)] = self.root(a)

    # UNION, INTERSECT, EXCEPT

    def _set(self, query: SetQuery) -> Part:
        if query.kind != "union" or query.foreign:
            return whole(query.kind.upper())
        if query.order or query.limited:
            return whole("LIMIT" if query.limited else "ORDER BY")
        left, right = self.query(query.left), self.query(query.right)
        for part in (left, right):
            if part.name == "whole":
                return part
        keyed = next((part for part in (left, right) if part.name == "keyed"), None)
        if keyed is not None:
            return whole(f"UNION over {keyed.because}")
        joined = "join" in {left.name, right.name}
        both = Part(name="join" if joined else "linear", because="JOIN" if joined else None)
        if not query.distinct:
            return replace(both, keys=None) if joined else both
        if joined:
            return whole("UNION without ALL over JOIN")
        return replace(both, name="keyed", because="UNION without ALL", keys=None)
