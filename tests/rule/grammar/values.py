"""Expressions over what is in scope, each of a kind that is asked for."""

from collections.abc import Sequence

from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import Dialect
from tests.rule.grammar.relations import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    STRING,
    TIME,
    Column,
    Kind,
    Relation,
    references,
)

__all__ = ["Values"]


class Values:
    """Draws expressions over the columns of a scope; `more` are names that stand for others."""

    def __init__(
        self,
        draw: Choices,
        dialect: Dialect,
        scope: Sequence[Relation],
        more: Sequence[tuple[str, Column]] = (),
    ) -> None:
        self._draw = draw
        self._dialect = dialect
        self.known = [*references(scope), *more]

    def names(self, kind: Kind | None = None) -> list[tuple[str, Column]]:
        """Return what can be named, of a kind."""
        return [each for each in self.known if kind is None or each[1].kind == kind]

    def column(self, kind: Kind | None = None) -> tuple[str, Column] | None:
        """Return a name, None if there is none of that kind."""
        found = self.names(kind)
        return self._draw.one(found) if found else None

    def key(self) -> tuple[str, Column]:
        """Return what rows are grouped by: mostly a name, at times what is made of one."""
        kind = self._draw.weighted(self._dialect.keys)
        if self._draw.chance(20):
            return self.any(kind)
        usual = [each for each in self.known if each[0].rpartition(".")[2] == "k"]
        if usual and self._draw.chance(45):
            return self._draw.one(usual)
        found = self.column(kind) or self.column(STRING) or self.column(BIGINT)
        return found or self.any(STRING)

    def any(self, kind: Kind, depth: int = 2) -> tuple[str, Column]:
        """Return an expression of a kind."""
        draw = self._draw
        named = self.column(kind)
        if named is not None and (depth == 0 or not draw.chance(45)):
            return named
        if named is None and kind.startswith("struct"):
            null = f"cast(null as {self._dialect.type_of(kind)})"
            return null, Column("z", kind, fields=_fields(kind))
        if depth == 0 or kind.startswith("struct"):
            return named or (
                draw.one(self._dialect.constants[kind]),
                Column("v", kind, kind != TIME),
            )
        text, nullable = self._made(kind, depth - 1)
        return text, Column("v", kind, nullable)

    def condition(self, depth: int = 2) -> str:
        """Return what is true or not of a row."""
        return self.any(BOOLEAN, depth)[0]

    def _made(self, kind: Kind, depth: int) -> tuple[str, bool]:
        draw, forms = self._draw, self._dialect.values[kind]
        if kind == TIME:
            text, column = self.any(TIME, depth)
            form = draw.one(forms)
            return form.format(t=text), column.nullable and not form.startswith("coalesce")
        form = draw.one(forms)
        parts = {
            "s": STRING, "s2": STRING, "n": BIGINT, "n2": BIGINT, "b": BOOLEAN, "b2": BOOLEAN,
            "t": TIME, "l": ARRAY, "d": DOUBLE, "d2": DOUBLE, "c": DECIMAL, "c2": DECIMAL,
        }  # fmt: skip
        used = {name: self.any(of, depth)[0] for name, of in parts.items() if f"{{{name}}}" in form}
        if kind in {DOUBLE, DECIMAL} or (
            kind == BIGINT and "{n" in form
        ):  # numbers stay small at any depth
            used = {name: f"({text})" for name, text in used.items()}
        return form.format(**used), True


def _fields(kind: Kind) -> tuple[Column, ...]:
    inner = kind.removeprefix("struct<").removesuffix(">").split(",")
    pairs = (each.partition(":") for each in inner)
    return tuple(Column(name, of) for name, _, of in pairs)
