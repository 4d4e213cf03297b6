"""Least and greatest values of groups, as DataFusion is asked for them.  Pure.

Within groups its `min` and `max` of floating-point numbers go by the order of rows as soon as one
is NaN, or both zeros are there: of 1.0, NaN and -2.0, in this order, the greatest is -2.0.  The
first value of an order depends on the values alone.  It is what `min` and `max` give without groups
and over windows: -0.0 is less than 0.0, and NaN greater than any other number.

    max(a + b) filter (where c)
    first_value(a + b order by a + b desc nulls last) filter (where c)
"""

from collections.abc import Sequence
from typing import Final

from odfbuild.sql.datafusion.calls import NAMES, closing, end_of_call
from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of

_DIRECTIONS: Final = {"min": "asc", "max": "desc"}


def ordered_extremes(text: str) -> str:
    """Return a text in which `min` and `max`, but over windows, are first values of an order."""
    tokens = tokens_of(text)
    found: list[str] = []
    copied = at = 0
    while at < len(tokens):
        closed = _closed(tokens, at)
        if closed is None:
            at += 1
            continue
        first = at + 3 if tokens[at + 2].kind in {"DISTINCT", "ALL"} else at + 2
        if closed == first + 1 and tokens[first].kind == "NUMBER":  # an order by it is a column's
            at = closed + 1
            continue
        value = ordered_extremes(text[tokens[first].start : tokens[closed].start])
        direction = _DIRECTIONS[tokens[at].text.lower()]
        found.append(text[copied : tokens[at].start])
        found.append(f"first_value({value} order by {value} {direction} nulls last)")
        copied, at = tokens[closed].end + 1, closed + 1
    return "".join((*found, text[copied:]))


def _closed(tokens: Sequence[Token], at: int) -> int | None:
    """Return where the call that begins at a token ends; None if it is none to be changed."""
    name = tokens[at]
    if name.kind not in NAMES or name.text.lower() not in _DIRECTIONS:
        return None
    closed = end_of_call(tokens, at)
    if closed is None or closed == at + 2:
        return None
    after = closed + 1
    if after < len(tokens) and tokens[after].kind == "FILTER":
        after = (closing(tokens, after + 1) or after) + 1
    is_window = after < len(tokens) and tokens[after].kind == "OVER"
    return None if is_window else closed
