"""Places in the text of a query of what DataFusion refuses: names of columns."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import PlacedQueryError, QueryPlace, RefusedQueryError
from odfbuild.sql.text.statement import SqlTextError, Token
from odfbuild.sql.text.steps import QueryStep

_PART: Final = r'(?:"(?:[^"]|"")*"|[^\s".]+)'
_NAME: Final = rf"({_PART}(?:\.{_PART})*)"
_UNKNOWN: Final = re.compile(rf"No field named {_NAME}\.(?=\s|$)")
_AMBIGUOUS: Final = re.compile(rf"Ambiguous reference to unqualified field {_NAME}(?=\s|$)")
_MEANT: Final = re.compile(rf"Did you mean '{_NAME}'\?")
_VALID: Final = re.compile(r"Valid fields are (.+?)\.?$")
_PARTS: Final = re.compile(_PART)
_LISTED: Final = re.compile(rf"{_PART.replace('.]', '.,]')}(?:\.{_PART.replace('.]', '.,]')})*")


def placed(error: InvalidQueryError, steps: Sequence[QueryStep]) -> InvalidQueryError:
    """Return an error of DataFusion with its place in the text, if it is about a name there."""
    if isinstance(error, PlacedQueryError | RefusedQueryError):
        return error
    unknown = _UNKNOWN.search(error.what)
    found = unknown or _AMBIGUOUS.search(error.what)
    at = None if found is None else _place(_parts(found[1]), steps)
    if found is None or at is None:
        return error
    if unknown is None:
        return PlacedQueryError(error.what, error.why, error.fix, at=at)
    name, meant, valid = found[1], _MEANT.search(error.what), _VALID.search(error.what)
    columns = "names are case-sensitive"
    if valid is not None:
        columns = f"the columns there are {valid[1]}; {columns}"
    fix = "correct the name"
    if meant is not None:
        wanted = _as_short(meant[1], name, "" if valid is None else valid[1])
        is_plain = '"' not in name + wanted
        fix = f"did you mean '{wanted}'?" if is_plain else f"perhaps {wanted} is meant"
    return PlacedQueryError(f"there is no column '{name}'", columns, fix, at=at)


def _as_short(meant: str, name: str, valid: str) -> str:
    """Return a column without its table, if the text names none and one table has the column."""
    if len(_parts(name)) > 1:
        return meant
    last = _PARTS.findall(meant)[-1]
    tables = [each for each in _LISTED.findall(valid) if _PARTS.findall(each)[-1] == last]
    return str(last) if len(tables) == 1 else meant


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a qualified name, without quotes."""
    return tuple(
        each[1:-1].replace('""', '"') if each.startswith('"') else each
        for each in _PARTS.findall(name)
    )


def _place(name: tuple[str, ...], steps: Sequence[QueryStep]) -> QueryPlace | None:
    """Return where a name is first; None if it is in no text as it is in the message."""
    for number, step in enumerate(steps):
        try:
            tokens = step.statement.tokens
        except SqlTextError:
            return None
        for parts, first, last in _names(tokens):
            if parts == name:
                return QueryPlace(number, first.start, last.end + 1 - first.start)
    return None


def _names(tokens: Sequence[Token]) -> Iterator[tuple[tuple[str, ...], Token, Token]]:
    """Yield names that a text reads, each with all that qualifies it, and their ends."""
    at = 0
    while at < len(tokens):
        end = at
        while end + 2 < len(tokens) and tokens[end + 1].kind == "DOT":
            end += 2
        is_new = at > 0 and tokens[at - 1].kind == "ALIAS"
        if tokens[at].kind != "STRING" and not is_new:
            yield tuple(each.text for each in tokens[at : end + 1 : 2]), tokens[at], tokens[end]
        at = end + 1
