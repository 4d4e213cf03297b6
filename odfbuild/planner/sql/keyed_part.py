"""One part of a query: its class, its key, and how the columns of a key are found in it.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from odfbuild.planner.sql.shape import Join, Select

__all__ = ["Keys", "Part", "Token", "beside", "read_as", "whole"]

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
