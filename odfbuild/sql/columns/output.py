"""Output columns of a relation: their names, types and identities.  Pure.

Everything that passes a name through a query (a star, an alias, a subquery, a join) follows these
rules, so that a name means the same column to all classes of queries and to the lineage of columns.
Letter case counts, as is set for the engine.  A relation with unknown columns is open.  Only what
can be proven is returned: an ambiguous name has no token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from odfbuild.odf.events import DataSchema
from odfbuild.sql.columns.types import Value, wider
from odfbuild.sql.text.shape import StarExpr, TextPlace
from odfbuild.sql.text.types import as_read, unwrapped
from odfbuild.values import dataclass

Token: TypeAlias = int
"""The identity of a column, from the inputs on: columns with equal tokens are equal in a row."""


class ColumnRef(NamedTuple):
    """A column of an input, under the name by which the query reads the input."""

    input: str
    column: str


class Attribute(NamedTuple):
    """A column in scope; `sources` are the input columns that its values are computed from.

    With `copied` the values are unchanged.  `token` identifies the column, and the use of its
    input; None for a computed one.  `name` is empty where only the engine determines it.
    """

    name: str
    value: Value
    sources: frozenset[ColumnRef]
    qualifier: str | None = None
    place: tuple[int, TextPlace] | None = None
    copied: bool = False
    token: Token | None = None

    def nulled(self) -> Attribute:
        return self if self.value.nullable else self._replace(value=self.value.or_null())


class OpenPart(NamedTuple):
    """A relation with unknown columns, which are those of these inputs.

    `origins`, if there are any, are the columns that all of its columns are computed from instead.
    `without` are columns that it does not have, `merged` those that need its qualifier.
    `token` returns the identity of a column by its name; None where names do not identify columns.
    """

    qualifier: str | None
    inputs: frozenset[str]
    origins: frozenset[ColumnRef] = frozenset()
    without: frozenset[str] = frozenset()
    merged: frozenset[str] = frozenset()
    token: Callable[[str], Token] | None = None

    def column(self, name: str) -> frozenset[ColumnRef]:
        """Return the columns that a column of this name is computed from."""
        return self.origins or frozenset(ColumnRef(each, name) for each in self.inputs)

    def has(self, name: str, qualifier: str | None = None) -> bool:
        """Return whether a name, with a qualifier or without, may be one of its columns."""
        if name in self.without:
            return False
        return name not in self.merged if qualifier is None else qualifier == self.qualifier


@dataclass(slots=True)
class RelationColumns:
    """The columns of a relation, in order.

    `hidden` can be named with a qualifier only (the other columns of USING); `bases` are the inputs
    that are read here directly, by qualifier.
    """

    columns: list[Attribute]
    hidden: list[Attribute] = field(default_factory=list)
    open: list[OpenPart] = field(default_factory=list)
    bases: dict[str, str] = field(default_factory=dict)
    _index: dict[str, list[Attribute]] | None = None
    _indexed: int = 0

    def named(self, qualifier: str | None, names: tuple[str, ...] = ()) -> RelationColumns:
        """Return the same columns as those of a relation with an alias and a column list."""
        fits = not self.open and len(names) == len(self.columns)
        listed = names if fits else tuple(each.name for each in self.columns)
        columns = [
            each._replace(name=name, qualifier=qualifier)
            for name, each in zip(listed, self.columns, strict=True)
        ]
        opened = [each._replace(qualifier=qualifier) for each in self.open]
        if names and not fits:
            return RelationColumns([], open=[OpenPart(qualifier, self.inputs)])
        return RelationColumns(columns, open=opened)

    def nulled(self) -> RelationColumns:
        """Return the same columns, each of which may be null."""
        columns = [each.nulled() for each in self.columns]
        return RelationColumns(
            columns, [each.nulled() for each in self.hidden], self.open, self.bases
        )

    def joined_with(self, other: RelationColumns) -> RelationColumns:
        """Return the columns of both."""
        return RelationColumns(
            self.columns + other.columns,
            self.hidden + other.hidden,
            self.open + other.open,
            self.bases | other.bases,
        )

    @property
    def inputs(self) -> frozenset[str]:
        """Return the inputs that the columns may come from."""
        known = frozenset(ref.input for each in self.columns for ref in each.sources)
        return known.union(*(part.inputs for part in self.open))

    def merged(self, other: RelationColumns, keys: Sequence[str], kind: str) -> RelationColumns:
        """Return the columns of a join by columns of the same names, which come first and once."""
        made = [_key_column(key, self, other, kind) for key in keys]
        both = self.joined_with(other)
        twins = [each for each in both.columns if each.name in keys]
        rest = [each for each in both.columns if each.name not in keys]
        hidden = [*both.hidden, *(each for each in twins if each not in made)]
        merged = frozenset(keys)
        opened = [each._replace(merged=each.merged | merged) for each in both.open]
        return RelationColumns([*made, *rest], hidden, opened, both.bases)

    def relation(self, qualifier: str) -> list[Attribute] | None:
        """Return the known columns of one relation; None if there is no such relation."""
        own = [each for each in (*self.hidden, *self.columns) if each.qualifier == qualifier]
        known = own or qualifier in self.bases
        return own if known or any(o.qualifier == qualifier for o in self.open) else None

    def starred(self, star: StarExpr) -> RelationColumns | None:
        """Return the columns of a star; None if it is not one of this, or of a relation in it."""
        name = star.qualifier[0] if star.qualifier else None
        found = self.columns if name is None else self.relation(name)
        if found is None or len(star.qualifier) > 1:
            return None
        columns = [each for each in found if not _excludes(star, each)]
        return RelationColumns(
            [_star_column(star, each) for each in columns],
            open=[_open_part(star, each) for each in self.open if name in {None, each.qualifier}],
        )

    def tokens(self) -> dict[str, Token | None]:
        """Return the token of each known name; None if it is not certain."""
        found: dict[str, Token | None] = {}
        for each in self.columns:
            same = found.get(each.name, each.token) == each.token
            found[each.name] = each.token if same else None
        return found

    def token(self, parts: tuple[str, ...]) -> Token | None:
        """Return the token of a name; None if it is not certain, or there is no such column.

        If a known relation has the name and an open one may have it, it is that of the known one: a
        query in which both have it is ambiguous, and refused.
        """
        if len(parts) > 2 or not parts:
            return None
        qualifier = parts[0] if len(parts) == 2 else None
        name = parts[-1]
        found = self._columns_by_name(name)
        if qualifier is not None:
            hidden = (each for each in self.hidden if each.name == name)
            found = [each for each in (*found, *hidden) if each.qualifier == qualifier]
        if found:
            tokens = {each.token for each in found}
            return tokens.pop() if len(tokens) == 1 else None
        if qualifier is not None and self._columns_by_name(qualifier):
            return None  # a field of a struct
        opened = [each for each in self.open if each.has(name, qualifier)]
        if len(opened) != 1 or opened[0].token is None:
            return None
        unnamed = any(qualifier in {None, each.qualifier} for each in self._columns_by_name(""))
        return None if unnamed else opened[0].token(name)

    def _columns_by_name(self, name: str) -> list[Attribute]:
        if self._index is None or self._indexed != len(self.columns):
            self._index, self._indexed = {}, len(self.columns)
            for each in self.columns:
                self._index.setdefault(each.name, []).append(each)
        return self._index.get(name, [])


def input_rows(name: str, schema: DataSchema | None, qualifier: str) -> RelationColumns:
    """Return the columns of an input that is read under a name, as far as they are known."""
    if schema is None:
        return RelationColumns(
            [], open=[OpenPart(qualifier, frozenset({name}))], bases={qualifier: name}
        )
    columns = []
    for each in schema.fields:
        kind, nullable = unwrapped(each.type)
        value, sources = Value(as_read(kind), nullable), frozenset({ColumnRef(name, each.name)})
        columns.append(Attribute(each.name, value, sources, qualifier, copied=True))
    return RelationColumns(columns, bases={qualifier: name})


def unknown_rows(inputs: frozenset[str] = frozenset()) -> RelationColumns:
    """Return unknown columns, given the inputs that they may come from."""
    return RelationColumns([], open=[OpenPart(None, inputs)])


def _excludes(star: StarExpr, column: Attribute) -> bool:
    return (column.name,) in star.excluded or (column.qualifier, column.name) in star.excluded


def _star_column(star: StarExpr, column: Attribute) -> Attribute:
    """Return a column as a star selects it, possibly without some of its fields."""
    if any(len(each) > 1 and column.name in each[:-1] for each in star.excluded):
        column = column._replace(value=Value(None), copied=False, token=None)
    return column._replace(qualifier=None)


def _open_part(star: StarExpr, part: OpenPart) -> OpenPart:
    gone = {each[0] for each in star.excluded if len(each) == 1}
    hidden = frozenset[str]() if star.qualifier else part.merged
    sure = all(len(each) == 1 for each in star.excluded)
    return part._replace(
        qualifier=None,
        without=part.without | gone | hidden,
        merged=frozenset(),
        token=part.token if sure else None,
    )


def _key_column(key: str, left: RelationColumns, right: RelationColumns, kind: str) -> Attribute:
    """Return the column of USING: of one relation, or in a full join of either."""
    ours, theirs = _first(key, left), _first(key, right)
    chosen = theirs if kind == "right" else ours
    if kind != "full" and chosen is not None:
        return chosen
    both = [each for each in (ours, theirs) if each is not None]
    sources = frozenset(ref for each in both for ref in each.sources)
    known = wider(ours.value.kind, theirs.value.kind) if ours and theirs else None
    return Attribute(key, Value(known), sources)


def _first(name: str, rows: RelationColumns) -> Attribute | None:
    """Return a column of a relation, possibly an unknown one."""
    known = next((each for each in rows.columns if each.name == name), None)
    if known is not None or not rows.open:
        return known
    sources = frozenset[ColumnRef]().union(*(each.column(name) for each in rows.open))
    return Attribute(name, Value(None), sources, token=rows.token((name,)))
