"""Queries that mean the same in both engines: SELECT, joins, groups and UNION ALL.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.portability.expressions import AGGREGATES, Expressions
from odfbuild.sql.portability.labels import check_labels
from odfbuild.sql.portability.parts import (
    PortableColumn,
    PortableValue,
    UnportableError,
    columns_of,
    place_of,
)
from odfbuild.sql.portability.texts import check_text
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    From,
    Join,
    NamedTable,
    Operation,
    QueryShape,
    Select,
    SelectItem,
    SetQuery,
    Source,
    StarExpr,
    TextPlace,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import SPARK, QueryStep
from odfbuild.sql.text.types import DOUBLE
from odfbuild.values import dataclass

_JOINS = frozenset({"inner", "left", "right", "full"})
Columns = tuple[PortableColumn, ...]
Tables = Mapping[str, Columns]


@dataclass(frozen=True, slots=True)
class UnportablePart:
    """The first part of a query that the engines may read or compute unlike.

    `step` is the number of the statement, `place` is in its text.
    """

    what: str
    step: int
    place: TextPlace


def portable_steps(steps: Sequence[QueryStep]) -> tuple[QueryStep, ...]:
    """Return the same steps as texts for Spark, whose forms are read here."""
    return tuple(QueryStep(each.alias, each.text, each.temporal, SPARK) for each in steps)


def unportable_part(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> UnportablePart | None:
    """Return the first part of a query that is not listed; None if it means the same in both.

    `inputs` have the columns that a query sees; None is an input whose columns are not known.
    """
    tables: dict[str, Columns] = {}
    number = 0
    try:
        for name, schema in inputs.items():
            if schema is None:
                raise UnportableError(f"the input {name}, whose columns are not known yet")
            tables[name] = columns_of(schema, name)
        for at, step in enumerate(portable_steps(steps)):
            number = at
            if step.temporal:
                raise UnportableError("versions of tables (temporalTables)")
            check_text(step.text)
            found = _Queries(tables).query(step.statement.shape)
            if step.alias is not None:
                if step.alias in tables:
                    raise UnportableError(f"a step that has the name of an input: {step.alias}")
                tables[step.alias] = tuple(each._replace(relation=step.alias) for each in found)
    except UnportableError as error:
        return UnportablePart(error.what, number, error.place or TextPlace(0, 1, 1, 1))
    except SqlTextError as error:
        return UnportablePart(str(error), number, error.place)
    return None


class _Queries:
    """Reads queries over tables; raises UnportableError at the first part that is not listed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def query(self, query: QueryShape) -> Columns:
        """Return the columns of a query."""
        if not isinstance(query, Select | SetQuery):
            raise UnportableError("a form of query that is not listed")
        if query.recursive or query.order or query.counts or query.foreign:
            raise UnportableError("WITH RECURSIVE, ORDER BY, LIMIT, OFFSET or another clause")
        tables = dict(self._tables)
        for part in query.with_:
            if part.columns or part.name in tables:
                what = f"a part of WITH that hides a table, or names its columns: {part.name}"
                raise UnportableError(what, part.place)
            found = _Queries(tables).query(part.query)
            tables[part.name] = tuple(each._replace(relation=part.name) for each in found)
        inner = _Queries(tables)
        return inner._union(query) if isinstance(query, SetQuery) else inner._select(query)

    def _union(self, query: SetQuery) -> Columns:
        if query.kind != "union" or query.distinct or query.by_name:
            raise UnportableError("UNION without ALL, INTERSECT, EXCEPT or BY NAME")
        left, right = self.query(query.left), self.query(query.right)
        if len(left) != len(right):
            raise UnportableError("UNION ALL of queries with unlike numbers of columns")
        return tuple(map(_united, left, right))

    def _select(self, select: Select) -> Columns:
        if select.source is None or select.qualify or select.spread or select.windows:
            raise UnportableError("SELECT without FROM, QUALIFY, WINDOW, SORT or DISTRIBUTE BY")
        scope = self._from(select.source)
        rows = Expressions(scope)
        if select.where is not None:
            rows.condition(select.where)
        if select.source.joins:
            check_labels(_join_keys(select.source, select.where), rows.named, casts=True)
        if select.group is None and select.having is not None:
            raise UnportableError("HAVING without GROUP BY", select.having)
        values = rows if select.group is None else Expressions(scope, grouped=True)
        if select.group is not None:
            self._groups(select, rows)
        if select.having is not None:
            values.condition(select.having)
        found = self._outputs(select, scope, values)
        names = [each.name for each in found]
        if len(set(names)) < len(names):
            raise UnportableError("a result with two columns of one name")
        if select.distinct:
            if select.group is not None:
                raise UnportableError("DISTINCT beside GROUP BY")
            for each in found:
                _check_key(each.value, None)
        return found

    def _groups(self, select: Select, rows: Expressions) -> None:
        assert select.group is not None  # noqa: S101 - the caller looked
        if select.group.sets or select.group.all or not select.group.keys:
            raise UnportableError("ROLLUP, CUBE, GROUPING SETS or GROUP BY ALL")
        for key in select.group.keys:
            value = rows.value(key)
            if value.kind is None:
                raise UnportableError("GROUP BY a place in the list", key)
            if not any(isinstance(each, Column) for each in walk(key)):
                raise UnportableError("GROUP BY a constant", key)
            _check_key(value, key)
        values = [*(each.value for each in select.outputs), select.having]
        parts = (part for each in values if each is not None for part in walk(each))
        aggregates = (each for each in parts if isinstance(each, Call) and each.name in AGGREGATES)
        check_labels([*select.group.keys, *aggregates], rows.named, casts=False)
        named = {each.aliases[0]: each.value for each in select.outputs if each.aliases}
        for each in () if select.having is None else walk(select.having):
            if isinstance(each, Column) and named.get(each.parts[0], each) != each:
                raise UnportableError(
                    f"{each.parts[0]} in HAVING, which is a column in Spark and the name of "
                    "another item in DataFusion",
                    each,
                )

    def _outputs(self, select: Select, scope: Columns, values: Expressions) -> Columns:
        found: list[PortableColumn] = []
        for number, item in enumerate(select.outputs):
            if isinstance(item.value, StarExpr):
                if number or item.value.qualifier or item.value.excluded or select.group:
                    raise UnportableError(
                        "a star but as the first item, of all columns", item.value
                    )
                if select.source is None or select.source.joins:
                    raise UnportableError("the star of a join", item.value)
                for each in scope:
                    if each.value is None:
                        what = f"a star with {each.name}, which is of a type that is not listed"
                        raise UnportableError(what, item.value)
                found += scope
                continue
            found.append(_output(item, values))
        return tuple(each._replace(relation=None) for each in found)

    # FROM

    def _from(self, source: From) -> Columns:
        if source.views:
            raise UnportableError("LATERAL VIEW")
        scope = self._source(source.source)
        for join in source.joins:
            scope = self._join(scope, join)
        return scope

    def _join(self, left: Columns, join: Join) -> Columns:
        if join.kind not in _JOINS or join.on is None or join.using or join.natural:
            raise UnportableError(
                "a join but INNER, LEFT, RIGHT and FULL JOIN with ON", _place(join.source)
            )
        right = self._source(join.source)
        names = {each.relation for each in left} & {each.relation for each in right}
        if names:
            raise UnportableError("two relations of one name", _place(join.source))
        Expressions((*left, *right)).condition(join.on)
        return (*left, *right)

    def _source(self, source: Source) -> Columns:
        match source:
            case NamedTable(columns=(), versioned=False, time=None):
                known = self._tables.get(source.name)
                if known is None:
                    raise UnportableError(f"there is no table {source.name}", source.place)
                relation = source.alias or source.name
            case Derived(columns=(), lateral=False, alias=str(relation)) if not isinstance(
                source.query, From
            ):
                known = self.query(source.query)
            case _:
                raise UnportableError(
                    "a relation that is no table and no query with a name", _place(source)
                )
        return tuple(each._replace(relation=relation) for each in known)


