"""Policies of datasets beyond their definitions, as plain values.

They come from the project file, so that they are reviewed with it; the planner only reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import date
from enum import Enum
from typing import TypeAlias

from odfbuild.errors import SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass


class Severity(Enum):
    """What a rule that applies does to the gate."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


class OnQueryChange(Enum):
    """What another query does to the rows that were written by the one before."""

    FORWARD = "forward"
    RESTATE = "restate"


class BadRows(Enum):
    """What becomes of a row of a source that cannot be read."""

    REFUSE = "refuse"
    DIVERT = "divert"


class RepeatedKeys(Enum):
    """What becomes of an input of a Ledger that holds a key several times."""

    WARN = "warn"
    REFUSE = "refuse"


class ColumnsPolicy(Enum):
    """What becomes of an input whose columns are not those of its schema.

    EXACT: it is refused.  BY_NAME: columns bind by name, others are left out, and what lacks is
    null.  UNION: new ones are taken in.
    """

    EXACT = "exact"
    BY_NAME = "by-name"
    UNION = "union"


class EmptyInputs(Enum):
    """What becomes of a polled file of 0 bytes, or without one row."""

    ACCEPT = "accept"
    WARN = "warn"
    REFUSE = "refuse"


class Reread(Enum):
    """What becomes of files of a FilesGlob that its order passes over.

    CHANGED: one that was corrected is read again, and those that were read after it.  LATE: one
    that sorts before the last one is read.  NEVER: both stay unread, and that is meant.
    """

    CHANGED = "changed"
    LATE = "late"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What a project says of how rows are taken in, beyond the source's definition.

    The watermark stays `watermark_lag` milliseconds behind the latest event time, and is moved to
    `watermark_age` milliseconds before now where it is earlier; None: never.  Of diverted rows
    a file may have `max_bad_rows`, or `max_bad_percent` of its rows; None is no bound.  Without
    `reread`, files that are passed over stay unread, with a warning.  Without `columns`, they bind
    by name or position, and what differs is told.
    """

    watermark_lag: int = 0
    watermark_age: int | None = None
    bad_rows: BadRows = BadRows.REFUSE
    max_bad_rows: int | None = None
    max_bad_percent: int | None = None
    repeated_keys: RepeatedKeys = RepeatedKeys.WARN
    reread: Reread | None = None
    columns: ColumnsPolicy | None = None
    empty: EmptyInputs = EmptyInputs.WARN


AS_USUAL = IngestOptions()

_STEPS = (604_800_000, 86_400_000, 3_600_000, 60_000, 1_000)


def watermark_at(age: int, now: Timestamp) -> Timestamp:
    """Return the watermark so many milliseconds before now, as a whole number of steps since 1970.

    A step is the longest of week, day, hour, minute and second of which `age` is a whole number:
    the watermark moves by steps, so that a plan after an apply has nothing to do.
    """
    step = next(each for each in _STEPS if age % each == 0)
    return Timestamp.from_millis((now.nanos // 1_000_000 - age) // step * step)


@dataclass(frozen=True, slots=True)
class Traits:
    """What the project's defaults say of one dataset; manifests hold ODF's own keys only."""

    tags: tuple[str, ...] = ()
    owner: str | None = None
    on_query_change: OnQueryChange = OnQueryChange.FORWARD
    ingest: IngestOptions = AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedDataset:
    """A dataset that goes on under another name: same id, same chain."""

    old: DatasetAlias
    new: DatasetAlias
    span: SourceSpan


def last_names(moved: Sequence[RenamedDataset]) -> dict[DatasetAlias, DatasetAlias]:
    """Return the names that datasets have after all moves, by their old ones; none of a circle."""
    steps = {each.old: each.new for each in moved}
    found = dict(steps)
    for _ in steps:
        found = {old: steps.get(new, new) for old, new in found.items()}
    return {old: new for old, new in found.items() if new not in steps}


GateFinding: TypeAlias = tuple[str, DatasetAlias, str | None]
"""What an acceptance is of: the code of a rule, a dataset, and a column if it is about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One finding of the gate that people agreed to, until a day (that day included).

    `column` is a path such as `address.street`; None where the rule is about the whole dataset.
    """

    code: str
    dataset: DatasetAlias
    column: str | None
    until: date
    reason: str | None
    span: SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """How the gate judges: `breaking` findings in general, single rules by their code.

    A rule's own entry goes before `breaking`.  `max_restated_rows` bounds how many rows a plan may
    restate; None is no bound.  `data` says what becomes of new rows that fail a check.  `places`
    are those of `rules`.
    """

    breaking: Severity = Severity.ERROR
    rules: Mapping[str, Severity] = field(default_factory=dict)
    max_restated_rows: int | None = None
    data: Severity = Severity.OFF
    places: Mapping[str, SourceSpan] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All that a project says on how its changes are judged, and the day on which that is done.

    `now` is the time from which ages of watermarks count, None if they do not.
    """

    today: date
    now: Timestamp | None = None
    gates: Gates = Gates()
    accepted: tuple[Acceptance, ...] = ()
    moved: tuple[RenamedDataset, ...] = ()
