"""Problems of joins with versions of tables, and of the tables that have versions.  Pure.

`join_problems` and `table_problems` need the texts alone, `column_problems` also the columns of the
inputs.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.as_of_joins import AsOf, as_of_joins, missing
from odfbuild.sql.text.shape import (
    Column,
    Derived,
    From,
    Join,
    NamedTable,
    OpaqueRelation,
    Operation,
    QueryShape,
    RowGenerator,
    Select,
    Source,
    Subquery,
    TextPlace,
    Unknown,
    walk,
)
from odfbuild.sql.text.statement import Statement
from odfbuild.sql.text.steps import Keys

if TYPE_CHECKING:
    from odfbuild.odf.events import DataSchema
    from odfbuild.sql.text.steps import QueryStep


_Problem: TypeAlias = tuple[str, TextPlace, str]  # the problem, its position, the remedy
_KINDS = frozenset({"JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN"})
_NOWHERE = TextPlace(0, 1, 1, 1)
_EXAMPLE = "JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key"


def join_problems(number: int, query: Statement, keys: Keys) -> Iterator[QueryFinding]:
    """Yield the problems of the joins with versions in a step."""
    asked = as_of_joins(query)
    if not asked:
        return
    joins = {at: (left, join) for at, left, join in _versioned_tables(query.shape)}
    declared = dict(keys)
    tables = {table.place.start for table in query.tables}
    for each in asked:
        at = each.table.place.start
        left, join = joins.get(at, (None, None))
        problem = _form(each, left, join)
        problem = problem or (_key(each, declared, join) if at in tables else _common(each))
        if problem is not None:
            what, place, fix = problem
            yield QueryFinding(Reason.TEMPORAL, what, number, place, fix)


def table_problems(keys: Keys, known: Collection[str], steps: int) -> Iterator[QueryFinding]:
    """Yield the problems of `temporalTables`; their numbers follow those of the steps.

    `known` are the inputs and the aliases of the steps.
    """
    seen: set[str] = set()
    for number, (name, key) in enumerate(keys, start=steps):
        if name not in known:
            closest = difflib.get_close_matches(name, known, n=1)
            fix = f"did you mean '{closest[0]}'?" if closest else "name an input or an earlier step"
            what = f"the temporal table '{name}' is neither an input nor a step of the query"
            yield QueryFinding(Reason.TEMPORAL, what, number, _NOWHERE, fix)
        elif name in seen:
            what = f"the temporal table '{name}' is declared twice"
            yield QueryFinding(Reason.TEMPORAL, what, number, _NOWHERE, "omit one of them")
        elif not key:
            what = f"the temporal table '{name}' has an empty primary key"
            fix = "name the columns that identify the things whose versions the rows are"
            yield QueryFinding(Reason.TEMPORAL, what, number, _NOWHERE, fix)
        seen.add(name)


def column_problems(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema], times: Mapping[str, str]
) -> Iterator[QueryFinding]:
    """Yield primary keys that inputs lack, and times of inputs that are not their event times.

    `inputs` have the columns that a query sees, `times` the event times of each.
    """
    keys = steps[0].temporal if steps else ()
    for number, (name, key) in enumerate(keys, start=len(steps)):
        for column in missing(name, key, inputs):
            what = f"the temporal table '{name}' has no column '{column}' for its primary key"
            fix = _suggestion(column, [field.name for field in inputs[name].fields])
            yield QueryFinding(Reason.TEMPORAL, what, number, _NOWHERE, fix)
    for number, step in enumerate(steps):
        asked = {each.table.place.start: each for each in as_of_joins(step.statement)}
        for at, left, _ in _versioned_tables(step.statement.shape) if asked else ():
            problem = _wrong_time(asked[at], left, times) if at in asked else None
            if problem is not None:
                yield QueryFinding(Reason.TEMPORAL, problem[0], number, problem[1], problem[2])


def _suggestion(name: str, known: Sequence[str]) -> str:
    closest = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{closest[0]}'?" if closest else f"it has {', '.join(known)}"


def _wrong_time(each: AsOf, left: Sequence[Source], times: Mapping[str, str]) -> _Problem | None:
    """Return the problem of a join at another time than the event time of an input."""
    *qualifier, column = each.time or ("",)
    named = [
        source for name, source in _readable_names(left) if [name] == qualifier or not qualifier
    ]
    source = named[0] if len(named) == 1 else None
    if not isinstance(source, NamedTable) or source.versioned or source.columns:
        return None
    time = times.get(source.name, column)
    if time == column or each.time is None:
        return None
    what = f"{each.when.text} is not the event time of '{source.name}'"
    fix = f"name {time}: watermarks cover event times only"
    return what, each.when.place, fix


def _form(each: AsOf, left: Sequence[Source] | None, join: Join | None) -> _Problem | None:
    """Return the problem of the form of a join."""
    if join is None or left is None or not each.kind:
        what = f"FOR SYSTEM_TIME AS OF of '{each.table.text}' that is not joined"
        return what, each.clause, f"write {_EXAMPLE}"
    if each.kind not in _KINDS:
        what = f"{each.kind} with the versions of '{each.table.text}'"
        return (
            what,
            each.clause,
            "use JOIN or LEFT JOIN: versions are found for the left side",
        )
    if join.on is None:
        what = f"a join with the versions of '{each.table.text}' without ON"
        return what, each.clause, f"write {_EXAMPLE}"
    if each.time is None:
        what = "FOR SYSTEM_TIME AS OF something other than a column"
        return what, each.when.place, f"name the event time of the left side: {_EXAMPLE}"
    names = [name for name, _ in _readable_names(left) if name is not None]
    if len(each.time) == 2 and each.time[0] not in names:
        what = f"{each.when.text} is not a column of the left side"
        return what, each.when.place, f"name the event time of {' or '.join(names)}"
    return None


def _key(each: AsOf, declared: Mapping[str, tuple[str, ...]], join: Join | None) -> _Problem | None:
    """Return the problem of a table without a primary key, which identifies versions."""
    name = each.table.text
    if name in declared:
        return None
    columns = sorted(_columns(join, name)) or ["..."]
    fix = f"add temporalTables: [{{name: {name}, primaryKey: [{', '.join(columns)}]}}]"
    what = f"the versions of '{name}', which has no primary key"
    return what, each.table.place, f"{fix} to the transform"


def _common(each: AsOf) -> _Problem:
    what = f"the versions of '{each.table.text}', which is a part of WITH"
    return what, each.table.place, "make it a step of the query, with that alias"


def _columns(join: Join | None, name: str) -> Iterator[str]:
    """Yield the columns of a table that a join compares for equality."""
    if join is None or join.on is None or not isinstance(join.source, NamedTable):
        return
    alias = join.source.alias or name
    for part in walk(join.on):
        if isinstance(part, Operation) and part.op == "=":
            for side in part.args:
                if isinstance(side, Column) and side.qualifier == (alias,):
                    yield side.name


# Where joins with versions are, and what is to the left of them


def _versioned_tables(query: QueryShape) -> Iterator[tuple[int, tuple[Source, ...], Join]]:
    """Yield the position of each table whose versions are joined, its left side, and the join."""
    for each in _froms(query):
        left = [each.source]
        for join in each.joins:
            if isinstance(join.source, NamedTable) and join.source.versioned:
                yield getattr(join.source.place, "start", -1), tuple(left), join
            left.append(join.source)


def _froms(query: QueryShape) -> Iterator[From]:
    if isinstance(query, Unknown):
        return
    for part in query.with_:
        yield from _froms(part.query)
    if not isinstance(query, Select):
        yield from _froms(query.left)
        yield from _froms(query.right)
        return
    if query.source is not None:
        yield from _inside(query.source)
    tests = (each for each in (query.where, query.having, query.qualify) if each is not None)
    for expr in (*(output.value for output in query.outputs), *tests):
        for each in walk(expr):
            if isinstance(each, Subquery):
                yield from _froms(each.query)


def _inside(source: From) -> Iterator[From]:
    yield source
    for each in (source.source, *(join.source for join in source.joins)):
        inner = each.inside if isinstance(each, OpaqueRelation) else each
        if isinstance(inner, Derived):
            query = inner.query
            yield from _inside(query) if isinstance(query, From) else _froms(query)


def _readable_names(left: Sequence[Source]) -> Iterator[tuple[str | None, Source]]:
    """Yield the names under which columns of the left side can be read."""
    for each in left:
        match each:
            case NamedTable():
                yield each.alias or each.name, each
            case Derived(query=From() as inner, alias=None):
                yield from _readable_names((inner.source, *(join.source for join in inner.joins)))
            case Derived() | RowGenerator():
                yield each.alias, each
            case OpaqueRelation(inside=Derived() | NamedTable() as inside):
                yield from _readable_names((inside,))
