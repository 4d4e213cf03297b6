"""Names in a SELECT with groups: synonyms, and names with two meanings.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from odfbuild.sql.analysis.row_by_row import keys_of
from odfbuild.sql.text.shape import (
    Column,
    Derived,
    Expr,
    From,
    NamedTable,
    OpaqueRelation,
    Select,
    walk,
)


class GroupNames:
    """The names of a SELECT with groups; `relations` are those that qualify what it reads."""

    def __init__(self, group: Select) -> None:
        self.group = group
        self.relations = frozenset(relations_of(group.source))
        self.keys = [] if group.group is None else keys_of(group.group, group)

    def same(self, one: Expr, other: Expr) -> bool:
        """Return whether two expressions are the same; a column may be named with its relation."""
        if isinstance(one, Column) and isinstance(other, Column):
            short, long = sorted((one.parts, other.parts), key=len)
            return short == long or (
                len(short) == 1 and long[1:] == short and long[0] in self.relations
            )
        return one == other

    def is_ambiguous(self) -> bool:
        """Return whether a name in HAVING may be that of an item and of a key.

        Spark then takes the key.
        """
        aliases = {name for output in self.group.outputs for name in output.aliases}
        having = () if self.group.having is None else walk(self.group.having)
        return any(
            isinstance(each, Column) and each.parts[0] in aliases and self._is_key(each)
            for each in having
        )

    def _is_key(self, column: Column) -> bool:
        """Return whether a name is in a key, and is the alias of an item with another value."""
        name = column.parts[0]
        columns = (e for key in self.keys for e in walk(key) if isinstance(e, Column))
        if not any(name in each.parts for each in columns):
            return False
        items = (output for output in self.group.outputs if name in output.aliases)
        return not all(self.same(each.value, column) for each in items)


def is_misread(group: Select) -> bool:
    """Return whether revision 1 of the engine may have confused names of a group."""
    names = GroupNames(group)
    exprs = [*names.keys, *(each.value for each in group.outputs)]
    columns = {e for expr in exprs for e in walk(expr) if isinstance(e, Column)}
    fields = {e.name for e in columns if len(e.parts) > 1 and e.parts[0] not in names.relations}
    return names.is_ambiguous() or any(len(e.parts) == 1 and e.name in fields for e in columns)


def relations_of(source: From | None) -> Iterator[str]:
    """Yield the names that may qualify columns of a FROM clause."""
    if source is None:
        return
    for each in (source.source, *(join.source for join in source.joins), *source.views):
        if isinstance(each, Derived) and each.alias is None and isinstance(each.query, From):
            yield from relations_of(each.query)
        elif not isinstance(each, OpaqueRelation) and each.alias is not None:
            yield each.alias
        elif isinstance(each, NamedTable):
            yield each.name
