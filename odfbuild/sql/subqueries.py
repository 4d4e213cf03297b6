"""Subqueries of a text, each as a query by itself.  Pure.

    with a as (select 1 as n) select (select max(n) from a) from t where x in (select y from u)
    with a as (select 1 as n) select max(n) from a
    with a as (select 1 as n) select y from u

Each sees what WITH at the beginning of the text names.  A text that has WITH elsewhere is given
out as a subquery that is no query: what its names mean there would not be what they mean here.
"""

from collections.abc import Iterator, Sequence

from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of


def queries_in(text: str) -> Iterator[str]:
    """Yield the subqueries of a text."""
    tokens = tokens_of(text)
    within = [each for each in tokens[1:] if each.kind == "WITH"]
    if within:
        yield text[within[0].start :]
        return
    named = _named(text, tokens)
    for at in range(len(tokens) - 1):
        if tokens[at].kind == "L_PAREN" and tokens[at + 1].kind == "SELECT":
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
