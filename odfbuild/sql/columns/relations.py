"""Columns of a query from those of its sources, by Spark's scoping rules.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from odfbuild.sql.columns.argument_types import mismatch
from odfbuild.sql.columns.constants import ConstantFailure
from odfbuild.sql.columns.expressions import Calls, output_name
from odfbuild.sql.columns.functions import AGGREGATES
from odfbuild.sql.columns.output import Attribute, OpenPart, RelationColumns, unknown_rows
from odfbuild.sql.columns.scope import NameScope, Resolution
from odfbuild.sql.columns.structs import generated, wrong_names
from odfbuild.sql.columns.types import TIMES, UNKNOWN, Value, are_unlike, cast, wider
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.shape import (
    Call,
    Cast,
    Column,
    Derived,
    Expr,
    From,
    GroupBy,
    Inline,
    Join,
    Literal,
    NamedTable,
    OpaqueRelation,
    Pivot,
    QueryShape,
    RowGenerator,
    Select,
    SelectItem,
    SetQuery,
    Source,
    StarExpr,
    Unknown,
    walk,
)
from odfbuild.sql.text.types import Interval

Tables: TypeAlias = Mapping[str, RelationColumns]


class Relations(Calls):
    """Reads queries; `table` returns the columns of an input or an earlier step by its name.

    `opaque` are the forms that were found but not understood.
    """

    def __init__(self, table: Callable[[str, str], RelationColumns]) -> None:
        super().__init__()
        self.table = table
        self.star_inputs: set[str] = set()
        self.opaque: list[str] = []
        self.common: Tables = {}

    def query(self, query: QueryShape, outer: NameScope | None = None) -> RelationColumns:
        """Return the columns of a query."""
        if isinstance(query, Unknown):
            self.opaque.append(query.why)
            return unknown_rows()
        before = self.common
        for part in query.with_:
            self.common = {**self.common, part.name: self._common(part.name, query, outer)}
        try:
            return (
                self._select(query, outer) if isinstance(query, Select) else self._set(query, outer)
            )
        finally:
            self.common = before

    def subquery(self, query: QueryShape, outer: NameScope) -> RelationColumns:
        return self.query(query, outer)

    def _common(
        self, name: str, query: Select | SetQuery, outer: NameScope | None
    ) -> RelationColumns:
        part = next(each for each in query.with_ if each.name == name)
        if query.recursive:
            self.opaque.append("WITH RECURSIVE")
            self.common = {**self.common, name: unknown_rows()}
        rows = self.query(part.query, outer)
        return unknown_rows() if query.recursive else rows.named(None, part.columns)

    # SELECT

    def _select(self, select: Select, outer: NameScope | None) -> RelationColumns:
        rows = RelationColumns([]) if select.source is None else self._from(select.source, outer)
        scope = NameScope(rows, outer)
        if select.where is not None:
            self.condition(select.where, scope)
        if select.group is not None:
            self._windows_of(select.group, scope)
        for _, over in select.windows:
            self.over(over, scope)
        given = self._outputs(select.outputs, scope)
        if select.group is not None:
            self._group(select.group, select, given, scope)
        self._after(select, given, scope)
        self.opaque += [each.text for each in select.foreign]
        return given

    def _outputs(self, outputs: Sequence[SelectItem], scope: NameScope) -> RelationColumns:
        """Read the items of a SELECT list; each can name the ones before it."""
        given = RelationColumns([])
        for output in outputs:
            value = output.value
            if isinstance(value, StarExpr):
                self._expand(value, scope, given)
            elif isinstance(value, Call) and value.name in GENERATORS and value.over is None:
                self._add_generated(output, value, scope, given)
            else:
                name = output.aliases[0] if output.aliases else output_name(value)
                made, sources = self.sourced(value, scope)
                place, copied = self.placed(output.place), _is_copy(value, scope)
                column = Attribute(name, made, sources, None, place, copied)
                given.columns.append(column)
                if output.aliases:
                    scope.aliases.setdefault(name, column)
        return given

    def _expand(self, star: StarExpr, scope: NameScope, given: RelationColumns) -> None:
        before, self.into = self.into, set()
        found = self.expanded(star, scope)
        inside, self.into = frozenset(ref.input for ref in self.into), before
        rows = scope.rows
        name = star.qualifier[0] if star.qualifier else None
        self.star_inputs |= {
            base for qualifier, base in rows.bases.items() if name in {None, qualifier}
        }
        place = self.placed(star.place)
        if found is None:
            given.open += unknown_rows(inside).open
            return
        given.columns += [each._replace(place=place) for each in found.columns]
        given.open += found.open
        self.star_inputs |= {each for part in found.open for each in part.inputs}

    def _add_generated(
        self, output: SelectItem, call: Call, scope: NameScope, given: RelationColumns
    ) -> None:
        rows = self._rows_of(call, output.aliases, scope, outer=False)
        given.columns += [e._replace(place=self.placed(output.place)) for e in rows.columns]
        given.open += rows.open

    def _rows_of(
        self, call: Call, names: Sequence[str], scope: NameScope, *, outer: bool
    ) -> RelationColumns:
        """Return the columns of a generator; its arguments decide on rows, too."""
        before, self.into = self.into, set()
        args = self.values(call.args, scope)
        self.note_types(call.name, call.args, args, call.place)
        if (wrong := wrong_names(call, args, names)) is not None:
            fix = "give it as many names as columns, or none"
            failure = ConstantFailure(wrong, fix, typed=True)
            self.note_failure(failure, call.place)
        sources, self.into = frozenset(self.into), before
        self.shaping |= sources
        columns = generated(call, args, names, outer=outer)
        made = [Attribute(name, value, sources) for name, value in columns]
        inputs = frozenset(ref.input for ref in sources)
        return (
            RelationColumns(made)
            if made
            else RelationColumns([], open=[OpenPart(None, inputs, sources)])
        )

    # Grouping, and what comes after the SELECT list

    def _windows_of(self, group: GroupBy, scope: NameScope) -> None:
        """Make the event-time windows of GROUP BY available as `window.start`."""
        for key in group.keys:
            if isinstance(key, Call) and key.name in {"window", "session_window"}:
                value, sources = self.sourced(key, scope)
                scope.aliases.setdefault(key.name, Attribute(key.name, value, sources))

    def _group(
        self, group: GroupBy, select: Select, given: RelationColumns, scope: NameScope
    ) -> None:
        if group.all:
            for output, each in zip(select.outputs, given.columns, strict=False):
                if not _aggregates(output.value):
                    self.shaping |= each.sources
        for key in group.keys:
            self._key(key, given, scope)
        if group.sets:
            given.columns[:] = [each.nulled() for each in given.columns]

    def _key(self, key: Expr, given: RelationColumns, scope: NameScope) -> None:
        """Read a grouping key: a column, a place in the SELECT list, or the alias of an item."""
        if isinstance(key, Literal) and key.kind == "integer":
            if 0 < int(key.text) <= len(given.columns) and not given.open:
                self.shaping |= given.columns[int(key.text) - 1].sources
        else:
            self.shape([key], scope)

    def _after(self, select: Select, given: RelationColumns, scope: NameScope) -> None:
        named = {each.name: each for each in given.columns if each.name}
        after = NameScope(scope.rows, scope.outer, {**scope.aliases, **named})
        if select.having is not None:
            self.shape([select.having], after)
            self._aliases_in(select.having, named)
        if select.qualify is not None:
            self.shape([select.qualify], after)
        first = NameScope(scope.rows, scope.outer, after.aliases, first=True)
        self._order(select.order, given, first)
        self.shape(select.spread, first)
        if select.distinct:
            self.shaping |= {ref for each in given.columns for ref in each.sources}

    def _aliases_in(self, having: Expr, named: Mapping[str, Attribute]) -> None:
        """Record the items that HAVING may name by an alias, as well as columns of that name."""
        for each in walk(having):
            if isinstance(each, Column) and each.parts[0] in named:
                self.shaping |= named[each.parts[0]].sources

    def _order(self, order: Sequence[Expr], given: RelationColumns, scope: NameScope) -> None:
        for key in order:
            if isinstance(key, Literal) and key.kind == "integer":
                self._ordinal(int(key.text), given)
            elif isinstance(key, Literal) and key.kind == "word":
                self.shaping |= {ref for each in given.columns for ref in each.sources}
            else:
                self.shape([key], scope)

    def _ordinal(self, number: int, given: RelationColumns) -> None:
        if 0 < number <= len(given.columns) and not given.open:
            self.shaping |= given.columns[number - 1].sources

    # FROM

    def _from(self, source: From, outer: NameScope | None) -> RelationColumns:
        rows = self._source(source.source, None, outer)
        for join in source.joins:
            rows = self._join(rows, join, outer)
        for view in source.views:
            rows = rows.joined_with(self._source(view, rows, outer))
        return rows

    def _source(
        self, source: Source, left: RelationColumns | None, outer: NameScope | None
    ) -> RelationColumns:
        match source:
            case NamedTable():
                return self._named_table(source)
            case Derived(query=From() as inner):
                rows = self._from(inner, outer)
                return rows if source.alias is None else rows.named(source.alias, source.columns)
            case Derived(query=query) if not isinstance(query, From):
                around = NameScope(left, outer) if source.lateral and left is not None else outer
                return self.query(query, around).named(source.alias, source.columns)
            case RowGenerator(call=Call() as call) if call.name in GENERATORS:
                scope = NameScope(left or RelationColumns([]), outer)
                names = source.columns
                return self._rows_of(call, names, scope, outer=source.outer).named(source.alias)
            case RowGenerator(call=call):
                self.shape([call], NameScope(left or RelationColumns([]), outer))
                self.opaque.append("a table function")
            case Inline(alias=alias, names=names):
                return RelationColumns(
                    [Attribute(each, UNKNOWN, frozenset(), alias) for each in names]
                )
            case OpaqueRelation(why=why, inside=inside):
                self.opaque.append(why)
                rows = RelationColumns([]) if inside is None else self._source(inside, left, outer)
                if isinstance(source, Pivot):
                    self.shape(source.values, NameScope(rows, outer))
        return unknown_rows()

    def _named_table(self, source: NamedTable) -> RelationColumns:
        common = self.common.get(source.name)
        qualifier = source.alias or source.name
        if common is not None:
            return common.named(qualifier, source.columns)
        rows = self.table(source.name, qualifier)
        return rows.named(qualifier, source.columns) if source.columns else rows

    def _join(self, left: RelationColumns, join: Join, outer: NameScope | None) -> RelationColumns:
        right = self._source(join.source, left, outer)
        keys = join.using
        if join.natural:
            theirs = {each.name for each in right.columns}
            keys = tuple(each.name for each in left.columns if each.name in theirs)
        if isinstance(join.source, NamedTable) and join.source.time is not None:
            self.shape([join.source.time], NameScope(left, outer))
        if join.on is not None:
            self.condition(join.on, NameScope(left.joined_with(right), outer))
        if join.natural and (left.open or right.open):
            return unknown_rows(left.inputs | right.inputs)
        if keys:
            return self._using(left, right, keys, join)
        match join.kind:
            case "semi" | "anti":
                return left
            case "left":
                return left.joined_with(right.nulled())
            case "right":
                return left.nulled().joined_with(right)
            case "full":
                return left.nulled().joined_with(right.nulled())
        return left.joined_with(right)

    def _using(
        self, left: RelationColumns, right: RelationColumns, keys: Sequence[str], join: Join
    ) -> RelationColumns:
        """Join by columns of the same names, which come first and once."""
        scopes = NameScope(left), NameScope(right)
        for key in keys:
            for scope in scopes:
                self.shape([Column((key,))], scope)
        if join.kind in {"semi", "anti"}:
            return left
        left = left.nulled() if join.kind in {"right", "full"} else left
        right = right.nulled() if join.kind in {"left", "full"} else right
        return left.merged(right, keys, join.kind)

    # UNION, INTERSECT, EXCEPT

    def _set(self, query: SetQuery, outer: NameScope | None) -> RelationColumns:
        left, right = self.query(query.left, outer), self.query(query.right, outer)
        self.opaque += [each.text for each in query.foreign]
        given = self._union_columns(query, left, right)
        if query.distinct or query.kind != "union":
            both = (*left.columns, *right.columns)
            self.shaping |= {ref for each in both for ref in each.sources}
        named = {each.name: each for each in given.columns if each.name}
        self._order(
            query.order,
            given,
            NameScope(RelationColumns(given.columns, open=given.open), None, named),
        )
        return given

    def _union_columns(
        self, query: SetQuery, left: RelationColumns, right: RelationColumns
    ) -> RelationColumns:
        theirs = right.columns
        if query.by_name and not (left.open or right.open):
            order = {each.name: each for each in right.columns}
            theirs = [order[each.name] for each in left.columns if each.name in order]
        if left.open or right.open or len(left.columns) != len(theirs):
            return unknown_rows(left.inputs | right.inputs)
        pairs = list(zip(left.columns, theirs, strict=True))
        for mine, other in pairs:
            if are_unlike(mine.value.kind, other.value.kind) or mismatch(
                "case", [Column(()), Column(())], [mine.value, other.value]
            ):
                failure = ConstantFailure(
                    f"the two sides of {query.kind.upper()} have no common type for '{mine.name}'",
                    "cast one of them to the type of the other",
                    typed=True,
                )
                self.note_failure(failure, None if other.place is None else other.place[1])
        return RelationColumns([_both(query.kind, mine, other) for mine, other in pairs])


def _both(kind: str, mine: Attribute, other: Attribute) -> Attribute:
    """Return the column of a set operation, from one column of each operand."""
    widest = wider(mine.value.kind, other.value.kind)
    sources = mine.sources if kind == "except" else mine.sources | other.sources
    if widest is None or isinstance(widest, Interval):
        return Attribute(mine.name, UNKNOWN, sources, None, mine.place)
    nulls = [cast(each.value, widest).nullable for each in (mine, other)]
    nullable = {"union": any(nulls), "intersect": all(nulls)}.get(kind, nulls[0])
    copied = mine.copied and other.copied and mine.value.kind == other.value.kind
    return Attribute(mine.name, Value(widest, nullable), sources, None, mine.place, copied)


def _is_copy(expr: Expr, scope: NameScope) -> bool:
    """Return whether an expression is an unchanged input column, or its cast to a time type."""
    if isinstance(expr, Cast) and not expr.safe and expr.type in TIMES:
        of = expr.value
        found = scope.resolve(of.parts) if isinstance(of, Column) else None
        timed = isinstance(found, Resolution) and found.value.kind in TIMES
        return _is_null(of) or (timed and _is_copy(of, scope))
    found = scope.resolve(expr.parts) if isinstance(expr, Column) else None
    return isinstance(found, Resolution) and found.copied


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.kind == "null"


def _aggregates(expr: Expr) -> bool:
    return any(isinstance(e, Call) and e.name in AGGREGATES and not e.over for e in walk(expr))
