"""Texts of portable queries: words and signs that both dialects read alike.  Pure."""

from __future__ import annotations

from itertools import pairwise, zip_longest

from odfbuild.sql.portability.parts import UnportableError
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.statement import SqlTextError, Token
from odfbuild.sql.text.tree_datafusion import tokens_of
from odfbuild.texts.patterns import late_pattern

_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = late_pattern(r"[0-9]{1,19}|[0-9]{1,15}[eE]-?[0-9]{1,2}")
_OF_SESSION = ("current_", "session_", "local")
_NAMES = frozenset({"VAR"})
_OPERANDS = _NAMES | {"NUMBER", "STRING", "R_PAREN", "NULL", "TRUE", "FALSE", "END"}
_SIGNS = frozenset({"(", ")", ",", ".", "+", "-", "*", "=", "<", ">", "<=", ">=", "<>", "||"})
_WORDS = frozenset(
    {"all", "and", "as", "between", "bigint", "boolean", "by", "case", "cast", "date", "decimal"}
    | {"distinct", "double", "else", "end", "extract", "false", "from", "full", "group", "having"}
    | {"in", "inner", "int", "is", "join", "left", "not", "null", "on", "or", "outer", "right"}
    | {"select", "smallint", "string", "then", "tinyint", "true", "union", "when", "where", "with"}
)


def check_text(text: str) -> None:
    """Raise UnportableError at the first word that is not the same word in both dialects."""
    ours = read(text).tokens
    try:
        theirs = tokens_of(text)
    except SqlTextError as error:
        raise UnportableError(str(error), error.place) from None
    for one, two in zip_longest(ours, theirs):
        if one is None or two is None or one[1:4] != two[1:4]:
            place = (one or two or ours[0]).place
            raise UnportableError("a word, number or string that only one dialect reads so", place)
    for each, other in zip(ours, theirs, strict=True):
        _check_word(text, each, other)
    for one, other in pairwise(ours):
        if one.kind == "NUMBER" and one.end + 1 == other.start and _NAME.match(other.text):
            raise UnportableError(f"a number with letters: {one.text}{other.text}", one.place)
        if other.kind == "PLUS" and one.kind not in _OPERANDS:
            raise UnportableError("a sign +, which is no addition", other.place)
        if other.kind == "ALL" and one.kind != "UNION":
            raise UnportableError("ALL, where it is not UNION ALL", other.place)
        if one.kind == "DECIMAL" and other.kind != "L_PAREN":
            raise UnportableError("DECIMAL without digits: DECIMAL(10, 0)", one.place)
        if one.kind == "STRING" == other.kind:
            raise UnportableError("two strings, one behind the other", one.place)


def _check_word(text: str, ours: Token, theirs: Token) -> None:
    written = text[ours.start : ours.end + 1]
    if ours.kind == "STRING":
        plain = written == f"'{ours.text}'" and not set(ours.text) & {"'", "\\"}
        if theirs.kind != "STRING" or not plain or not ours.text.isprintable():
            raise UnportableError("a string with quotes, escapes or control characters", ours.place)
        return
    if ours.kind == "NUMBER":
        if theirs.kind != "NUMBER" or _NUMBER.fullmatch(written) is None:
            raise _refused(written, ours.place)
        return
    word = written.lower()
    if {ours.kind, theirs.kind} == _NAMES:
        if _NAME.fullmatch(written) is None or word.startswith(_OF_SESSION) or word == "user":
            raise _refused(written, ours.place)
    elif written not in _SIGNS and not set(word.split()) <= _WORDS:
        raise _refused(written, ours.place)


def _refused(word: str, place: TextPlace) -> UnportableError:
    return UnportableError(f"{word!r}, which is not in the list of what both read alike", place)
