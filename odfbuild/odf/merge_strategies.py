"""Merge strategies: their columns, and what sets each apart (ODF 0.34.1, "MergeStrategy").  Pure.

What a strategy makes of rows is a statement of each engine; all else follows from `TRAITS`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odfbuild.values import dataclass


class History(Enum):
    """What a merge needs of the rows before it, by the name that condensed histories have for it.

    KEYS: the keys, of which later rows are left out.  TIMES: the event times of rows that are taken
    back.  ROWS: the last row of each key.
    """

    NOTHING = "nothing"
    KEYS = "keys"
    TIMES = "times"
    ROWS = "rows"


class Operations(Enum):
    """Whether a source has a column that says what each row does.

    REQUIRED: it is recorded as it stands, so what it takes back has to be there.
    """

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTraits:
    """What sets a strategy apart; texts are clauses that say why something is refused.

    `is_whole` tells that each input is the whole table, so that the last one counts alone.
    `no_column` is about a column that is given up, None if all rows stay forever; `no_late` and
    `no_changed` are about late and corrected files of a source, None if these may be read.
    """

    history: History
    operations: Operations = Operations.NONE
    is_whole: bool = False
    no_column: str | None = None
    no_late: str | None = None
    no_changed: str | None = None


_TWICE = "it appends every row of a file, so rows that exist already would be there twice"

TRAITS: Final[Mapping[type[MergeStrategy], MergeTraits]] = {
    MergeStrategyAppend: MergeTraits(history=History.NOTHING, no_late=_TWICE, no_changed=_TWICE),
    MergeStrategyLedger: MergeTraits(
        history=History.KEYS,
        no_changed="a row whose key exists already is left out, corrected or not",
    ),
    MergeStrategySnapshot: MergeTraits(
        history=History.ROWS,
        is_whole=True,
        no_column="a snapshot is compared with all columns of its history",
        no_late="each file is the state of the table, and a later one was read",
    ),
    MergeStrategyUpsertStream: MergeTraits(
        history=History.ROWS,
        operations=Operations.OPTIONAL,
        no_column="newest values are compared with all columns of the history",
        no_late="its rows would replace those of files that come after it",
    ),
    MergeStrategyChangelogStream: MergeTraits(
        history=History.TIMES,
        operations=Operations.REQUIRED,
        no_column="a retraction repeats all columns of a row",
        no_late="a changelog means something in its own order only",
        no_changed=_TWICE,
    ),
}

_NEWER = "the strategy is of a newer version, so what it does with rows is not known"
_UNKNOWN: Final = MergeTraits(
    history=History.ROWS, no_column=_NEWER, no_late=_NEWER, no_changed=_NEWER
)


def traits_of(strategy: MergeStrategy) -> MergeTraits:
    """Return what sets a strategy apart; one of a newer version may take rows back."""
    return TRAITS.get(type(strategy), _UNKNOWN)


def name_of(strategy: type[MergeStrategy]) -> str:
    """Return what definitions call a strategy."""
    return strategy.__name__.removeprefix("MergeStrategy")


def key_of(strategy: MergeStrategy) -> tuple[str, ...]:
    """Return the columns of the primary key; none if the strategy has no key."""
    return tuple(getattr(strategy, "primary_key", ()))


def compared_columns(strategy: MergeStrategy) -> tuple[str, ...]:
    """Return the columns that are named as those by which a row changed; none stand for all."""
    return tuple(getattr(strategy, "compare_columns", None) or ())


def only_adds(strategy: MergeStrategy) -> bool:
    """Tell whether rows stay forever: none is corrected, or taken back with all its columns."""
    return traits_of(strategy).no_column is None


def skips_keys(strategy: MergeStrategy) -> bool:
    """Tell whether a row is left out if its key was there before."""
    return traits_of(strategy).history is History.KEYS


def reads_operations(strategy: MergeStrategy) -> bool:
    """Tell whether a source may have a column that says what each row does."""
    return traits_of(strategy).operations is not Operations.NONE


def records_operations(strategy: MergeStrategy) -> bool:
    """Tell whether what that column says is recorded as it stands, so that it must be there."""
    return traits_of(strategy).operations is Operations.REQUIRED
