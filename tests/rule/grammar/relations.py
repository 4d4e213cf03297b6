"""What is in a FROM clause, as far as it takes to write names that mean something."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = [
    "ARRAY",
    "BIGINT",
    "BOOLEAN",
    "DECIMAL",
    "DOUBLE",
    "STRING",
    "TIME",
    "Column",
    "Kind",
    "Relation",
    "references",
]

Kind = str
STRING, BIGINT, BOOLEAN, TIME = "string", "bigint", "boolean", "timestamp"
ARRAY, DOUBLE, DECIMAL = "array<bigint>", "double", "decimal(12, 3)"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `fields` are those of a struct, whose kind is its type in SQL."""

    name: str
    kind: Kind
    nullable: bool = True
    fields: tuple["Column", ...] = ()

    def named(self, name: str) -> "Column":
        return replace(self, name=name)

    def or_null(self) -> "Column":
        return replace(self, nullable=True)


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns under a name; `hidden` ones are only there under it (those of JOIN ... USING)."""

    name: str | None
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...] = ()

    def or_null(self) -> "Relation":
        """Return the side of an outer join that may be missing."""
        return replace(
            self,
            columns=tuple(each.or_null() for each in self.columns),
            hidden=tuple(each.or_null() for each in self.hidden),
        )


def references(scope: Sequence[Relation]) -> Iterator[tuple[str, Column]]:
    """Yield the columns that can be named, in every way that is not ambiguous."""
    plain = [each.name for relation in scope for each in relation.columns]
    for relation in scope:
        own = [each.name for each in (*relation.columns, *relation.hidden)]
        for column in relation.columns:
            if plain.count(column.name) == 1:
                yield from _with_fields(column.name, column)
            if relation.name is not None and own.count(column.name) == 1:
                yield from _with_fields(f"{relation.name}.{column.name}", column)
        for column in relation.hidden:
            if own.count(column.name) == 1 and relation.name is not None:
                yield f"{relation.name}.{column.name}", column


def _with_fields(text: str, column: Column) -> Iterator[tuple[str, Column]]:
    yield text, column
    for field in column.fields:
        yield f"{text}.{field.name}", field
