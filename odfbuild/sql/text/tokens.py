"""Tokens of a text before it is parsed, and hints for the parser.

Knows sqlglot; imported when a text is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from sqlglot import TokenType

from odfbuild.sql.text.readings import is_no_date, is_no_double, is_no_integer, is_no_timestamp
from odfbuild.sql.text.shape import Name, TextPlace
from odfbuild.sql.text.statement import CLOCK_WORDS, SESSION_WORDS, folded, is_undated
from odfbuild.texts.patterns import late_pattern

_LIKE = frozenset({TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE})
_BEHIND_SELECT = frozenset({TokenType.HINT, TokenType.ALL})
_SEPARATORS = frozenset({TokenType.COMMA, TokenType.FROM})
_BEFORE_NAMES = frozenset({TokenType.DOT, TokenType.ALIAS})
_BEFORE_QUOTED = _BEFORE_NAMES | {TokenType.FROM, TokenType.JOIN}  # where tables are named, too
_BEHIND_NAMES = frozenset({TokenType.DOT, TokenType.L_PAREN})
_SPEAKING = CLOCK_WORDS | SESSION_WORDS
_CASTS = frozenset({TokenType.ALIAS, TokenType.DCOLON})
_BEFORE_ITEMS = frozenset({TokenType.SELECT, TokenType.COMMA})
_COMPARISONS = frozenset({TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT})
_COMPARISONS |= {TokenType.GTE, TokenType.NULLSAFE_EQ}
_BRANCHES = frozenset({TokenType.THEN, TokenType.ELSE})
_BEHIND_BRANCHES = frozenset({TokenType.WHEN, TokenType.ELSE, TokenType.END})
_FACTORS = frozenset({TokenType.STAR, TokenType.SLASH, TokenType.MOD})
_OPERATORS = _FACTORS | {TokenType.DIV, TokenType.PLUS, TokenType.DASH}
_BEFORE_ARGUMENTS = frozenset({TokenType.COMMA, TokenType.L_PAREN})
_BEHIND_ARGUMENTS = frozenset({TokenType.COMMA, TokenType.R_PAREN})
_CONSTANTS = frozenset({TokenType.NUMBER, TokenType.STRING})
_DIGITS = late_pattern(r"\d+")
_READINGS = (is_no_date, is_no_timestamp, is_no_integer, is_no_double)
_INT_DIGITS = 9  # any number of so many is an INT
_TIMES = frozenset(kind for kind in TokenType if kind.name.startswith(("DATE", "TIMESTAMP")))


def place_at(token: Any) -> TextPlace:
    """Return where a token stands."""
    start: int = token.start
    length: int = token.end + 1 - start
    return TextPlace(start, length, token.line, token.col - length + 1)


def place_of(node: Any) -> TextPlace:
    """Return where an identifier, a call, a star or a constant of the tree stands."""
    meta = node.meta
    start = meta.get("start", 0)
    length = meta.get("end", 0) + 1 - start
    return TextPlace(start, length, meta.get("line", 1), meta.get("col", length) - length + 1)


def mended(tokens: Sequence[Any]) -> list[Any]:
    """Return the tokens as the parser needs them.

    Three words that Spark takes as names, and sqlglot does not, become names; each call is marked
    to be kept as it is written, rather than turned into what it would be called elsewhere.
    """
    opened: list[int] = []
    found = list(tokens)
    kinds = [*(token.token_type for token in tokens), None, None]
    for at, kind in enumerate(kinds):
        if kind is TokenType.L_PAREN:
            opened.append(at)
        elif kind is TokenType.R_PAREN:
            before = tokens[opened.pop() - 1].text.upper() if opened else ""
            if before != "ARRAY" or kinds[at + 1] is not TokenType.L_BRACKET:
                tokens[at].comments.append("sqlglot.anonymous")
        elif (
            (kind is TokenType.WINDOW and kinds[at + 2] is not TokenType.ALIAS)
            or (kind is TokenType.SESSION and kinds[at + 1] is TokenType.L_PAREN)
            or (kind is TokenType.FROM and kinds[at + 1] in _SEPARATORS)
        ):
            token = tokens[at]
            place = (token.line, token.col, token.start, token.end)
            found[at] = type(token)(TokenType.VAR, token.text, *place)
    return found


def unclosed(tokens: Sequence[Any]) -> Any | None:
    """Return the innermost parenthesis left open, which the parser passes over at times."""
    opened = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
    return opened[-1] if opened else None


def select_starts(tokens: Sequence[Any]) -> tuple[int, ...]:
    """Return for each SELECT the offset at which its first item may be put."""
    starts = []
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.SELECT:
            last = token
            for after in tokens[at + 1 : at + 3]:
                if after.token_type not in _BEHIND_SELECT:
                    break
                last = after
            starts.append(last.end + 1)
    return tuple(starts)


def exclusion(tokens: Sequence[Any], star: int) -> tuple[int, int] | None:
    """Return the offsets of what is in the `EXCEPT (...)` behind the star at an offset."""
    at = next(n for n, token in enumerate(tokens) if token.start == star)
    kinds = [token.token_type for token in tokens[at + 1 : at + 3]]
    if kinds != [TokenType.EXCEPT, TokenType.L_PAREN]:
        return None
    depth = 0
    for token in tokens[at + 2 :]:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return tokens[at + 2].end + 1, token.start
    return None


def calls(tokens: Sequence[Any]) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    """Return every name before a parenthesis in lower case, and those with no arguments."""
    found, empty = [], []
    kinds = [*(token.token_type for token in tokens), None, None]
    for at, token in enumerate(tokens):
        if kinds[at + 1] is not TokenType.L_PAREN or not token.text[:1].isalpha():
            continue
        if at and kinds[at - 1] in _LIKE:
            continue
        name = Name(folded(token.text), place_at(token))
        found.append(name)
        if kinds[at + 2] is TokenType.R_PAREN:
            empty.append(name)
    return tuple(found), tuple(empty)


def words(tokens: Sequence[Any]) -> Iterator[Name]:
    r"""Yield the words for the time or the session, and texts that are times by the clock.

    The words stand alone: `t.current_date` is a column, `current_date()` a call.  Those for the
    time count in backticks, too, and as `current_t\u0131mestamp`: Spark finds them there.
    The texts are behind a type or before one: `DATE 'now'`, `CAST('12:34' AS TIMESTAMP)`.
    """
    before = None
    following = [*(token.token_type for token in tokens[1:]), None, None]
    for at, token in enumerate(tokens):
        kind, (after, next_one) = token.token_type, following[at : at + 2]
        if kind is TokenType.STRING:
            is_cast = after in _CASTS and next_one in _TIMES
            if (before in _TIMES or is_cast) and is_undated(token.text):
                yield Name(f"'{token.text.strip()}'", place_at(token))
        elif (
            (text := folded(token.text)) in _SPEAKING
            and kind is not TokenType.NUMBER
            and (kind is not TokenType.IDENTIFIER or text in CLOCK_WORDS)
            and before not in (_BEFORE_QUOTED if kind is TokenType.IDENTIFIER else _BEFORE_NAMES)
            and after not in _BEHIND_NAMES
        ):
            yield Name(text, place_at(token))
        before = kind


def _is_spoken(token: Any) -> bool:
    """Tell whether a name may be that of a column without one, such as `(a * 2)`."""
    return token.token_type is TokenType.IDENTIFIER and not token.text.isidentifier()


Outline: TypeAlias = "tuple[object, ...]"


def outlines(tokens: Sequence[Any]) -> tuple[Outline, Outline, Outline]:
    """Return the words of a text without the numbers and strings in it, and with some of them.

    The first has those that a parser looks at.  The second leaves them out only where no analyser
    looks at them: behind a comparison, and where they are columns.  The third leaves out what the
    types of columns, their names and their errors do not depend on.
    """
    plain: list[object] = []
    compared: list[tuple[int, object]] = []  # where in `plain` the second has what
    typed: list[tuple[int, object]] = []
    before: object = TokenType.COMMA
    callers: list[str] = []  # what is before each parenthesis that is open
    spoken = any(map(_is_spoken, tokens))
    for at, token in enumerate(tokens):
        kind, text = token.token_type, token.text
        if kind is TokenType.L_PAREN:
            callers.append(tokens[at - 1].text.lower() if at else "")
        elif kind is TokenType.R_PAREN:
            del callers[-1:]
        elif kind in _CONSTANTS and (kind is TokenType.NUMBER or not is_undated(text)):
            after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
            behind = before in _COMPARISONS and after is not TokenType.DCOLON
            apart = behind or (before in _BEFORE_ITEMS and after is TokenType.ALIAS)
            argument = before in _BEFORE_ARGUMENTS and after in _BEHIND_ARGUMENTS
            is_text = kind is TokenType.STRING
            part = (
                (before in _BRANCHES and after in _BEHIND_BRANCHES)
                or (before in _FACTORS and after is not TokenType.DCOLON)
                or (is_text and argument and callers[-1:] == ["concat"])
            )
            small = is_text or (text.isdecimal() and len(text) <= _INT_DIGITS)
            place = len(plain) + 1
            if not (apart and small):
                compared.append((place, text))
            if spoken or not ((apart or part) and small):
                typed.append((place, text))
            elif not is_text and not (apart and after not in _OPERATORS):
                typed.append((place, (len(str(int(text))), int(text) == 0)))
            elif is_text and behind:
                typed.append((place, tuple(is_none(text) for is_none in _READINGS)))
            if before is not TokenType.INTERVAL:
                text = "" if is_text else _DIGITS.sub("0", text)
        plain += (kind, text)
        if token.comments:
            plain.append(tuple(token.comments))
        before = kind
    return tuple(plain), _with(plain, compared), _with(plain, typed)


def _with(words: Sequence[object], kept: Sequence[tuple[int, object]]) -> Outline:
    found = list(words)
    for place, what in kept:
        found[place] = what
    return tuple(found)
