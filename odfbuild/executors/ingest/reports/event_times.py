"""Missing event times of an input: set to that of its source, else to that of the run.

That is the rule of the reference.  An empty cell becomes a time that looks like any other and
moves the watermark, so it is reported.
"""

from typing import Final

import pyarrow.compute as pc

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.engine.context import NO_EVENT_TIME
from odfbuild.executors.ingest.reports.repeated_keys import shown
from odfbuild.odf.timestamp import Timestamp
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_NAMED: Final = 3  # columns of the first row that are shown, where its number is not known
_WIDTH: Final = 40
_WHY: Final = (
    "a row without an event time gets that of its source, or of the run where the source has none, "
    "as in the reference: it is no time of the data, and the watermark may pass rows yet to come"
)
_FIX: Final = (
    "correct the source; declare {column} NOT NULL, so that such rows are bad rows (`bad_rows: "
    "divert` in the defaults of odfbuild.yaml puts them aside); or leave them out in `preprocess` "
    "(WHERE {column} IS NOT NULL), or give them a time there (coalesce)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelessRows:
    """Rows that an input adds without an event time: how many of how many, which is the first."""

    rows: int
    of: int
    first: int
    merged: Frame
    column: str

    @classmethod
    def among(cls, merged: Frame, column: str) -> "TimelessRows | None":
        """Return those of the rows of a merge; None if all have a time, or the column is none."""
        nulls, first = _nulls(merged, column)
        if not nulls:
            return None
        return cls(rows=nulls, of=merged.rows, first=first, merged=merged, column=column)

    def report(
        self, name: str, number: int | None, given: str, watermark: Timestamp | None
    ) -> Diagnostic:
        """Return the warning; `number` is that of the first one, `given` is what they got."""
        place = self._values() if number is None else f"row {number:,}"
        rows = "row" if self.of == 1 else "rows"
        to = "" if watermark is None else f"; the watermark is {watermark}"
        return Diagnostic(
            code=NO_EVENT_TIME,
            what=f"{self.rows:,} of {self.of:,} {rows} of {name} without an event time in "
            f"{self.column!r}, first {place}: given {given}{to}",
            why=_WHY,
            fix=_FIX.format(column=self.column),
            span=None,
            level=Level.WARNING,
        )

    def number_in(self, source: Frame | None) -> int | None:
        """Return which row of an input, from 1, is the first; None where not all were added.

        `source` has the rows of the input as they were read, where these have the column as it is.
        """
        if source is None:
            return None
        nulls, first = _nulls(source, self.column)
        return first + 1 if nulls == self.rows else None

    def _values(self) -> str:
        row = python_rows(next(self.merged.slice(self.first, 1).batches()))[0]
        columns = [
            f"{name} = {excerpt(shown(value), _WIDTH)}"
            for name, value in list(row.items())[1:]
            if name != self.column
        ]
        return ", ".join(columns[:_NAMED]) or f"row {self.first + 1:,}"


def _nulls(frame: Frame, column: str) -> tuple[int, int]:
    """Count the nulls of a column; return the number of the first row that has one, too."""
    if column not in frame.schema.names:
        return 0, 0
    if frame.table is None and not any(each.may_have_nulls(column) for each in frame.parts):
        return 0, 0
    nulls, first, rows = 0, 0, 0
    for batch in frame.select([column]).batches():
        values = batch.column(0)
        if values.null_count and not nulls:
            first = rows + pc.index(values.is_null(), True).as_py()
        nulls += values.null_count
        rows += len(values)
    return nulls, first
