"""Expressions over what is in scope, each of a kind that is asked for."""

from collections.abc import Sequence

from tests.rule.grammar.choices import Choices
from tests.rule.grammar.relations import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    TIME,
    Column,
    Kind,
    Relation,
    references,
)

__all__ = ["LATEST", "Values"]

LATEST = "timestamp'2020-01-01 00:00:00'"
_FIRST = f"coalesce({{}}, {LATEST})"
_CONSTANTS = {
    STRING: ("'p'", "'x'", "cast(null as string)"),
    BIGINT: ("1L", "2L", "cast(null as bigint)"),
    BOOLEAN: ("true", "false"),
    TIME: (LATEST, "timestamp'1970-01-01 01:00:00'"),
    DOUBLE: ("-0D", "1.5D", "cast(null as double)"),
    ARRAY: ("array(1L, 2L)", "cast(array() as array<bigint>)"),
}


class Values:
    """Draws expressions over the columns of a scope; `more` are names that stand for others."""

    def __init__(
        self, draw: Choices, scope: Sequence[Relation], more: Sequence[tuple[str, Column]] = ()
    ) -> None:
        self._draw = draw
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
        kind = self._draw.weighted(
            [(12, STRING), (6, BIGINT), (2, BOOLEAN), (2, TIME), (1, DOUBLE)]
        )
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
            return f"cast(null as {kind})", Column("z", kind, fields=_fields(kind))
        if depth == 0 or kind.startswith("struct"):
            return named or (draw.one(_CONSTANTS[kind]), Column("v", kind, kind != TIME))
        text, nullable = self._made(kind, depth - 1)
        return text, Column("v", kind, nullable)

    def condition(self, depth: int = 2) -> str:
        """Return what is true or not of a row."""
        return self.any(BOOLEAN, depth)[0]

    def _made(self, kind: Kind, depth: int) -> tuple[str, bool]:
        draw = self._draw
        match kind:
            case "string":
                form = draw.one(
                    ("upper({s})", "lower({s})", "coalesce({s}, 'p')", "concat({s}, 'x')",
                     "cast({n} as string)", "case when {b} then {s} else 'q' end",
                     "if({b}, {s}, {s2})", "nullif({s}, 'q')", "substr({s}, 1, 1)",
                     "cast({d} as string)")
                )  # fmt: skip
            case "bigint":
                form = draw.one(
                    ("{n} + 1", "coalesce({n}, 0L)", "cast(length({s}) as bigint)", "{n} % 2",
                     "case when {b} then {n} end", "-{n}", "cast(size({l}) as bigint)",
                     "greatest({n}, {n2})", "{n} * {n2}", "unix_seconds({t})",
                     "if(isnan({d}), 1L, 2L)")
                )  # fmt: skip
            case "boolean":
                form = draw.one(
                    ("{n} > 1", "{s} = 'p'", "{n} is null", "{s} is not null", "{n} in (1, 2)",
                     "{s} < {s2}", "{n} <=> {n2}", "({b} and {b2})", "({b} or {b2})", "not {b}",
                     "{n} between 0 and 2", "{s} like 'p%'", "{s} in ('p', 'P')",
                     "{t} < timestamp'1970-01-01 04:00:00'", "{d} > 0", "{d} = {d2}",
                     "{d} <=> {d2}")
                )  # fmt: skip
            case "double":
                form = draw.one(
                    ("-{d}", "{d} * 2", "abs({d})", "atan2({d}, -1D)", "coalesce({d}, -0D)",
                     "cast({n} as double)", "nanvl({d}, 0D)", "case when {b} then {d} end",
                     "greatest({d}, {d2})", "{d} + {d2}", "least({d}, 0D)")
                )  # fmt: skip
            case "timestamp":
                text, column = self.any(TIME, depth)
                form = draw.one(
                    (
                        "date_trunc('hour', {})",
                        "{} + interval '1' hour",
                        f"coalesce({{}}, {LATEST})",
                    )
                )
                return form.format(text), column.nullable and not form.startswith("coalesce")
            case _:
                form = draw.one(("array({n}, {n2})", "array_distinct({l})", "array({n})"))
        parts = {
            "s": STRING, "s2": STRING, "n": BIGINT, "n2": BIGINT, "b": BOOLEAN, "b2": BOOLEAN,
            "t": TIME, "l": ARRAY, "d": DOUBLE, "d2": DOUBLE,
        }  # fmt: skip
        used = {name: self.any(of, depth)[0] for name, of in parts.items() if f"{{{name}}}" in form}
        if kind == DOUBLE or (kind == BIGINT and "{n" in form):  # numbers stay small at any depth
            used = {name: f"({text})" for name, text in used.items()}
        return form.format(**used), True


def _fields(kind: Kind) -> tuple[Column, ...]:
    inner = kind.removeprefix("struct<").removesuffix(">").split(",")
    pairs = (each.partition(":") for each in inner)
    return tuple(Column(name, of) for name, _, of in pairs)
