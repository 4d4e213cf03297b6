"""Event-time windows in a query, which give rows when the watermark closes them.

A window's row appears when the watermark has reached its end, so every GROUP BY of a window gets a
HAVING.  The forms TUMBLE, HOP and SESSION, which Spark does not have, are rewritten to its own:

    group by tumble(t, interval '1' day), k     group by window(t, '1 day'), k
                                                having window.end <= timestamp_millis(...)

Months have no fixed length, and Spark has no windows of them: TUMBLE of months that divide a year
is a group by the times at which the row's part of the calendar year begins and ends, in UTC.

Spark applies a condition on a session to each of its rows, and so excludes rows before it joins
them to sessions.  It does not do so where the value depends on the group:

    session_window.end                          if(count(*) > 0, session_window.end, null)

Rows wait for the watermark in event-time windows, and in joins with versions of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odfbuild.sql.columns.functions import RANKINGS, SCALARS
from odfbuild.sql.text.as_of_joins import as_of_joins
from odfbuild.sql.text.edits import CarriedText
from odfbuild.sql.text.shape import Name
from odfbuild.sql.text.statement import Statement, Token
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.text.steps import QueryStep


Edit = tuple[int, int, str]

_COLUMNS = {
    "window": "window",
    "tumble": "window",
    "hop": "window",
    "session_window": "session_window",
    "session": "session_window",
}
"""The functions that group by a window, and the column that Spark gives for each."""

_SESSION = "session_window"
_WHOLE_GROUP = "if(count(*) > 0, {}, null)"
"""A value that Spark recognises as one of a group."""

_PARTS = ("start", "end", "rowtime")
_ENDS = frozenset(
    {
        "HAVING",
        "QUALIFY",
        "ORDER_BY",
        "SORT_BY",
        "CLUSTER_BY",
        "DISTRIBUTE_BY",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "UNION",
        "EXCEPT",
        "INTERSECT",
    }
)

_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_OF_GROUPS = frozenset({"SELECT", "HAVING", "QUALIFY"})
_CLAUSES = _ENDS | {"SELECT", "FROM", "GROUP_BY"}
_WORDS = {
    "and",
    "or",
    "not",
    "in",
    "between",
    "case",
    "when",
    "then",
    "else",
    "over",
    "by",
    "having",
}
_FREE = _WORDS | {"select", "qualify", "cast", "try_cast", "extract", "struct", *RANKINGS}
"""Words allowed before parentheses around values of a group, next to functions of one row."""


def has_windows(query: Statement) -> bool:
    """Return whether a query groups by event-time windows."""
    return any(_groups_of(query.tokens))


def loose_windows(query: Statement) -> tuple[Name, ...]:
    """Return the windows that no GROUP BY names: nothing waits for them."""
    text, tokens = query.text, query.tokens
    grouped = {text[call.start : call.end] for group in _groups_of(tokens) for call in group.calls}
    return tuple(
        Name(tokens[call.at].text.lower(), tokens[call.at].place)
        for call in _calls(tokens, range(len(tokens)))
        if text[call.start : call.end] not in grouped
    )


def odd_months(query: Statement) -> tuple[Name, ...]:
    """Return the windows of months that no step can compute, each by its name.

    That is all but TUMBLE of 1, 2, 3, 4, 6 or 12 months.
    """
    text, tokens = query.text, query.tokens
    return tuple(
        Name(tokens[call.at].text.lower(), tokens[call.at].place)
        for call in _calls(tokens, range(len(tokens)))
        if any(_months(_argument(text, tokens, each)) for each in call.arguments[1:])
        and _calendar(text, tokens, call) is None
    )


def wrong_lengths(query: Statement) -> Iterator[tuple[Name, str, str]]:
    """Yield the windows of an invalid length: the name of each, the problem, and the remedy."""
    text, tokens = query.text, query.tokens
    for call in _calls(tokens, range(len(tokens))):
        words = [_without_quotes(_argument(text, tokens, at)) for at in call.arguments[1:]]
        constant = [_is_constant(tokens, at) for at in call.arguments[1:]]
        name = Name(tokens[call.at].text.lower(), tokens[call.at].place)
        lengths = words[: 1 if "session" in name.text else 2]
        if name.text == "hop":
            lengths.reverse()
        unread = (w for w, known in zip(words, constant, strict=True) if known)
        unread = (each for each in unread if not _SOME_LENGTH.fullmatch(each))
        micros = [_micros(each) for each in lengths] if all(constant) else []
        if (wrong := next(unread, None)) is not None:
            yield name, f"the length '{wrong}'", "write a number and a unit, such as '90 minutes'"
        elif 0 in micros:
            yield name, "a length of 0", "write a length greater than 0"
        elif len(sure := [each for each in micros if each]) == 2 and sure[0] < sure[1]:
            hint = "some rows would be in no window: write a step that is no longer"
            yield name, "a step that is longer than the windows are", hint


def _is_constant(tokens: Sequence[Token], at: tuple[int, int]) -> bool:
    first, end = at
    kinds = [each.kind for each in tokens[first:end]]
    return kinds == ["STRING"] or (kinds[0] == "INTERVAL" and len(kinds) in {2, 3})


def longest_window(query: Statement) -> int | None:
    """Return how long the longest window of a query is, or how far apart rows of a session are.

    In milliseconds; None if that is not written as a constant.
    """
    text, tokens = query.text, query.tokens
    lengths: list[int] = []
    for call in _calls(tokens, range(len(tokens))):
        spans = call.arguments[1:]
        at = 1 if tokens[call.at].text.lower() == "hop" else 0
        length = _millis(_argument(text, tokens, spans[at])) if len(spans) > at else None
        if length is None:
            return None
        lengths.append(length)
    return max(lengths, default=0)


def closing(query: Statement, until: int | None) -> CarriedText:
    """Return the text so that only windows that end by a watermark give rows.

    `until` is in milliseconds since 1970; None closes no window.
    """
    text, tokens = query.text, query.tokens
    bound = "false" if until is None else "{}.end <= timestamp_millis(" + f"{until}L)"
    edits = list(_sessions(tokens))  # before edits at the end of a condition that ends with one
    for group in _groups_of(tokens):
        calendar = _calendar(text, tokens, group.calls[0])
        if calendar is not None:
            edits += _where(tokens, group, bound.format(calendar))
            continue
        column = _COLUMNS[tokens[group.calls[0].at].text.lower()]
        test = bound.format(column)
        if column == _SESSION and until is not None:
            test = test.replace(f"{column}.end", _WHOLE_GROUP.format(f"{column}.end"))
        if group.having is None:
            edits.append((group.end, group.end, f" HAVING {test}"))
        else:
            start, end = group.having
            edits += [(start, start, " ("), (end, end, f") AND {test}")]
    for call in _calls(tokens, range(len(tokens))):
        edits += _rename_edits(text, tokens, call)
    edits += _parts(text, tokens)
    return CarriedText(text, tuple(sorted(edits, key=lambda edit: edit[:2])))


def has_sessions(query: Statement) -> bool:
    """Return whether a query groups by sessions."""
    return any(_is_of_sessions(query.tokens, group) for group in _groups_of(query.tokens))


def whole_sessions(query: Statement) -> CarriedText:
    """Return the text so that conditions select whole sessions, otherwise unchanged."""
    edits = sorted(_sessions(query.tokens), key=lambda edit: edit[:2])
    return CarriedText(query.text, tuple(edits)) if edits else CarriedText.of(query)


def _millis(argument: str) -> int | None:
    """Return the length of `'1 hour 30 minutes'`, rounded up to milliseconds."""
    if months := _months(argument):
        return months * 31 * _MICROS["day"] // 1000  # a row waits no longer
    micros = _micros(_without_quotes(argument))
    return None if micros is None else -(-micros // 1000)


def _micros(words: str) -> int | None:
    """Return the length of a time of days and parts of days; None for other ones."""
    if not _LENGTH.fullmatch(words):
        return None
    found = re.findall(r"(\d+)\s*([a-z]+?)s?(?=[\s\d]|$)", words)
    return sum(int(number) * _MICROS[unit] for number, unit in found)


def _without_quotes(argument: str) -> str:
    words = argument.strip().lower().removeprefix("interval").strip()
    return re.sub(r"[\s'\"]+", " ", words).strip()


def _months(argument: str) -> int:
    """Return the months of a length in months, quarters or years, 0 for other ones."""
    found = _MONTHS.fullmatch(_without_quotes(argument))
    return 0 if found is None else int(found[1]) * {"m": 1, "q": 3, "y": 12}[found[2][0]]


_UNITS = {1: "MONTH", 3: "QUARTER", 12: "YEAR"}
_MONTHS = re.compile(r"(\d+) (months?|quarters?|years?)")
_MICROS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_LENGTH = re.compile(rf"(?:\d+\s*(?:{'|'.join(_MICROS)})s?\s*)+")
_SOME_LENGTH = re.compile(
    rf"(?:[+-]?\s*\d+(?:\.\d*)?\s*(?:{'|'.join([*_MICROS, 'month', 'quarter', 'year'])})s?\s*)+"
)
"""Texts that may be lengths, also of months and of parts of seconds."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a window function: the number of its name's token, its extent in the text."""

    at: int
    start: int
    end: int
    arguments: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """A GROUP BY with windows: where it ends, and the extent of the condition of its HAVING."""

    calls: tuple[_Call, ...]
    end: int
    having: tuple[int, int] | None
    at: int


