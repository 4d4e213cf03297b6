"""Shape of one statement, from the parser's tree.

Knows sqlglot; imported when a text is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from odfbuild.sql.text.shape import (
    Call,
    Column,
    CommonTable,
    Derived,
    Expr,
    From,
    GroupBy,
    Inline,
    Join,
    Name,
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
    TextPlace,
    Unknown,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.tokens import place_of
from odfbuild.sql.text.tree_values import TreeWalk
from odfbuild.values import dataclass

_KNOWN = frozenset(
    {"expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify", "order"}
    | {"sort", "cluster", "distribute", "windows", "distinct", "limit", "offset", "with_", "hint"}
)
_KNOWN_OF_SET = frozenset(
    {"this", "expression", "distinct", "by_name", "order", "limit", "offset", "with_"}
)
_SOURCE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "version", "with_"})
_CLAUSES = {"sample": "TABLESAMPLE", "pivots": "PIVOT", "connect": "CONNECT BY"}
_KINDS = {"SEMI": "semi", "ANTI": "anti", "CROSS": "cross"}
_SIDES = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The shape of a statement, and the names that were met on the way.

    `alias_lists` are the offsets of the first names in column lists of relations; `stars` the
    parser's stars, each with the SELECT that it is in and its qualified form.
    """

    query: QueryShape
    tables: tuple[Name, ...]
    columns: tuple[Name, ...]
    aliases: tuple[Name, ...]
    relations: frozenset[str]
    alias_lists: tuple[int, ...]
    stars: tuple[tuple[Any, Any], ...]
    selects: int
    windows: bool


def gather(tree: Any) -> Gathered:
    """Return what the tree of a statement says.  Raises SqlTextError."""
    shaper = Shaper()
    query = shaper.query(tree)
    return Gathered(
        query=query,
        tables=tuple(sorted(shaper.tables, key=lambda name: name.place.start)),
        columns=tuple(shaper.columns),
        aliases=tuple(shaper.aliases),
        relations=frozenset(shaper.relations),
        alias_lists=tuple(shaper.alias_lists),
        stars=tuple(shaper.stars),
        selects=shaper.selects,
        windows=shaper.windows,
    )


