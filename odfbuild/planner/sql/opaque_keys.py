"""Which parts of a key a query only tells apart: it never looks at what their values are.  Pure.

Such a part may be given other values, and nothing changes but these.  So rows under several values
that were made up are several selections of rows, and one run of the query tells of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from odfbuild.planner.sql.group_names import relations_of
from odfbuild.planner.sql.key_columns import KeyColumns
from odfbuild.planner.sql.query import QueryStep
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
    Subquery,
    Unknown,
    walk,
)
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read

__all__ = ["opaque_keys"]


def opaque_keys(
    steps: Sequence[QueryStep],
    key: KeyColumns,
    inputs: Mapping[str, Iterable[str]],
    columns: Iterable[str],
) -> tuple[int, ...]:
    """Return the numbers of the parts of a key that a query only tells apart.

    `inputs` are the columns of the inputs, `columns` those of the result.  Names are what counts: a
    query that calls something else by the name of a key is not looked into.
    """
    try:
        queries = [read(step.text).shape for step in steps]
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


def _names(queries: Sequence[Query], key: KeyColumns, part: int) -> frozenset[str] | None:
    """Return all names of a part of a key; None if something looks at its values."""
    found = _Uses({names[part] for names in key.inputs.values()})
    before = None
    while before != found.names:  # aliases are found as one goes along, in any order
        before = frozenset(found.names)
        for query in queries:
            found.query(query)
    return None if found.seen else frozenset(found.names)


class _Uses:
    """The names that some columns have; `seen` says that something looks at their values."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.seen = False

    def query(self, query: Query) -> None:
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
        """Tell whether a star may give a column other than as it is: fields of a struct."""
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
            case Generator():
                self.seen |= bool(self.names.intersection(source.columns))
                self._look([source.call])
            case Opaque():
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
        """Note whether a value of these columns is looked at, other than by a partition."""
        for expr in exprs:
            told = {
                id(each)
                for call in walk(expr)
                if isinstance(call, Call) and call.over is not None
                for each in call.over.partition
                if self._is_mine(each)
            }
            self.seen |= any(self._is_seen(each) for each in walk(expr) if id(each) not in told)

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
    """Yield the conditions that all have to be met."""
    if isinstance(expr, Operation) and expr.op == "and":
        for each in expr.args:
            yield from _conditions(each)
    elif expr is not None:
        yield expr
