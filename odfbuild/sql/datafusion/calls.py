"""Calls of functions in the tokens of a text: where they close, and what is between.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odfbuild.sql.text.statement import Token

NAMES: Final = frozenset({"VAR", "IDENTIFIER"})
"""The kinds of tokens that may name a function."""
_DEPTHS: Final = {"L_PAREN": 1, "R_PAREN": -1}
_LISTS: Final = {"L_BRACKET": 1, "R_BRACKET": -1, "L_BRACE": 1, "R_BRACE": -1}


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


def arguments(text: str, tokens: Sequence[Token], opening: int, closed: int) -> list[str]:
    """Return the texts between the commas of a call whose brackets are at two tokens."""
    found, depth, begins = [], 0, tokens[opening].end + 1
    for token in tokens[opening + 1 : closed]:
        depth += _DEPTHS.get(token.kind, 0) + _LISTS.get(token.kind, 0)
        if depth == 0 and token.kind == "COMMA":
            found.append(text[begins : token.start])
            begins = token.end + 1
    last = text[begins : tokens[closed].start]
    return [*found, last] if found or last.strip() else []
