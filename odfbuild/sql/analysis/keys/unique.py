"""Unique columns of a result: it has one row for each of their values.  Pure.

They are the keys of the outermost GROUP BY, columns or expressions, also in a SELECT over it that
only projects and filters.  If a row is removed and one with the same values of them is added, the
latter replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfbuild.sql.analysis.keys.group_names import GroupNames
from odfbuild.sql.columns.expressions import output_name
from odfbuild.sql.columns.functions import WINDOWED
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    NamedTable,
    QueryShape,
    Select,
    SelectItem,
    StarExpr,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep

_EDGES = frozenset({"start", "end", "rowtime"})


def unique_columns(steps: Sequence[QueryStep]) -> tuple[str, ...]:
    """Return columns that are together unique in a result; none if none are proven."""
    try:
        shapes = [(step.alias, step.statement.shape) for step in steps]
    except SqlTextError:
        return ()
    tables = {name: shape for name, shape in shapes if name is not None}
    return _all(_unique(shapes[-1][1], tables)) if shapes else ()


def _unique(query: QueryShape, tables: Mapping[str, QueryShape]) -> list[str | None]:
    """Return the columns, None for each part of a key that a result lacks; [] without a key."""
    if not isinstance(query, Select) or query.recursive or query.source is None:
        return []
    if any(_is_generator(each.value) for each in query.outputs):
        return []
    own = {each.name: each.query for each in query.with_}
    if query.group is None:
        return _unique_outputs(query, query.source, {**tables, **own})
    if query.group.sets or query.group.all:
        return []
    names = GroupNames(query)
    return [_result_column(key, query, names) for key in names.keys]


def _all(found: Sequence[str | None]) -> tuple[str, ...]:
    named = [each for each in found if each]
    return tuple(dict.fromkeys(named)) if len(named) == len(found) else ()


def _is_generator(expr: Expr) -> bool:
    return any(isinstance(each, Call) and each.name in GENERATORS for each in walk(expr))


def _result_column(key: Expr, query: Select, names: GroupNames) -> str | None:
    """Return the column of the result that is a key; a key may be the alias of an item."""
    same = [i for i in query.outputs if names.same(i.value, key) or _is_edge(i.value, key)]
    if not same and isinstance(key, Column):
        same = [item for item in query.outputs if item.aliases == key.parts]
    return _name(same[0]) if same else None


def _is_edge(value: Expr, key: Expr) -> bool:
    """Return whether a value is the beginning or end of an event-time window, which names it."""
    if not isinstance(key, Call) or key.name not in WINDOWED:
        return False
    if isinstance(value, Column):
        return len(value.parts) == 2 and value.parts[0] == key.name and value.name in _EDGES
    edges = {f"{key.name}_{edge}" for edge in _EDGES}
    return isinstance(value, Call) and value.name in edges and value.args == key.args


def _name(item: SelectItem) -> str | None:
    if item.aliases:
        return item.aliases[0] if len(item.aliases) == 1 else None
    return output_name(item.value) or None


def _unique_outputs(
    query: Select, source: From, tables: Mapping[str, QueryShape]
) -> list[str | None]:
    """Return the names that a SELECT without groups gives the unique columns of its source."""
    if source.joins or source.views:
        return []
    match source.source:
        case Derived(query=inner, columns=(), lateral=False) if not isinstance(inner, From):
            unique = _unique(inner, tables)
        case NamedTable(columns=(), versioned=False, name=name) if name in tables:
            rest = {each: inner for each, inner in tables.items() if each != name}
            unique = _unique(tables[name], rest)
        case _:
            return []
    return [None if each is None else _output_name(each, query) for each in unique]


def _output_name(column: str, query: Select) -> str | None:
    """Return the name that a SELECT gives a column of its source, None if it leaves that out."""
    for item in query.outputs:
        if isinstance(item.value, Column) and item.value.name == column:
            return _name(item)
        if isinstance(item.value, StarExpr) and (column,) not in item.value.excluded:
            return column
    return None
