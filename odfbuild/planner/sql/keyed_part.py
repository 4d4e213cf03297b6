"""One part of a query: its class, its key, and how the columns of a key are found in it.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from odfbuild.planner.sql.functions import WINDOWED
from odfbuild.planner.sql.shape import Call, Column, Expr, Join, Output, Over, Query, Select

__all__ = [
    "Keys",
    "Part",
    "Token",
    "beside",
    "name_of",
    "partition_of",
    "read_as",
    "renamed",
    "shared",
    "whole",
]

Token: TypeAlias = int
"""The identity of a column, kept from the inputs on."""

Keys: TypeAlias = frozenset[Token]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a query: its class, the clause that makes it so, and the key it works by.

    `keys` is None where there are several.  `column` finds the token of a column, by the name of
    its relation and its own; `group` is the only keyed operator, where that is a GROUP BY.
    """

    name: str
    because: str | None = None
    keys: Keys | None = frozenset()
    column: Callable[[str | None, str], Token | None] = field(default=lambda _, __: None)
    group: Select | None = None


def whole(because: str) -> Part:
    """Return a part that must be computed in full."""
    return Part(name="whole", because=because, keys=None)


def read_as(part: Part, alias: str | None) -> Part:
    """Return a part that is read under a name."""
    inner = part.column

    def column(qualifier: str | None, name: str) -> Token | None:
        return inner(None, name) if qualifier in {None, alias} else None

    return replace(part, column=column)


def beside(left: Part, right: Part, join: Join) -> Callable[[str | None, str], Token | None]:
    """Return how columns of a join are found; those of USING are the preserved side's."""

    def column(qualifier: str | None, name: str) -> Token | None:
        if qualifier is None:
            if name in join.using:
                side = right if join.kind == "right" else left
                return None if join.kind == "full" else side.column(None, name)
            ours, theirs = left.column(None, name), right.column(None, name)
            return None if ours is not None and theirs is not None else _first(ours, theirs)
        return _first(left.column(qualifier, name), right.column(qualifier, name))

    return column


def _first(*tokens: Token | None) -> Token | None:
    return next((token for token in tokens if token is not None), None)


def shared(
    left: Part, right: Part, pairs: Sequence[tuple[Token, Token]], root: Callable[[Token], Token]
) -> list[tuple[Token, Token]]:
    """Return the pairs of columns by which both sides of a join work; a linear one works by any.

    `root` gives the token that stands for all that are equal to one.
    """
    keys = [None if p.name == "linear" else set(map(root, p.keys or ())) for p in (left, right)]
    return [
        pair
        for pair in pairs
        if all(k is None or root(token) in k for token, k in zip(pair, keys, strict=True))
    ]


def renamed(query: Query, columns: tuple[str, ...]) -> Query:
    """Return a query whose columns are called otherwise; a star's cannot be told apart."""
    if not columns or not isinstance(query, Select) or len(columns) != len(query.outputs):
        return query
    outputs = (replace(o, aliases=(n,)) for o, n in zip(query.outputs, columns, strict=True))
    return replace(query, outputs=tuple(outputs))


def partition_of(over: Over, named: Mapping[str, Over]) -> tuple[Expr, ...]:
    """Return the PARTITION BY of a window, also where a name stands for it."""
    if over.partition or over.name is None:
        return over.partition
    return named[over.name].partition if over.name in named else ()


def name_of(output: Output) -> str | None:
    """Return what an item of a SELECT list is called; None if only Spark can tell."""
    if output.aliases:
        return output.aliases[0] if len(output.aliases) == 1 else None
    value = output.value
    if isinstance(value, Call) and value.name in WINDOWED:
        return value.name
    return value.name if isinstance(value, Column) else None