def _groups_of(tokens: Sequence[Token]) -> Iterator[_Group]:
    for at, token in enumerate(tokens):
        if token.kind != "GROUP_BY":
            continue
        stop = _clause_end(tokens, at + 1)
        calls = tuple(_calls(tokens, range(at + 1, stop)))
        if not calls:
            continue
        having = None
        if stop < len(tokens) and tokens[stop].kind == "HAVING":
            last = _clause_end(tokens, stop + 1)
            having = (tokens[stop].end + 1, tokens[last - 1].end + 1)
        yield _Group(calls, tokens[stop - 1].end + 1, having, at)


def _calendar(text: str, tokens: Sequence[Token], call: _Call) -> str | None:
    """Return the window of months that a call names as a value with a start and an end, or None."""
    if not tokens[call.at].text.lower().startswith("tumble") or len(call.arguments) != 2:
        return None
    time, length = (_argument(text, tokens, each) for each in call.arguments)
    months = _months(length)
    if not months or 12 % months:
        return None
    start = f"date_trunc('{_UNITS.get(months, 'YEAR')}', {time})"
    if months not in _UNITS:
        part = f"(month({time}) - 1) div {months} * {months}"
        start = f"({start} + make_ym_interval(0, cast({part} as int)))"
    return f"named_struct('start', {start}, 'end', {start} + make_ym_interval(0, {months}))"


