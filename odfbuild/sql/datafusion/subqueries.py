"""Subqueries of a text, each as a query by itself.  Pure.

    with a as (select 1 as n) select (select max(n) from a) from t where x in (select y from u)
    with a as (select 1 as n) select max(n) from a
    with a as (select 1 as n) select y from u

Each sees what WITH at the beginning of the text names before it.  A text that has WITH elsewhere
is given out as a subquery that is no query: what its names mean there would not be what they mean
here.
"""

from collections.abc import Iterator, Sequence

from odfbuild.sql.datafusion.calls import closing
from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of


def queries_in(text: str) -> Iterator[str]:
    """Yield the subqueries of a text."""
    tokens = tokens_of(text)
    within = [each for each in tokens[1:] if each.kind == "WITH"]
    if within:
        yield text[within[0].start :]
        return
    for at in range(len(tokens) - 1):
        if tokens[at].kind == "L_PAREN" and tokens[at + 1].kind == "SELECT":
            own = text[tokens[at + 1].start : tokens[closing(tokens, at) or -1].start]
            yield _named(text, tokens, at) + own


def _named(text: str, tokens: Sequence[Token], at: int) -> str:
    """Return the text of WITH at the beginning as far as a token sees what it names."""
    if tokens[0].kind != "WITH":
        return ""
    depth, end = 0, 0
    for each in tokens[:at]:
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(each.kind, 0)
        if depth == 0 and each.kind == "SELECT":
            return text[: each.start]
        if depth == 0 and each.kind == "COMMA":
            end = each.start
    return f"{text[:end]} " if end else ""
