"""Calls of functions in the tokens of a text: where they close, and what is between.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odfbuild.sql.text.statement import Token

NAMES: Final = frozenset({"VAR", "IDENTIFIER"})
"""The kinds of tokens that may name a function."""
_DEPTHS: Final = {"L_PAREN": 1, "R_PAREN": -1}
_LISTS: Final = {"L_BRACKET": 1, "R_BRACKET": -1, "L_BRACE": 1, "R_BRACE": -1}
_BEFORE_COLUMNS: Final = NAMES | {"ALIAS", "R_PAREN"}


class Part(NamedTuple):
    """A part of a text: its first token and the one after its last, and the same of characters."""

    first: int
    last: int
    begin: int
    end: int


def closing(tokens: Sequence[Token], opening: int) -> int | None:
    """Return where the bracket that opens at a token closes; None if none is there."""
    if opening >= len(tokens) or tokens[opening].kind != "L_PAREN":
        return None
    depth = 0
    for at in range(opening, len(tokens)):
        depth += _DEPTHS.get(tokens[at].kind, 0)
        if depth == 0:
            return at
    return None


def end_of_call(tokens: Sequence[Token], at: int) -> int | None:
    """Return where a call closes that begins at a name; None if it is no call.

    After a name of a table, brackets hold names of columns: `from t as f(x)`, `with f(x) as (...)`.
    """
    closed = closing(tokens, at + 1)
    if closed is None or (at and tokens[at - 1].kind in _BEFORE_COLUMNS):
        return None
    is_table = [each.kind for each in tokens[closed + 1 : closed + 3]] == ["ALIAS", "L_PAREN"]
    return None if is_table else closed


def arguments(tokens: Sequence[Token], opening: int, closed: int) -> Iterator[Part]:
    """Yield what is between the commas of a call whose brackets are at two tokens."""
    depth, first, begin = 0, opening + 1, tokens[opening].end + 1
    if first == closed:
        return
    for at in range(first, closed):
        depth += _DEPTHS.get(tokens[at].kind, 0) + _LISTS.get(tokens[at].kind, 0)
        if depth == 0 and tokens[at].kind == "COMMA":
            yield Part(first, at, begin, tokens[at].start)
            first, begin = at + 1, tokens[at].end + 1
    yield Part(first, closed, begin, tokens[closed].start)
