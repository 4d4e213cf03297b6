"""Queries that Spark refuses for their form alone.

Aggregates, groups, positions, set operations, window functions, subqueries, names of WITH and
parameters.

Pure.  Only certain errors are reported: forms and functions that are not known are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from odfbuild.sql.analysis.forms.positions import loose_groupings, wrong_positions
from odfbuild.sql.analysis.forms.window_forms import window_forms
from odfbuild.sql.analysis.row_by_row import is_aggregate, keys_of, obstacle, some
from odfbuild.sql.analysis.windows import wrong_lengths
from odfbuild.sql.arities import ARITIES
from odfbuild.sql.columns.functions import WINDOWED
from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.parse import skeleton
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    Lambda,
    Name,
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
from odfbuild.sql.text.statement import SqlTextError, Statement, Token
from odfbuild.sql.text.steps import QueryStep, is_of_spark

FormRefusal: TypeAlias = tuple[Reason, str, TextPlace]

_BEFORE_PATHS = {"VAR", "IDENTIFIER", "R_PAREN", "R_BRACKET", "STRING"}  # value:path
_WINDOWED = re.compile(r"\b(?:over|filter|qualify)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?:over|filter|qualify|window|group|order|limit|offset)\b", re.IGNORECASE)
"""Words of texts whose numbers are positions in a list, bounds of a frame or counts of rows."""


def misuses(steps: Sequence[QueryStep]) -> Iterator[QueryFinding]:
    """Yield the forms that the engine refuses; nothing for a text that cannot be parsed.

    A text that differs from an accepted one only in irrelevant numbers and strings is accepted.
    """
    for number, step in enumerate(steps):
        form = _form(step)
        if form is not None and form in _SOUND:
            continue
        with suppress(SqlTextError):
            found = tuple(_of_statement(step.statement, number))
            yield from found
            if form is not None and not found:
                if len(_SOUND) >= _MOST:
                    _SOUND.clear()
                _SOUND.add(form)


_MOST = 4_096
_SOUND: set[Hashable] = set()  # skeletons of accepted texts


def _form(step: QueryStep) -> Hashable | None:
    """Return the skeleton that texts accepted together share; None if a text is checked itself."""
    if not is_of_spark((step,)):
        return None
    return skeleton(step.text, compared=_COUNTED.search(step.text) is not None)


def _of_statement(statement: Statement, number: int) -> Iterator[QueryFinding]:
    for reason, text, place in _of_query(statement):
        yield QueryFinding(reason, text, number, place)
    if _WINDOWED.search(statement.text):
        for query in _queries(statement.shape):
            for text, place, hint in window_forms(query):
                yield QueryFinding(Reason.WINDOW, text, number, place, hint)
    for call, length, hint in wrong_lengths(statement):
        text = f"{call.text}() has {length}"
        yield QueryFinding(Reason.ARGUMENTS, text, number, call.place, hint)
    for text, place, hint in _of_arguments(statement):
        yield QueryFinding(Reason.ARGUMENTS, text, number, place, hint)


def _of_query(statement: Statement) -> Iterator[FormRefusal]:
    if any(sign in statement.text for sign in "{:?"):
        for name in _unfilled_parameters(statement.tokens):
            yield Reason.UNFILLED, name.text, name.place
    for query in _queries(statement.shape):
        yield from _of_names(query)
        place = _first_place(query)
        if place is not None:
            for text in wrong_positions(query, _width(query)):
                yield Reason.POSITION, text, place
        if isinstance(query, SetQuery):
            yield from _of_set(query)
        else:
            yield from _of_select(query)
            yield from _of_subqueries(query)


def _unfilled_parameters(tokens: Sequence[Token]) -> Iterator[Name]:
    """Yield parameters, `:name` and `?`, and unfilled templates, `{{ ... }}`."""
    before, end = None, 0
    for at, token in enumerate(tokens):
        after = tokens[at + 1].kind if at + 1 < len(tokens) else None
        if token.kind == "L_BRACE" and token.start >= end:
            yield Name("{{ }}" if after == "L_BRACE" else "{ }", token.place)
            end = token.start + 2
        elif token.kind == "PLACEHOLDER":
            yield Name("?", token.place)
        elif token.kind == "COLON" and before not in _BEFORE_PATHS and after == "VAR":
            yield Name(f":{tokens[at + 1].text}", token.place)
        before = token.kind


def _queries(query: QueryShape) -> Iterator[Select | SetQuery]:
    """Yield the queries that cannot use columns of outer queries."""
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


def _of_select(select: Select) -> Iterator[FormRefusal]:
    joins = () if select.source is None else select.source.joins
    clauses = [("WHERE", each) for each in some(select.where)]
    clauses += [("ON", each) for join in joins for each in some(join.on)]
    if select.group is not None and not select.group.all:
        clauses += [("GROUP BY", key) for key in select.group.keys]
    for clause, expr in clauses:
        for each in walk(expr):
            if isinstance(each, Call) and each.place is not None and is_aggregate(each):
                yield Reason.AGGREGATE, f"{each.name}() in {clause}", each.place
    yield from _nested_aggregates(select)
    yield from _ungrouped_columns(select)


def _nested_aggregates(select: Select) -> Iterator[FormRefusal]:
    """Yield aggregates, and calls over windows, inside of aggregates."""
    for expr in _values(select):
        for outer in walk(expr):
            if isinstance(outer, Call) and is_aggregate(outer):
                for inner in (each for arg in outer.args for each in walk(arg)):
                    within = isinstance(inner, Call) and (inner.over or is_aggregate(inner))
                    if isinstance(inner, Call) and within and inner.place is not None:
                        yield Reason.NESTED, f"{inner.name}() inside of {outer.name}()", inner.place
                        break


def _values(select: Select) -> tuple[Expr, ...]:
    """Return the expressions in which aggregates and windows are allowed."""
    outputs = (output.value for output in select.outputs)
    return (*outputs, *some(select.having), *some(select.qualify), *select.order)


def _ungrouped_columns(select: Select) -> Iterator[FormRefusal]:
    """Yield columns of the SELECT list that have many values in a group."""
    values = [output.value for output in select.outputs]
    group = select.group
    grouped = group is not None or select.having is not None  # which makes one group of all rows
    if not grouped and not any(is_aggregate(e) for value in values for e in walk(value)):
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
    """Yield columns outside of aggregates, of calls that may be such, and of windows."""
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


# Arguments


def _of_arguments(statement: Statement) -> Iterator[tuple[str, TextPlace, str]]:
    for query in _queries(statement.shape):
        if isinstance(query, Select):
            joins = () if query.source is None else query.source.joins
            conditions = (*some(query.where), *(on for join in joins for on in some(join.on)))
            for expr in (*_values(query), *conditions):
                for each in walk(expr):
                    yield from _wrong_number(each)
            for call, where in _misplaced_generators(query):
                if call.place is not None:
                    text = f"{call.name}() {where}"
                    hint = "write it by itself in the SELECT list, or behind FROM as LATERAL VIEW"
                    yield text, call.place, hint
            for call in loose_groupings(query):
                if call.place is not None:
                    text = f"{call.name}() without GROUPING SETS, CUBE or ROLLUP"
                    yield text, call.place, "group by sets of keys, or leave it out: it would be 0"


def _misplaced_generators(select: Select) -> Iterator[tuple[Call, str]]:
    """Yield calls of generators where a value is needed, and the second one of a SELECT list."""
    joins = () if select.source is None else select.source.joins
    clauses = [("WHERE", each) for each in some(select.where)]
    clauses += [("ON", each) for join in joins for each in some(join.on)]
    clauses += [("HAVING", each) for each in some(select.having)]
    for clause, expr in clauses:
        yield from ((call, f"in {clause}") for call in _generators(expr))
    listed = [(call, o.value) for o in select.outputs for call in _generators(o.value)]
    yield from ((call, "inside of an expression") for call, item in listed if call is not item)
    alone = [call for call, item in listed if call is item]
    yield from ((call, "next to another one in the same SELECT list") for call in alone[1:])


def _generators(expr: Expr) -> Iterator[Call]:
    for each in walk(expr):
        if isinstance(each, Call) and each.name in GENERATORS:
            yield each


def _wrong_number(call: Expr) -> Iterator[tuple[str, TextPlace, str]]:
    if not isinstance(call, Call) or call.place is None or call.order or any(call.names):
        return
    accepted = ARITIES.get(call.name)
    if accepted is None or any(isinstance(arg, StarExpr | Unknown) for arg in call.args):
        return
    given = len(call.args)
    if not accepted.takes(given):
        plural = "" if given == 1 else "s"
        what = f"{call.name}() with {given} argument{plural}"
        yield what, call.place, f"it takes {accepted}"


# Subqueries and names


def _of_subqueries(select: Select) -> Iterator[FormRefusal]:
    exprs = (output.value for output in select.outputs)
    for expr in (*exprs, *some(select.where), *some(select.having), *some(select.qualify)):
        for each in walk(expr):
            if not isinstance(each, Subquery):
                continue
            width, place = _width(each.query), _first_place(each.query)
            if each.kind == "scalar" and width > 1 and place is not None:
                yield Reason.SUBQUERY, f"a subquery of {width} columns as one value", place
            if isinstance(each.query, Select):
                yield from _of_subqueries(each.query)


def _of_names(query: Select | SetQuery) -> Iterator[FormRefusal]:
    seen: set[str] = set()
    for table in query.with_:
        if table.name.lower() in seen and table.place is not None:
            yield Reason.TWICE, table.name, table.place
        seen.add(table.name.lower())


# Set operations


def _of_set(query: SetQuery) -> Iterator[FormRefusal]:
    left, right = _width(query.left), _width(query.right)
    place = _first_place(query.right)
    if not query.by_name and left and right and left != right and place is not None:
        text = f"{query.kind.upper()} of {left} and {right} columns"
        yield Reason.WIDTHS, text, place


def _width(query: QueryShape) -> int:
    """Return how many columns a query has; 0 if that is not certain."""
    if isinstance(query, SetQuery):
        left = _width(query.left)
        return left if left == _width(query.right) else 0
    if isinstance(query, Unknown) or not all(map(_is_one, (o.value for o in query.outputs))):
        return 0
    return len(query.outputs) if all(len(o.aliases) < 2 for o in query.outputs) else 0


def _is_one(expr: Expr) -> bool:
    """Return whether an item of a SELECT list is one column."""
    if isinstance(expr, StarExpr | Unknown):
        return False
    return not (isinstance(expr, Call) and expr.name in GENERATORS)


def _first_place(query: QueryShape) -> TextPlace | None:
    while isinstance(query, SetQuery):
        query = query.left
    if isinstance(query, Unknown) or not query.outputs:
        return None
    return query.outputs[0].place or next(_bare(query.outputs[0].value), Column(())).place
