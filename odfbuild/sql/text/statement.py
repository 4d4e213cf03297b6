"""One SQL statement as plain values: its names, calls, stars and clauses, each with its place."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from odfbuild.sql.text.shape import Name, TextPlace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.text.shape import QueryShape


CLOCK_WORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
SESSION_WORDS = frozenset({"current_user", "session_user", "current_catalog", "current_database"})
_UNDATED = re.compile(r"[\0- \x7f]*(?:T\d|\d{1,2}:|(?i:now|today|tomorrow|yesterday))", re.ASCII)


def is_undated(text: str) -> bool:
    """Tell whether a text is a time by the clock when it is cast to one: 'now', '12:34'."""
    return _UNDATED.match(text) is not None


def folded(name: str) -> str:
    r"""Return a name as those are alike that Java takes for one without regard to case.

    `\u017f` is an S there, `\u0131` and `\u0130` an I: each character for itself.
    """
    if name.isascii():
        return name.lower()
    upper = (each if len(each.upper()) > 1 else each.upper() for each in name)
    return "".join(each.lower()[0] for each in upper)


class Token(NamedTuple):
    """A word or sign of a text: its kind as sqlglot calls it, the offsets of its first and last
    character, and the 1-based line and column of the first.

    `text` is what it says: of a string or a quoted name without the quotes.
    """

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int

    @property
    def place(self) -> TextPlace:
        return TextPlace(self.start, self.end + 1 - self.start, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Star:
    """One `*`; `exclusion` spans what is in the parentheses of its `EXCEPT (...)`."""

    place: TextPlace
    carries: bool
    exclusion: tuple[int, int] | None
    excluded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one SELECT statement says; `bars` is what keeps it from working row by row.

    `tokens` are what the text consists of, for changes of it in place.
    """

    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    selects: tuple[int, ...]
    stars: tuple[Star, ...]
    alias_lists: tuple[int, ...]
    tables: tuple[Name, ...]
    columns: tuple[Name, ...]
    aliases: tuple[Name, ...]
    relations: frozenset[str]
    calls: tuple[Name, ...]
    empty_calls: tuple[Name, ...]
    words: tuple[Name, ...]
    bars: tuple[Name, ...]
    outputs: tuple[str, ...] | None
    ordered: bool
    unites: bool
    shape: QueryShape


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFusionStatement(Statement):
    """One SELECT statement in DataFusion's dialect; its shape tells nothing but equal texts.

    `flow` is the shape in which columns pass through it, and nothing else; `stray` are words that
    may be columns which the parser took for something else.  `compared` is a shape whose parts are
    equal where they mean the same, and `said` its words: those of equal statements are equal.

    `sent` is the text for the engine: without comments, and with quotes around every name that it
    would take for something else.  `carries` are the offsets in it at which columns are put first
    in each SELECT list that has no star to bring them.  `skips` tells of an OFFSET without a number
    of rows as LIMIT.
    """

    sent: str
    carries: tuple[int, ...]
    skips: bool
    flow: QueryShape
    stray: frozenset[str]
    compared: QueryShape
    said: tuple[str, ...]

    def carrying(self, columns: str) -> str:
        """Return the text for the engine with some columns carried through every SELECT."""
        parts, at = [], 0
        for place in self.carries:
            parts += [self.sent[at:place], f" {columns}, "]
            at = place
        return "".join([*parts, self.sent[at:]])


class SqlTextError(ValueError):
    """The text is not one readable SELECT statement; `place` is where reading stopped."""

    def __init__(self, code: str, message: str, place: TextPlace) -> None:
        super().__init__(message)
        self.code = code
        self.place = place