def _where(tokens: Sequence[Token], group: _Group, test: str) -> Iterator[Edit]:
    """Yield the edits that exclude rows before a GROUP BY, where names can only mean columns."""
    depth, before = 0, group.at
    for at in range(group.at - 1, -1, -1):
        kind = tokens[at].kind
        depth += {"R_PAREN": 1, "L_PAREN": -1}.get(kind, 0)
        if depth < 0 or (depth == 0 and kind in {"SELECT", "WHERE"}):
            break
    else:
        at = -1
    end = tokens[before - 1].end + 1
    if at >= 0 and depth == 0 and tokens[at].kind == "WHERE":
        start = tokens[at].end + 1
        yield start, start, " ("
        yield end, end, f") AND {test}"
    else:
        yield end, end, f" WHERE {test}"


def _clause_end(tokens: Sequence[Token], start: int) -> int:
    """Return the number of the token that follows a clause."""
    depth = 0
    for at in range(start, len(tokens)):
        kind = tokens[at].kind
        if kind in {"L_PAREN", "L_BRACKET"}:
            depth += 1
        elif kind in {"R_PAREN", "R_BRACKET"}:
            depth -= 1
            if depth < 0:
                return at
        elif depth == 0 and kind in _ENDS and not _is_name(tokens, at):
            return at
    return len(tokens)


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the word WINDOW is a name here: the clause is `WINDOW w AS`."""
    behind = tokens[at + 2].kind if at + 2 < len(tokens) else None
    return tokens[at].kind == "WINDOW" and behind != "ALIAS"


def _calls(tokens: Sequence[Token], within: range) -> Iterator[_Call]:
    for at in within:
        if _is_call(tokens, at) and tokens[at].text.lower() in _COLUMNS:
            yield _call(tokens, at)


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    after = tokens[at + 1].kind if at + 1 < len(tokens) else None
    before = tokens[at - 1].kind if at else None
    return (
        after == "L_PAREN"
        and before not in {"DOT", "ALIAS", "OVER"}
        and (tokens[at].kind != "IDENTIFIER")
    )


def _call(tokens: Sequence[Token], at: int) -> _Call:
    depth, first = 0, at + 2
    arguments: list[tuple[int, int]] = []
    for number in range(at + 1, len(tokens)):
        kind = tokens[number].kind
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(kind, 0)
        if (depth == 0 and kind == "R_PAREN") or (depth == 1 and kind == "COMMA"):
            if number > first:
                arguments.append((first, number))
            first = number + 1
        if depth == 0:
            break
    return _Call(at, tokens[at].start, tokens[number].end + 1, tuple(arguments))


def _rename_edits(text: str, tokens: Sequence[Token], call: _Call) -> Iterator[Edit]:
    """Yield the edits that turn a form Spark lacks into one that it has."""
    name = tokens[call.at].text.lower()
    if name in {"window", "session_window"}:
        return
    if (calendar := _calendar(text, tokens, call)) is not None:
        yield call.start, call.end, calendar
        return
    time, *spans = (_argument(text, tokens, each) for each in call.arguments)
    if name == "hop":
        spans[:2] = spans[1::-1]  # HOP names the step before the size
    yield call.start, call.end, f"{_COLUMNS[name]}({', '.join([time, *spans])})"


def _argument(text: str, tokens: Sequence[Token], at: tuple[int, int]) -> str:
    """Return an argument as text; an interval becomes the string that Spark's windows take."""
    first, end = at
    if tokens[first].kind == "INTERVAL" and end - first in {2, 3}:
        return "'" + " ".join(each.text for each in tokens[first + 1 : end]) + "'"
    return text[tokens[first].start : tokens[end - 1].end + 1]