def _output(item: SelectItem, values: Expressions) -> PortableColumn:
    if len(item.aliases) > 1:
        raise UnportableError("an item with several names", item.place)
    value = values.value(item.value)
    if value.kind is None:
        raise UnportableError(
            "a number as it is written, which is an INT in Spark and a BIGINT in DataFusion: give "
            "it a type by CAST",
            item.place,
        )
    if not item.aliases and not isinstance(item.value, Column):
        raise UnportableError("an item without a name: write AS", place_of(item.value))
    name = item.aliases[0] if item.aliases else item.value.name  # type: ignore[union-attr]
    return PortableColumn(None, name, value)


def _join_keys(source: From, where: Expr | None) -> Iterator[Expr]:
    """Yield what DataFusion may compare by: both sides of each equality of a join or of WHERE."""
    for each in (*(join.on for join in source.joins), where):
        if each is not None:
            yield from _equal_values(each)


def _equal_values(on: Expr) -> Iterator[Expr]:
    if isinstance(on, Operation) and on.op == "and":
        for each in on.args:
            yield from _equal_values(each)
    elif isinstance(on, Operation) and on.op == "=":
        yield from on.args


def _united(one: PortableColumn, other: PortableColumn) -> PortableColumn:
    a, b = one.value, other.value
    if a is None or b is None or a.kind != b.kind:
        raise UnportableError(f"UNION ALL of columns of unlike types: {one.name}, {other.name}")
    both = PortableValue(a.kind, min(a.low, b.low), max(a.high, b.high), a.signed or b.signed)
    return PortableColumn(None, one.name, both)


def _check_key(value: PortableValue | None, at: Expr | None) -> None:
    if value is None or value.signed or value.kind == DOUBLE:
        raise UnportableError("GROUP BY or DISTINCT of floating-point numbers", at)


def _place(source: Source) -> TextPlace | None:
    return source.place if isinstance(source, NamedTable) else None