class Shaper(TreeWalk):
    """One walk over the tree; `local` are the common table expressions in scope."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Name] = []
        self.relations: set[str] = set()
        self.alias_lists: list[int] = []
        self.local: frozenset[str] = frozenset()
        self.selects = 0

    # Queries

    def query(self, node: Any) -> QueryShape:
        before, select = self.local, self.select
        with_ = self._with(node)
        recursive = bool(with_) and bool(node.args["with_"].args.get("recursive"))
        try:
            if isinstance(node, exp.Select):
                return self._select(node, with_, recursive)
            if isinstance(node, exp.SetOperation):
                return self._set(node, with_, recursive)
            if isinstance(node, exp.Subquery):
                return self._nested_query(node, with_, recursive)
            return Unknown(type(node).__name__, ())
        finally:
            self.local, self.select = before, select

    def _with(self, node: Any) -> tuple[CommonTable, ...]:
        with_ = node.args.get("with_")
        parts = []
        for each in with_.expressions if with_ else ():
            if with_.args.get("recursive"):
                self.local |= {each.alias}
            place = place_of(each.args["alias"].this)
            part = CommonTable(each.alias, self._list(each), self.query(each.this), place)
            parts.append(part)
            self.relations.add(each.alias)
            self.local |= {each.alias}
        return tuple(parts)

    def _nested_query(
        self, node: Any, with_: tuple[CommonTable, ...], recursive: bool
    ) -> QueryShape:
        """Read a query in parentheses; clauses behind them make a query around it."""
        self.relations.add(node.alias_or_name)
        foreign = tuple(_foreign(node, frozenset({"this", "alias", "order", "limit", "with_"})))
        if not (with_ or foreign or node.args.get("order") or node.args.get("limit")):
            return self.query(node.this)
        inner = From(Derived(self.query(node.this), None, ()))
        return Select(
            outputs=(SelectItem(StarExpr((), (), None), (), None),),
            source=inner,
            order=self._order(node),
            counts=self._counts(node),
            with_=with_,
            recursive=recursive,
            foreign=foreign,
        )

    def _select(self, node: Any, with_: tuple[CommonTable, ...], recursive: bool) -> Select:
        self.selects += 1
        self.select = node
        args = node.args
        where, having, qualify = args.get("where"), args.get("having"), args.get("qualify")
        spread = (args.get(each) for each in ("sort", "distribute", "cluster"))
        return Select(
            source=self._from(node),
            outputs=tuple([self._output(each) for each in args["expressions"]]),
            where=None if where is None else self.expression(where.this),
            group=self._group(args.get("group")),
            having=None if having is None else self.expression(having.this),
            qualify=None if qualify is None else self.expression(qualify.this),
            order=self._order(node),
            spread=tuple(e for each in spread if each for e in self.expressions(each.expressions)),
            windows=tuple((w.this.name, self.over(w)) for w in args.get("windows") or ()),
            distinct=bool(args.get("distinct")),
            counts=self._counts(node),
            with_=with_,
            recursive=recursive,
            foreign=tuple(_foreign(node, _KNOWN)),
        )

    def _set(self, node: Any, with_: tuple[CommonTable, ...], recursive: bool) -> SetQuery:
        return SetQuery(
            kind=type(node).__name__.lower(),
            left=self.query(node.this),
            right=self.query(node.expression),
            distinct=bool(node.args.get("distinct")),
            by_name=bool(node.args.get("by_name")),
            order=self._order(node),
            counts=self._counts(node),
            with_=with_,
            recursive=recursive,
            foreign=tuple(_foreign(node, _KNOWN_OF_SET)),
        )

    def _order(self, node: Any) -> tuple[Expr, ...]:
        order = node.args.get("order")
        return () if order is None else self.expressions(order.expressions)

    def _counts(self, node: Any) -> tuple[Expr, ...]:
        given = (node.args.get(each) for each in ("limit", "offset"))
        return self.expressions([each.expression for each in given if each])

    def _output(self, node: Any) -> SelectItem:
        if isinstance(node, exp.Alias):
            name = self.named(node)
            return SelectItem(self.expression(node.this), (name,), place_of(node.args["alias"]))
        if isinstance(node, exp.Aliases):
            value = self.expression(node.this)
            names = node.expressions
            return SelectItem(value, tuple(n.name for n in names), place_of(names[0]))
        value = self.expression(node)
        return SelectItem(value, (), _place(value))

    def _group(self, node: Any) -> GroupBy | None:
        if node is None:
            return None
        keys: list[Expr] = []
        sets = any(node.args.get(each) for each in ("rollup", "cube", "grouping_sets"))
        for each in node.expressions:
            if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                sets = True
                keys += self._flat(each.expressions)
            else:
                keys.append(self.expression(each))
        for part in ("rollup", "cube", "grouping_sets"):
            for each in node.args.get(part) or ():
                keys += self._flat(each.expressions if each is not True else ())
        return GroupBy(tuple(keys), sets, bool(node.args.get("all")))

    def _flat(self, nodes: Any) -> Iterator[Expr]:
        for each in nodes:
            if isinstance(each, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
                yield from self._flat(each.expressions)
            else:
                yield self.expression(each)

    # Sources

    def _from(self, node: Any) -> From | None:
        source = node.args.get("from_")
        if source is None:
            return None
        return From(
            self._source(source.this),
            tuple([self._join(each) for each in node.args.get("joins") or ()]),
            tuple(
                [
                    each
                    for each in map(self._lateral, node.args.get("laterals") or ())
                    if isinstance(each, RowGenerator)
                ]
            ),
        )

    def _join(self, node: Any) -> Join:
        args = node.args
        kind = _KINDS.get(args.get("kind") or "") or _SIDES.get(args.get("side") or "", "inner")
        on = args.get("on")
        return Join(
            self._source(node.this),
            kind,
            None if on is None else self.expression(on),
            tuple(each.name for each in args.get("using") or ()),
            args.get("method") == "NATURAL",
        )

    def _source(self, node: Any) -> Source:
        source = self._plain(node)
        joins = node.args.get("joins")
        if any(_foreign(node, _SOURCE_PARTS)) and not isinstance(node, exp.Lateral | exp.Values):
            source = self._opaque_relation(node, next(_foreign(node, _SOURCE_PARTS)).text, source)
        if joins and not isinstance(node, exp.Subquery):
            return Derived(From(source, tuple([self._join(each) for each in joins])), None, ())
        return source

    def _opaque_relation(self, node: Any, clause: str, source: Source) -> OpaqueRelation:
        """Read a relation with a clause behind it that changes its columns or rows."""
        pivots: list[Any] = node.args.get("pivots") or []
        if len(pivots) != 1 or pivots[0].args.get("unpivot"):
            return OpaqueRelation(clause, source)
        named = [e.this if isinstance(e, exp.Alias) else e for e in pivots[0].expressions]
        turned = [each.this for each in pivots[0].args.get("fields") or []]
        return Pivot(clause, source, tuple(self.expressions([*named, *turned])))

    def _plain(self, node: Any) -> Source:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            self.relations.add(node.alias_or_name)
            return RowGenerator(self.expression(node.this), node.alias or None, self._list(node))
        if isinstance(node, exp.Lateral):
            return self._lateral(node)
        if isinstance(node, exp.Subquery):
            return self._derived_source(node)
        if isinstance(node, exp.Values):
            return self._inline(node)
        return OpaqueRelation(type(node).__name__)

    def _inline(self, node: Any) -> OpaqueRelation:
        """Read VALUES: rows of as many columns as its first one, each as wide as all others."""
        self.expressions(node.expressions)
        widths = {len(e.expressions) if isinstance(e, exp.Tuple) else 1 for e in node.expressions}
        if len(widths) != 1:
            return OpaqueRelation("VALUES")
        names = tuple(f"col{number}" for number in range(1, widths.pop() + 1))
        listed = self._list(node) or names
        if len(listed) != len(names):
            return OpaqueRelation("VALUES")
        return Inline("VALUES", None, node.alias or None, listed)

    def _table(self, node: Any) -> NamedTable:
        parts = node.parts
        name = ".".join(part.name for part in parts)
        first, last = place_of(parts[0]), parts[-1].meta
        length = last.get("end", 0) + 1 - first.start
        place = TextPlace(first.start, length, first.line, first.column)
        if node.db or name not in self.local:
            self.tables.append(Name(name, place, node.db or None))
        self.relations.add(node.alias_or_name)
        version = node.args.get("version")
        time = None if version is None else self._time_of(version, place)
        versioned = version is not None
        return NamedTable(name, node.alias or None, self._list(node), place, versioned, time)

    def _time_of(self, version: Any, place: TextPlace) -> Expr:
        """Read what a table is read as of, which the parser lets be left out."""
        if version.expression is None:
            what = "FOR SYSTEM_TIME AS OF is followed by no time"
            raise SqlTextError("syntax-error", what, place)
        return self.expression(version.expression)

    def _derived_source(self, node: Any) -> Source:
        self.relations.add(node.alias_or_name)
        inner = node.this
        if isinstance(inner, exp.Query) and not isinstance(inner, exp.Subquery):
            return Derived(self.query(inner), node.alias or None, self._list(node))
        if isinstance(inner, exp.Subquery) and not node.args.get("joins"):
            if not node.alias:
                return self._source(inner)
            query = From(self._source(inner))
            return Derived(query, node.alias, self._list(node))
        joins = tuple([self._join(each) for each in node.args.get("joins") or ()])
        return Derived(From(self._source(inner), joins), node.alias or None, self._list(node))

    def _lateral(self, node: Any) -> RowGenerator | Derived:
        alias, inner = node.args.get("alias"), node.this
        name = alias.name if alias else None
        columns = tuple(each.name for each in alias.columns) if alias else ()
        if isinstance(inner, exp.Subquery):
            return Derived(self.query(inner.this), name, columns, lateral=True)
        call = self.expression(inner)
        view, outer = bool(node.args.get("view")), bool(node.args.get("outer"))
        return RowGenerator(call, name, columns, outer=outer, view=view)

    def _list(self, node: Any) -> tuple[str, ...]:
        """Return the column list of a relation's alias."""
        alias = node.args.get("alias")
        columns = alias.columns if isinstance(alias, exp.TableAlias) else ()
        if columns:
            self.alias_lists.append(columns[0].meta["start"])
        return tuple(each.name for each in columns)


def _foreign(node: Any, known: frozenset[str]) -> Iterator[Name]:
    for part, value in node.args.items():
        if value and part not in known:
            turned = part == "pivots" and value[0].args.get("unpivot")
            clause = "UNPIVOT" if turned else _CLAUSES.get(part, part.strip("_").upper())
            yield Name(clause, TextPlace(0, 1, 1, 1))


def _place(value: Expr) -> TextPlace | None:
    """Return where an expression begins, as far as it is known."""
    return next(
        (e.place for e in walk(value) if isinstance(e, Column | Call | StarExpr) and e.place), None
    )
