"""Names in scope: resolution of dotted names to columns and their types.

A name that no known column has may be one of an open relation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import field

from odfbuild.odf.events import DataTypeStruct
from odfbuild.sql.columns.output import Attribute, ColumnRef, RelationColumns
from odfbuild.sql.columns.structs import field_of, has_twice
from odfbuild.sql.columns.types import UNKNOWN, Value
from odfbuild.sql.text.shape import StarExpr
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Resolution:
    """The meaning of a name.  If it is not `sure`, an open relation may have the name.

    With `copied` it is an unchanged column of an input.
    """

    value: Value
    sources: frozenset[ColumnRef]
    sure: bool = True
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """A name that does not exist; `near` is the most similar one."""

    closest: str | None


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A name that several columns have, or several fields of a struct.

    `candidates` are qualified names that distinguish them; none if they do not.
    """

    sources: frozenset[ColumnRef]
    candidates: tuple[str, ...]


def fields_of(
    star: StarExpr, value: Value, sources: frozenset[ColumnRef]
) -> RelationColumns | None:
    """Return the fields of a struct that a star expands; None if it may not be a struct."""
    if not isinstance(value.kind, DataTypeStruct):
        return None
    parts = [(each.name, field_of(value, each.name) or UNKNOWN) for each in value.kind.fields]
    fields = RelationColumns([Attribute(name, part, sources) for name, part in parts])
    return fields.starred(StarExpr((), star.excluded, star.place))


@dataclass(slots=True)
class NameScope:
    """The meaning of names at one place; `outer` is the scope around a subquery.

    `aliases` are earlier items of the same SELECT list; with `first` they precede columns.
    """

    rows: RelationColumns
    outer: NameScope | None = None
    aliases: dict[str, Attribute] = field(default_factory=dict)
    variables: dict[str, Attribute] = field(default_factory=dict)
    first: bool = False
    _index: dict[str, list[Attribute]] | None = None

    def resolve(self, parts: tuple[str, ...]) -> Resolution | Missing | Ambiguous:
        """Return the meaning of a dotted name in this scope, or in one around it."""
        found = self._local(parts)
        at = self.outer
        while at is not None and (found is None or _is_open(found)):
            found = _either(found, at._local(parts))
            at = at.outer
        return Missing(self._similar_name(parts)) if found is None else found

    def _local(self, parts: tuple[str, ...]) -> Resolution | Ambiguous | None:
        if self.variables and (bound := self.variables.get(parts[0])) is not None:
            return self._within([bound], parts[1:])
        if self.first and (alias := self.aliases.get(parts[0])) is not None:
            return self._within([alias], parts[1:])
        found = self._column(parts)
        if found is None or _is_open(found):
            alias = self.aliases.get(parts[0])
            return found if alias is None else _either(found, self._within([alias], parts[1:]))
        return found

    def _column(self, parts: tuple[str, ...]) -> Resolution | Ambiguous | None:
        index = self._by_name()
        if len(parts) > 1:
            own = [a for a in index.get(parts[1], ()) if a.qualifier == parts[0]]
            if own:
                return self._within(own, parts[2:])
            for part in self.rows.open:
                if part.has(parts[1], parts[0]):
                    return Resolution(UNKNOWN, part.column(parts[1]))
        free = [a for a in index.get(parts[0], ()) if a not in self.rows.hidden]
        if free:
            return self._within(free, parts[1:])
        opened = [part for part in self.rows.open if part.has(parts[0])]
        if opened:
            columns = (part.column(parts[0]) for part in opened)
            return Resolution(UNKNOWN, frozenset().union(*columns), sure=False)
        return None

    def _within(
        self, candidates: list[Attribute], path: tuple[str, ...]
    ) -> Resolution | Ambiguous | None:
        if len(candidates) > 1:
            sources = frozenset(ref for each in candidates for ref in each.sources)
            names = [f"{e.qualifier}.{e.name}" if e.qualifier else e.name for e in candidates]
            apart = len({*names}) == len(names) and all(e.qualifier for e in candidates)
            return Ambiguous(sources, tuple(names) if apart else ())
        attribute = candidates[0]
        value = attribute.value
        for name in path:
            inner = field_of(value, name)
            if inner is None:
                return Ambiguous(attribute.sources, ()) if has_twice(value, name) else None
            value = inner
        return Resolution(value, attribute.sources, copied=attribute.copied and not path)

    def _by_name(self) -> dict[str, list[Attribute]]:
        if self._index is None:
            self._index = {}
            for each in (*self.rows.columns, *self.rows.hidden):
                self._index.setdefault(each.name, []).append(each)
        return self._index

    def _similar_name(self, parts: tuple[str, ...]) -> str | None:
        """Return the name in scope that is most similar to a missing one."""
        if len(parts) > 1 and (inside := self._similar_field(parts)) is not None:
            return inside
        qualified = len(parts) > 1 and self.rows.relation(parts[0]) is not None
        wanted = parts[1] if qualified else parts[0]
        elsewhere = [a for a in self.rows.columns if len(parts) > 1 and a.name == parts[1]]
        if wanted == parts[0] and len(elsewhere) == 1 and elsewhere[0].qualifier:
            return f"{elsewhere[0].qualifier}.{parts[1]}"
        names = list(dict.fromkeys(self._names()))
        folded = [name for name in names if name.lower() == wanted.lower()]
        return next(iter(folded or difflib.get_close_matches(wanted, names, n=1)), None)

    def _similar_field(self, parts: tuple[str, ...]) -> str | None:
        """Return the most similar field, if all parts of a name but the last are known."""
        found = self._local(parts[:-1])
        kind = found.value.kind if isinstance(found, Resolution) else None
        if not isinstance(kind, DataTypeStruct):
            return None
        names = [field.name for field in kind.fields]
        closest = difflib.get_close_matches(parts[-1], names, n=1)
        return ".".join((*parts[:-1], closest[0])) if closest else None

    def _names(self) -> Iterator[str]:
        scope: NameScope | None = self
        while scope is not None:
            yield from (each.name for each in scope.rows.columns)
            yield from scope.aliases
            scope = scope.outer


def _is_open(found: Resolution | Ambiguous) -> bool:
    return isinstance(found, Resolution) and not found.sure


def _either(
    open_: Resolution | Ambiguous | None, other: Resolution | Ambiguous | None
) -> Resolution | Ambiguous | None:
    """Return the meaning of a name that an open relation, or another one, may have."""
    if open_ is None or other is None:
        return other if open_ is None else open_
    return Resolution(UNKNOWN, open_.sources | other.sources, sure=False)
