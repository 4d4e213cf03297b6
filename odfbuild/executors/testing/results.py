"""Results of checks on rows, as values."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.testing.model import On, RowCheck
from odfbuild.planner.plan.policy import Severity
from odfbuild.values import dataclass


def cell(value: Any) -> str:
    """Return the text of a value: null, instants with a Z, bytes in hexadecimal digits."""
    match value:
        case None:
            return "null"
        case datetime():
            timespec = "milliseconds" if value.microsecond else "seconds"
            shown = value.astimezone(UTC) if value.tzinfo is not None else value
            return shown.isoformat(timespec=timespec).replace("+00:00", "Z")
        case bytes():
            return value.hex()
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=cell)
        case _:
            return str(value)


SHOWN_ROWS: Final = 5
"""How many failing rows of a check are shown."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that fails a check: its offset, None if that is not known, and the checked values."""

    offset: int | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one check: how many rows fail, and the first of them.

    `said` is a problem that no single row shows, such as too few rows.  `error` is why the check
    could not be run, `skipped` why it was not.
    """

    check: RowCheck
    looked: int = 0
    failing: int = 0
    rows: tuple[BadRow, ...] = ()
    said: str | None = None
    error: Diagnostic | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing was found; a check that was skipped passes."""
        return not self.failing and self.said is None and self.error is None

    @property
    def refused(self) -> bool:
        """Whether the check fails, and does not only warn."""
        return not self.passed and self.check.severity is Severity.ERROR


def row_words(row: BadRow) -> str:
    """Return a row in one line: its offset, and the checked columns."""

    parts = [] if row.offset is None else [f"offset {row.offset:,}"]
    values = ", ".join(f"{name}={cell(value)}" for name, value in row.values.items())
    return ": ".join([*parts, values]) if values else "".join(parts)


def result_diagnostic(result: Result, level: Level, fix: str) -> Diagnostic:
    """Return the result of a check as a finding at its position."""
    check = result.check
    if result.error is not None:
        return result.error
    where = "the new rows" if check.on is On.NEW_ROWS else "the rows"
    if result.said is not None:
        first = f"{where}: {result.said}"
    else:
        verb = "fails" if result.failing == 1 else "fail"
        rows = where.removeprefix("the ")
        if not result.looked:  # a query returns only the rows that fail
            rows = rows.removesuffix("s") if result.failing == 1 else rows
            first = f"{result.failing:,} {rows} {verb}"
        else:
            first = f"{result.failing:,} of {result.looked:,} {rows} {verb}"
    listed = [row_words(each) for each in result.rows]
    if result.failing > len(result.rows) and listed:
        listed.append(f"and {result.failing - len(result.rows):,} more")
    return Diagnostic(
        code="data-check",
        what="\n  ".join([f"check {check.label}: {first}", *listed]),
        why=f"the check is about {where}",
        fix=fix,
        span=check.span,
        level=level,
    )
