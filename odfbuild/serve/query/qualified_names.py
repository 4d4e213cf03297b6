"""Names of datasets that clients qualify by the only catalog and schema.

Tools that generate queries from lists of tables write "odf"."odf"."shop.orders", or only one of
the two qualifiers.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from odfbuild.sql.text.statement import Statement, Token

FOLDER: Final = "odf"
"""The name of the catalog, and of the schema in it."""

_NAMES: Final = frozenset({"VAR", "IDENTIFIER"})


def unqualified(statement: Statement) -> str:
    """Return the text of a statement with blanks in place of catalog and schema.

    These are qualifiers of its tables, and `odf.odf` before other names.  Positions do not change.
    """
    parts, at = [], 0
    for first, last in _qualifiers(statement):
        blank = " " * (last.end + 1 - first.start)
        parts += [statement.text[at : first.start], blank]
        at = last.end + 1
    return "".join([*parts, statement.text[at:]])


def placeholder(statement: Statement) -> Token | None:
    """Return the first parameter of a statement; None if there is none."""
    for each in statement.tokens:
        if each.kind == "PLACEHOLDER" or (each.kind == "VAR" and each.text.startswith("$")):
            return each
    return None


def _qualifiers(statement: Statement) -> Iterator[tuple[Token, Token]]:
    """Yield the first and the last token of each qualifier, its dot included."""
    tokens = statement.tokens
    tables = {each.place.start for each in statement.tables if each.qualifier is not None}
    has_relation = FOLDER in statement.relations  # then `odf.odf.x` may be a member of a column
    for at, name in enumerate(tokens):
        before = _folders(tokens, at)
        if name.kind not in _NAMES or before not in (1, 2):
            continue
        if name.start in tables or (before == 2 and not has_relation):
            yield tokens[at - 2 * before], tokens[at - 1]


def _folders(tokens: Sequence[Token], at: int) -> int:
    """Count the qualifiers `odf` before a name, up to 3; -1 if there is another one."""
    count = 0
    while count < 3 and at >= 2 and tokens[at - 1].kind == "DOT":
        at, count = at - 2, count + 1
        if tokens[at].kind not in _NAMES or tokens[at].text != FOLDER:
            return -1
    return count
