"""Columns of the key of a query, and those of them that it only compares for equality.  Pure.

The latter, opaque parts may get other values without any other change of the result.  So several
selections of rows can get different artificial values, and be computed in one run of the query.

A step needs only the rows of the keys that its new rows have.  Parts of a key that are not plain
columns of the inputs are left out: by a coarser key more rows are computed, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.keys.group_names import relations_of
from odfbuild.sql.analysis.keys.keyed import QueryPart, QueryParts
from odfbuild.sql.columns.output import Token
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
    Subquery,
    Unknown,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of a key, in one order: of every input, and of the result if it has them.

    `times` are the columns of the inputs by which rows wait for the watermark: those of windows,
    and of joins with versions of a table; None if something else decides.
    """

    inputs: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...] | None
    times: Mapping[str, frozenset[str]] | None


def key_columns(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> KeyColumns | None:
    """Return the key by which a query works, None if there is none that its inputs have.

    The result rows for some keys are those of the query over the inputs' rows for these keys.
    """
    found = _read(steps, inputs)
    return None if found is None else _shared_keys(*found)


def step_key(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> KeyColumns | None:
    """Return the key by which a step over just these inputs works, None if one of them has none.

    An input has none if only a common table or an earlier step reads it that is not read itself.
    """
    key = key_columns(steps, inputs)
    return key if key is not None and key.inputs.keys() >= inputs.keys() else None


def span_columns(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> dict[str, str]:
    """Return the time column of each input by whose windows, of fixed lengths, a query works.

    The rows of the result for some windows are those of the query over the inputs' rows in these
    windows.  Empty if it does not work by windows of such columns.
    """
    found = _read(steps, inputs)
    if found is None:
        return {}
    parts, part = found
    keys = {parts.root(token) for token in part.keys or ()}
    times = {parts.root(time) for span, time in parts.spans.items() if parts.root(span) in keys}
    named: dict[str, str] = {}
    for name, tokens in parts.uses:
        columns = [column for column, token in tokens.items() if parts.root(token) in times]
        if len(columns) != 1 or named.setdefault(name, columns[0]) != columns[0]:
            return {}
    return named


def _read(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]
) -> tuple[QueryParts, QueryPart] | None:
    """Return the parts of a query that works by a key, None for any other."""
    shapes: list[tuple[str | None, QueryShape]] = []
    for step in steps:
        try:
            shapes.append((step.alias, step.statement.shape))
        except SqlTextError:
            return None
    if not shapes:
        return None
    named = {name: shape for name, shape in shapes if name is not None}
    parts = QueryParts(named, inputs, dict(steps[0].temporal))
    part = parts.query(shapes[-1][1])
    if part.name not in {"keyed", "join"} or not part.keys:
        return None
    return parts, part


def _shared_keys(parts: QueryParts, part: QueryPart) -> KeyColumns | None:
    uses = [
        (name, {_root(parts, token): column for column, token in tokens.items()})
        for name, tokens in parts.uses
    ]
    keys = {_root(parts, token) for token in part.keys or ()}
    roots = sorted(root for root in keys if all(root in columns for _, columns in uses))
    if not roots:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in uses:
        if found.setdefault(name, names := tuple(columns[root] for root in roots)) != names:
            return None  # read twice, by different columns
    return KeyColumns(found, _outputs(parts, part, roots), _times(parts))


def _times(parts: QueryParts) -> dict[str, frozenset[str]] | None:
    """Return the columns of the inputs that are times of windows."""
    found: dict[str, frozenset[str]] = {}
    for timed in parts.timed:
        root = None if timed is None else parts.root(timed)
        names = [
            (n, c) for n, tokens in parts.uses for c, t in tokens.items() if parts.root(t) == root
        ]
        if not names:
            return None
        for name, column in names:
            found[name] = found.get(name, frozenset()) | {column}
    return found


def _root(parts: QueryParts, token: Token) -> Token:
    """Return the token of the preserved side for one that an outer join matches with it.

    A later join may have made both sides equal, so a cycle ends the search.
    """
    seen = [parts.root(token)]
    while (ours := parts.matched.get(seen[-1])) and (root := parts.root(ours)) not in seen:
        seen.append(root)
    return seen[-1]


def _outputs(parts: QueryParts, part: QueryPart, roots: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the columns of the result that are the key; None if a part of it is missing."""
    if part.rows.open:
        return None
    names = {
        parts.root(token): name
        for name, token in reversed(part.rows.tokens().items())
        if token is not None
    }
    return tuple(names[root] for root in roots) if all(r in names for r in roots) else None


def opaque_keys(
    steps: Sequence[QueryStep],
    key: KeyColumns,
    inputs: Mapping[str, Iterable[str]],
    columns: Iterable[str],
) -> tuple[int, ...]:
    """Return the numbers of the parts of a key that a query only compares for equality.

    `inputs` are the columns of the inputs, `columns` those of the result.  Parts are identified by
    name: there are none in a query that gives something else the name of a key.
    """
    try:
        queries = [step.statement.shape for step in steps]
    except SqlTextError:
        return ()
    outputs = key.outputs or ()
    result = frozenset(columns)
    return tuple(
        part
        for part, name in enumerate(outputs)
        if (names := _names(queries, key, part)) is not None
        and result & names == {name}
        and not any(
            (set(there) - {key.inputs[alias][part]}) & names for alias, there in inputs.items()
        )
    )


def _names(queries: Sequence[QueryShape], key: KeyColumns, part: int) -> frozenset[str] | None:
    """Return all names of a part of a key; None if something uses its values."""
    found = _Uses({names[part] for names in key.inputs.values()})
    before = None
    while before != found.names:  # aliases may be found in any order
        before = frozenset(found.names)
        for query in queries:
            found.query(query)
    return None if found.seen else frozenset(found.names)


class _Uses:
    """The names of some columns; `seen` is whether something uses their values."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.seen = False

    def query(self, query: QueryShape) -> None:
        if isinstance(query, Unknown):
            self.seen = True
            return
        for part in query.with_:
            self.seen |= bool(part.columns)
            self.query(part.query)
        self.seen |= bool(query.foreign) or query.limited
        self._look(query.order)
        if isinstance(query, SetQuery):
            self.query(query.left)
            self.query(query.right)
        else:
            self._select(query)

    def _select(self, select: Select) -> None:
        for output in select.outputs:
            if isinstance(output.value, StarExpr):
                self.seen |= self._is_changed(output.value, select.source)
                continue
            if self._is_mine(output.value):
                self.names.update(output.aliases)
            else:
                self.seen |= bool(self.names.intersection(output.aliases))
                self._look([output.value])
        self._look(each for each in (select.where, select.having, select.qualify) if each)
        self._look(select.spread)
        for _, over in select.windows:
            self._look(each for each in over.partition if not self._is_mine(each))
            self._look(over.order)
        if select.group is not None:
            self.seen |= select.group.sets
            self._look(each for each in select.group.keys if not self._is_mine(each))
        if select.source is not None:
            self._from(select.source)

    def _is_changed(self, star: StarExpr, source: From | None) -> bool:
        """Return whether a star may change one of the columns, or select fields of a struct."""
        excluded = {name for each in star.excluded for name in each}
        plain = len(star.qualifier) == 0 or star.qualifier[0] in set(relations_of(source))
        return bool(excluded & self.names) or not plain or len(star.qualifier) > 1

    def _from(self, source: From) -> None:
        self._source(source.source)
        for join in source.joins:
            self._source(join.source)
            self._join(join)
        for view in source.views:
            self._source(view)

    def _source(self, source: Source) -> None:
        match source:
            case NamedTable():
                self.seen |= bool(source.columns) or source.versioned
            case Derived(query=From() as inner):
                self.seen |= bool(source.columns) or source.lateral
                self._from(inner)
            case Derived(query=query) if not isinstance(query, From):
                self.seen |= bool(source.columns) or source.lateral
                self.query(query)
            case RowGenerator():
                self.seen |= bool(self.names.intersection(source.columns))
                self._look([source.call])
            case OpaqueRelation():
                self.seen = True

    def _join(self, join: Join) -> None:
        self.seen |= join.natural
        for each in _conditions(join.on):
            both = isinstance(each, Operation) and each.op in {"=", "<=>"} and len(each.args) == 2
            if not (both and all(map(self._is_mine, each.args))):  # type: ignore[union-attr]
                self._look([each])

    def _is_mine(self, expr: Expr) -> bool:
        return isinstance(expr, Column) and len(expr.parts) <= 2 and expr.name in self.names

    def _look(self, exprs: Iterable[Expr]) -> None:
        """Record whether a value of these columns is used, other than by a partition."""
        for expr in exprs:
            partitioned = {
                id(each)
                for call in walk(expr)
                if isinstance(call, Call) and call.over is not None
                for each in call.over.partition
                if self._is_mine(each)
            }
            self.seen |= any(
                self._is_seen(each) for each in walk(expr) if id(each) not in partitioned
            )

    def _is_seen(self, expr: Expr) -> bool:
        match expr:
            case Column():
                return bool(set(expr.parts) & self.names)
            case Call():
                star = any(isinstance(each, StarExpr) for each in expr.args)
                return star and (expr.name != "count" or expr.distinct)
            case Subquery() | Unknown():
                return True
            case _:
                return False


def _conditions(expr: Expr | None) -> Iterator[Expr]:
    """Yield the conditions that must all be true."""
    if isinstance(expr, Operation) and expr.op == "and":
        for each in expr.args:
            yield from _conditions(each)
    elif expr is not None:
        yield expr
