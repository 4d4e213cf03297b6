"""Columns of a query in DataFusion's dialect: their names, and the columns of inputs behind them.

Pure.  Columns have no types here: those come from the engine, which is in the process.  A query of
which a name has no certain meaning is not understood: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odfbuild.odf.events import DataSchema, DataTypeList
from odfbuild.sql.columns.output import Attribute, RelationColumns
from odfbuild.sql.columns.relations import Relations
from odfbuild.sql.columns.scope import NameScope, Resolution
from odfbuild.sql.columns.types import UNKNOWN, Value
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Derived,
    Expr,
    Field,
    Join,
    Literal,
    NamedTable,
    Operation,
    QueryShape,
    ReplacingStar,
    Select,
    SelectItem,
    SetQuery,
    Source,
    StarExpr,
    Subquery,
    Unknown,
)
from odfbuild.sql.text.statement import DataFusionStatement
from odfbuild.sql.text.steps import QueryStep

_ROWS = frozenset({"unnest", "explode"})
"""Functions that give a row for each member of a list, and a column for each field of a struct."""


def flow_shape(step: QueryStep, inputs: Mapping[str, DataSchema | None]) -> QueryShape:
    """Return the shape in which columns pass through a step.  Raises SqlTextError.

    A word that may be a column of an input, and that the shape does not have, makes it Unknown.
    """
    statement = step.statement
    assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
    known = {each.name for schema in inputs.values() if schema for each in schema.fields}
    stray = next((each for each in sorted(statement.stray) if each in known), None)
    return statement.flow if stray is None else Unknown(f"the word '{stray}'")


class FlowRelations(Relations):
    """Reads queries in DataFusion's dialect; see `Relations`.

    The order of columns behind a star over USING is not known, so such a query may not assign
    columns by their position.
    """

    def __init__(self, table: Callable[[str, str], RelationColumns]) -> None:
        super().__init__(table)
        self._unordered = self._positional = False

    @property
    def doubt(self) -> str | None:
        """Why the query is not understood; None if it is."""
        if self.opaque:
            return self.opaque[0]
        if self.unknown_columns:
            return f"the name '{self.unknown_columns[0].name}'"
        if self._unordered and self._positional:
            return "the order of the columns of a join by USING"
        return None

    # SELECT

    def _outputs(self, outputs: Sequence[SelectItem], scope: NameScope) -> RelationColumns:
        """Read the items of a SELECT list; none can name another."""
        given = RelationColumns([])
        for output in outputs:
            value = output.value
            if isinstance(value, StarExpr):
                self._unordered |= bool(scope.rows.hidden)
                first = len(given.columns)
                self._expand(value, scope, given)
                if isinstance(value, ReplacingStar):
                    self._replace(value, scope, given, first)
                continue
            made, sources = self.sourced(value, scope)
            name = output.aliases[0] if output.aliases else self._own_name(value, scope)
            found = scope.resolve(value.parts) if isinstance(value, Column) else None
            copied = isinstance(found, Resolution) and found.copied
            given.columns.append(
                Attribute(name, made, sources, None, self.placed(output.place), copied)
            )
        return given

    def _replace(
        self, star: ReplacingStar, scope: NameScope, given: RelationColumns, first: int
    ) -> None:
        """Give columns of a star, which begin at a place, the values that replace them."""
        for item in star.replaced:
            (name,) = item.aliases
            made, sources = self.sourced(item.value, scope)
            at = [n for n, e in enumerate(given.columns) if n >= first and e.name == name]
            if len(at) != 1 or given.open:
                self.opaque.append("a star that replaces columns")
                return
            place = self.placed(item.place)
            given.columns[at[0]] = Attribute(name, made, sources, None, place)

    def _own_name(self, value: Expr, scope: NameScope) -> str:
        """Return the name of an item without alias; empty where it is that of an expression."""
        if not isinstance(value, Column) or len(value.parts) > 2:
            return ""
        of_relation = len(value.parts) == 1 or scope.rows.relation(value.parts[0]) is not None
        return value.name if of_relation else ""

    def _key(self, key: Expr, given: RelationColumns, scope: NameScope) -> None:
        if isinstance(key, Literal):
            self._positional = True
        named = {each.name: each for each in given.columns if each.name}
        super()._key(key, given, NameScope(scope.rows, scope.outer, named))
        self._shape_named(key, given)

    def _after(self, select: Select, given: RelationColumns, scope: NameScope) -> None:
        super()._after(select, given, scope)
        for each in (select.qualify, *select.order, *select.spread):
            if each is not None:
                self._shape_named(each, given)
        for each in (*select.order, *select.spread):  # they may be columns that items hide
            self._shape_behind(each, scope)

    def _shape_behind(self, expr: Expr, scope: NameScope) -> None:
        """Read an expression whose names may be those of items, or of columns behind them."""
        known = len(self.unknown_columns)
        self.shape([expr], scope)
        del self.unknown_columns[known:]

    def _shape_named(self, expr: Expr, given: RelationColumns) -> None:
        self._aliases_in(expr, {each.name: each for each in given.columns if each.name})

    def _ordinal(self, number: int, given: RelationColumns) -> None:
        self._positional = True
        super()._ordinal(number, given)

    # FROM

    def _using(
        self, left: RelationColumns, right: RelationColumns, keys: Sequence[str], join: Join
    ) -> RelationColumns:
        rows = super()._using(left, right, keys, join)
        return rows if join.kind in {"semi", "anti"} else left.merged(right, keys, "full")

    def _common(
        self, name: str, query: Select | SetQuery, outer: NameScope | None
    ) -> RelationColumns:
        self._positional |= any(each.columns for each in query.with_)
        return super()._common(name, query, outer)

    def _set(self, query: SetQuery, outer: NameScope | None) -> RelationColumns:
        self._positional |= not query.by_name
        return super()._set(query, outer)

    def _union_columns(
        self, query: SetQuery, left: RelationColumns, right: RelationColumns
    ) -> RelationColumns:
        """Unite columns by name: those of one side alone are null in rows of the other."""
        if not query.by_name or left.open or right.open:
            return super()._union_columns(query, left, right)
        found: dict[str, Attribute] = {}
        for side in (left, right):
            names = [each.name for each in side.columns]
            if "" in names or len({*names}) < len(names):
                self.opaque.append("UNION BY NAME of columns without names of their own")
                return RelationColumns([])
            for each in side.columns:
                other = found.get(each.name)
                sources = each.sources if other is None else other.sources | each.sources
                place = each.place if other is None else other.place
                found[each.name] = Attribute(each.name, UNKNOWN, sources, None, place)
        return RelationColumns(list(found.values()))

    def _source(
        self, source: Source, left: RelationColumns | None, outer: NameScope | None
    ) -> RelationColumns:
        self._positional |= isinstance(source, NamedTable | Derived) and bool(source.columns)
        return super()._source(source, left, outer)

    # Values

    def value(self, expr: Expr, scope: NameScope) -> Value:
        match expr:
            case Column():
                return self.column(expr, scope)
            case StarExpr():
                return self.star(expr, scope)
            case Call():
                return self.call(expr, scope)
            case Operation(args=args):
                self.values(args, scope)
            case Field(value=inside):
                self.value(inside, scope)
            case Subquery():
                self.inner(expr, scope)
            case Literal():
                pass
            case _:
                self.opaque.append("a part of the query")
        return UNKNOWN

    def subquery(self, query: QueryShape, outer: NameScope) -> RelationColumns:
        rows = super().subquery(query, outer)
        if rows.open:
            self.opaque.append("a subquery whose columns are not known")
        return rows

    def call(self, expr: Call, scope: NameScope) -> Value:
        before, self.into = self.into, set()
        args = self.values([each for each in expr.args if not _is_rows(expr, each)], scope)
        used, self.into = self.into, before
        self.into |= used
        if expr.name in _ROWS:
            self.shaping |= used
            if not all(isinstance(each.kind, DataTypeList) for each in args):
                self.opaque.append(f"{expr.name}() of what may be a struct")
        if expr.over is not None:
            self.over(expr.over, scope)
        return UNKNOWN


def _is_rows(call: Call, arg: Expr) -> bool:
    """Tell whether an argument is the star of `count(*)`, which reads no column."""
    return call.name == "count" and isinstance(arg, StarExpr) and not arg.qualifier
