"""One SQL statement as plain values: its names, calls, stars and clauses, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.odf.events import TransformSql
from odfbuild.sql.text.shape import Name, Place

if TYPE_CHECKING:
    from odfbuild.sql.text.shape import Query


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
    upper = (each if len(each.upper()) > 1 else each.upper() for each in name)
    return "".join(each.lower()[0] for each in upper)


@dataclass(frozen=True, slots=True)
class Star:
    """One `*`; `exclusion` spans what stands in the parentheses of its `EXCEPT (...)`."""

    place: Place
    carries: bool
    exclusion: tuple[int, int] | None
    excluded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one SELECT statement says; `bars` is what keeps it from working row by row."""

    text: str
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
    shape: Query


class SqlTextError(ValueError):
    """The text is not one readable SELECT statement; `place` is where reading stopped."""

    def __init__(self, code: str, message: str, place: Place) -> None:
        super().__init__(message)
        self.code = code
        self.place = place


Keys: TypeAlias = "tuple[tuple[str, tuple[str, ...]], ...]"


@dataclass(frozen=True, slots=True)
class QueryStep:
    """One statement of a transform; only the last step has no alias ("SqlQueryStep").

    `temporal` are the tables whose versions it may read ("TemporalTable"), equal in all steps.
    """

    alias: str | None
    text: str
    temporal: Keys = ()


def steps_of(transform: TransformSql) -> tuple[QueryStep, ...]:
    """Return the statements of a transform; a lone `query` is one step without alias."""
    keys = tuple((each.name, each.primary_key) for each in transform.temporal_tables or ())
    if transform.queries is not None:
        return tuple(QueryStep(step.alias, step.query, keys) for step in transform.queries)
    return () if transform.query is None else (QueryStep(None, transform.query, keys),)