def _parts(text: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield the edits of TUMBLE_START and similar functions."""
    names = {
        f"{form}_{part}": (form, part) for form in ("tumble", "hop", "session") for part in _PARTS
    }
    for at, token in enumerate(tokens):
        found = names.get(token.text.lower())
        if found is None or not _is_call(tokens, at):
            continue
        call, (form, part) = _call(tokens, at), found
        column = _calendar(text, tokens, call) or _COLUMNS[form]
        value = f"{column}.start" if part == "start" else f"{column}.end"
        if part == "rowtime":
            value = f"({column}.end - INTERVAL '0.001' SECOND)"
        yield call.start, call.end, value


def _sessions(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield the edits that make sessions values of whole groups, wherever a SELECT names them."""
    before, after = _WHOLE_GROUP.split("{}")
    both = ", ".join(
        f"{_WHOLE_GROUP.format(f'{_SESSION}.{part}')} AS {part}" for part in _PARTS[:2]
    )
    for group in _groups_of(tokens):
        if not _is_of_sessions(tokens, group):
            continue
        for first, last, name in _mentions(tokens, group):
            start, end = tokens[first].start, tokens[last].end + 1
            if tokens[last].kind == "STAR":
                yield start, end, both
                continue
            yield start, start, before
            yield end, end, after + (f" AS `{name}`" if name else "")


def _is_of_sessions(tokens: Sequence[Token], group: _Group) -> bool:
    return any(_COLUMNS[tokens[call.at].text.lower()] == _SESSION for call in group.calls)


def _mentions(tokens: Sequence[Token], group: _Group) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last tokens that name a session of a group, and the name of an item.

    The name is empty where a session is but a part of an item, or the item has one.  Those inside
    of aggregates are left out: there a session is that of one row.
    """
    clause, plain = "", list[bool]()
    for at in _select(tokens, group):
        kind = tokens[at].kind
        if kind in {"L_PAREN", "L_BRACKET"}:
            query = tokens[at + 1].kind in {"SELECT", "WITH"}
            plain.append(not query and _is_of_groups(tokens[at - 1]))
        elif kind in {"R_PAREN", "R_BRACKET"}:
            plain.pop()
        elif not plain and kind in _CLAUSES and not _is_name(tokens, at):
            clause = kind
        elif clause in _OF_GROUPS and all(plain) and (found := _mention(tokens, at)):
            last, name = found
            before, after = tokens[at - 1].kind, _kind(tokens, last + 1)
            item = before in {"SELECT", "DISTINCT", "COMMA"} and after in {"COMMA", "FROM"}
            yield at, last, name if item and not plain else ""


def _select(tokens: Sequence[Token], group: _Group) -> range:
    """Return the numbers of the tokens of the SELECT that a GROUP BY is in."""
    depth, start = 0, group.at
    while start > 0 and (depth or tokens[start].kind != "SELECT"):
        start -= 1
        depth += {"R_PAREN": 1, "L_PAREN": -1}.get(tokens[start].kind, 0)
    depth, end = 0, group.at
    while end < len(tokens) and (depth or tokens[end].kind not in {*_SETS, "R_PAREN"}):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(tokens[end].kind, 0)
        end += 1
    return range(start, end)


def _mention(tokens: Sequence[Token], at: int) -> tuple[int, str] | None:
    """Return the last token of a session, or a part of one, that begins here; and what it is."""
    word, called = tokens[at].text.lower(), _is_call(tokens, at)
    if tokens[at - 1].kind in {"DOT", "ALIAS", "R_PAREN", "VAR", "IDENTIFIER"}:
        return None
    form, _, part = word.partition("_")
    if called and form == "session" and part in _PARTS:
        return _last(tokens, at), "start" if part == "start" else ""
    if word != _SESSION and not (called and _COLUMNS.get(word) == _SESSION):
        return None
    last = _last(tokens, at) if called else at
    if _kind(tokens, last + 1) != "DOT":
        return last, _SESSION
    return last + 2, tokens[last + 2].text


def _kind(tokens: Sequence[Token], at: int) -> str | None:
    return tokens[at].kind if at < len(tokens) else None


def _last(tokens: Sequence[Token], at: int) -> int:
    """Return the number of the last token of a call."""
    end = _call(tokens, at).end
    return next(last for last in range(at, len(tokens)) if tokens[last].end + 1 == end)


def _is_of_groups(before: Token) -> bool:
    """Return whether parentheses behind a token may contain a value of a group."""
    word = before.text.lower()
    if before.kind == "FILTER":
        return False
    return not word.isidentifier() or word in _FREE or (word in SCALARS and word != "window_time")


def waits(steps: Sequence[QueryStep]) -> bool:
    """Return whether rows of a query wait for the watermark.  Raises SqlTextError."""
    return any(has_windows(step.statement) or as_of_joins(step.statement) for step in steps)


def longest_wait(steps: Sequence[QueryStep]) -> int | None:
    """Return how far beyond a row's time its window may end, in milliseconds.

    None if windows are as long as an expression says.  Raises SqlTextError.
    """
    queries = [step.statement for step in steps]
    lengths = [longest_window(each) if has_windows(each) else 0 for each in queries]
    known = [length for length in lengths if length is not None]
    return max(known, default=0) if len(known) == len(lengths) else None
