"""What Spark refuses of a query for its form alone: aggregates, groups, set operations, parameters.

Pure.  Only what is certain is found: where a form or a function is not known, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from odfbuild.sql.analysis.row_by_row import is_aggregate, keys_of, obstacle, some
from odfbuild.sql.columns.functions import WINDOWED
from odfbuild.sql.columns.structs import GENERATORS
from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    Lambda,
    OpaqueRelation,
    QueryShape,
    Select,
    SetQuery,
    Source,
    StarExpr,
    Subquery,
    TextPlace,
    Unknown,
    children,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError, Statement
from odfbuild.sql.text.steps import QueryStep
from odfbuild.sql.text.tokens import unfilled

Found: TypeAlias = tuple[Reason, str, TextPlace]


def misuses(steps: Sequence[QueryStep]) -> Iterator[QueryFinding]:
    """Yield what no engine can carry out; nothing of a text that cannot be read."""
    for number, step in enumerate(steps):
        with suppress(SqlTextError):
            for reason, text, place in list(_of_query(step.statement)):
                yield QueryFinding(reason, text, number, place)


def _of_query(statement: Statement) -> Iterator[Found]:
    if any(sign in statement.text for sign in "{:?"):
        for name in unfilled(statement.tokens):
            yield Reason.UNFILLED, name.text, name.place
    for query in _queries(statement.shape):
        yield from _of_set(query) if isinstance(query, SetQuery) else _of_select(query)


def _queries(query: QueryShape) -> Iterator[Select | SetQuery]:
    """Yield the queries that see nothing from outside of themselves."""
    if isinstance(query, Unknown):
        return
    yield query
    for table in query.with_:
        yield from _queries(table.query)
    if isinstance(query, SetQuery):
        yield from _queries(query.left)
        yield from _queries(query.right)
    elif query.source is not None:
        yield from _inside(query.source)


def _inside(source: From) -> Iterator[Select | SetQuery]:
    for each in (source.source, *(join.source for join in source.joins)):
        yield from _of_source(each)


def _of_source(source: Source | None) -> Iterator[Select | SetQuery]:
    if isinstance(source, OpaqueRelation):
        yield from _of_source(source.inside)
    elif isinstance(source, Derived) and not source.lateral:
        if isinstance(source.query, From):
            yield from _inside(source.query)
        else:
            yield from _queries(source.query)


# Aggregates


def _of_select(select: Select) -> Iterator[Found]:
    joins = () if select.source is None else select.source.joins
    clauses = [("WHERE", each) for each in some(select.where)]
    clauses += [("ON", each) for join in joins for each in some(join.on)]
    if select.group is not None and not select.group.all:
        clauses += [("GROUP BY", key) for key in select.group.keys]
    for clause, expr in clauses:
        for each in walk(expr):
            if isinstance(each, Call) and each.place is not None and is_aggregate(each):
                yield Reason.AGGREGATE, f"{each.name}() in {clause}", each.place
    yield from _ungrouped(select)


def _ungrouped(select: Select) -> Iterator[Found]:
    """Yield columns of the SELECT list that have many values in a group."""
    values = [output.value for output in select.outputs]
    group = select.group
    if group is None and not any(is_aggregate(e) for value in values for e in walk(value)):
        return
    if group is not None and (group.all or obstacle(group.keys, timed=True)):
        return
    aliases = {alias: output.value for output in select.outputs for alias in output.aliases}
    names: set[str] = set()
    for key in [] if group is None else keys_of(group, select):
        if any(isinstance(each, Call) and each.name in WINDOWED for each in walk(key)):
            names |= {"window", "session_window"}
        names |= set(_names(key))
        if isinstance(key, Column) and key.name in aliases:
            names |= set(_names(aliases[key.name]))
    for output in select.outputs:
        if names.isdisjoint(output.aliases):
            for column in _bare(output.value):
                if names.isdisjoint(column.parts) and column.parts[0] not in aliases:
                    assert column.place is not None  # noqa: S101 - _bare yields no other
                    yield Reason.UNGROUPED, ".".join(column.parts), column.place


def _names(expr: Expr) -> Iterator[str]:
    for each in walk(expr):
        if isinstance(each, Column):
            yield from each.parts


def _bare(expr: Expr) -> Iterator[Column]:
    """Yield columns that stand in no aggregate, in nothing that may be one, nor in a window."""
    match expr:
        case Column(place=place) if place is not None:
            yield expr
        case Lambda() | Subquery() | Unknown() | StarExpr():
            return
        case Call() if expr.over is not None or obstacle([Call(name=expr.name, args=())]):
            return
        case _:
            for child in children(expr):
                yield from _bare(child)


# Set operations


def _of_set(query: SetQuery) -> Iterator[Found]:
    left, right = _width(query.left), _width(query.right)
    place = _first_place(query.right)
    if not query.by_name and left and right and left != right and place is not None:
        text = f"{query.kind.upper()} of {left} and {right} columns"
        yield Reason.WIDTHS, text, place


def _width(query: QueryShape) -> int:
    """Return how many columns a query gives; 0 if that is not certain."""
    if isinstance(query, SetQuery):
        left = _width(query.left)
        return left if left == _width(query.right) else 0
    if isinstance(query, Unknown) or not all(map(_is_one, (o.value for o in query.outputs))):
        return 0
    return len(query.outputs) if all(len(o.aliases) < 2 for o in query.outputs) else 0


def _is_one(expr: Expr) -> bool:
    """Tell whether an item of a SELECT list is one column."""
    if isinstance(expr, StarExpr | Unknown):
        return False
    return not (isinstance(expr, Call) and expr.name in GENERATORS)


def _first_place(query: QueryShape) -> TextPlace | None:
    while isinstance(query, SetQuery):
        query = query.left
    if isinstance(query, Unknown) or not query.outputs:
        return None
    return query.outputs[0].place or next(_bare(query.outputs[0].value), Column(())).place
