"""Subqueries of a text that stand for a value, each as a query by itself.  Pure.

    with a as (select 1 as n) select (select max(n) from a) from t where x in (select y from u)
    with a as (select 1 as n) select max(n) from a

It sees what WITH at the beginning of the text names.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of

_OPENING: Final = frozenset({"SELECT", "WITH"})
_OF_ROWS: Final = frozenset(
    {"FROM", "JOIN", "LATERAL", "IN", "EXISTS", "ALIAS", "UNION", "EXCEPT", "INTERSECT", "ALL"}
)
"""Before subqueries that are rows and no value."""


def scalar_queries(text: str) -> Iterator[str]:
    """Yield the subqueries of a text that may be values; some of them may be in FROM."""
    tokens = tokens_of(text)
    named = _named(text, tokens)
    for at in range(1, len(tokens) - 1):
        opens = tokens[at].kind == "L_PAREN" and tokens[at + 1].kind in _OPENING
        if opens and tokens[at - 1].kind not in _OF_ROWS:
            yield named + text[tokens[at + 1].start : tokens[_closing(tokens, at)].start]


def _named(text: str, tokens: Sequence[Token]) -> str:
    """Return the text before the query to which WITH at the beginning belongs."""
    if not tokens or tokens[0].kind != "WITH":
        return ""
    depth = 0
    for each in tokens:
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(each.kind, 0)
        if depth == 0 and each.kind == "SELECT":
            return text[: each.start]
    return ""


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(tokens[at].kind, 0)
        if depth == 0:
            return at
    return len(tokens) - 1
