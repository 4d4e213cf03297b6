"""Ranges of event times: parts of about equal size, in each of which rows are sorted alone.

Spark finds such ranges by a pass of its own over all rows, with all columns.  The files of a source
tell them by one column of some of their row groups.  Ranges that are not equal cost time only: the
rows and their order are the same.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import FilePart, Frame
from odfbuild.executors.engine.arrow.hidden_names import PREFIX
from odfbuild.executors.engine.spark.cluster.driver import functions
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGE_BYTES: Final = 24 << 20
"""Of the files of a source, what becomes one range: two of them are sorted in memory at a time."""

_MOST_RANGES: Final = 128  # so that the expression stays short
_MOST_GROUPS: Final = 16  # row groups that are looked at
_ROWS: Final = 1 << 12  # of each of them

Place = tuple[int | None, int]
"""An event time as Spark counts it, or none, and the position of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Ranges of one column of times; each but the first begins at one of `borders`, in order.

    `position` is the column with the position of each row; `name` that for the number of its range.
    """

    time: str
    kind: pa.DataType
    borders: tuple[Place, ...]
    position: str
    name: str

    @property
    def number(self) -> str:
        """Return the expression for the number of the range of a row."""
        return f"{self._between(0, len(self.borders))} AS {quoted(self.name)}"

    def _between(self, first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last + 1) // 2
        later, earlier = self._between(middle, last), self._between(first, middle - 1)
        return f"if({self._reaches(self.borders[middle - 1])}, {later}, {earlier})"

    def _reaches(self, border: Place) -> str:
        """Return the test that a row does not come before a border, which is never null."""
        time, position = quoted(self.time), quoted(self.position)
        value, at = border
        if value is None:
            return f"{time} IS NOT NULL OR {position} >= {at}"
        of = "date_from_unix_date" if pa.types.is_date(self.kind) else "timestamp_micros"
        begin = f"{of}({value})"
        return f"coalesce({time} > {begin} OR ({time} = {begin} AND {position} >= {at}), false)"

    def sorted_rows(self, rows: "DataFrame") -> "DataFrame":
        """Return rows that have `number` and their position in order, and without these two.

        The order is that of the time, nulls first, then of the position.
        """
        column = functions(rows).col
        parts = rows.repartitionById(len(self.borders) + 1, column(quoted(self.name)))
        order = (column(quoted(self.time)).asc_nulls_first(), column(quoted(self.position)))
        return parts.sortWithinPartitions(*order).drop(self.name, self.position)


def ranges_of(source: Frame, time: str, hidden: str = PREFIX) -> Ranges | None:
    """Return the ranges of the rows of a source in files; None where they are one, or not known.

    `hidden` begins the names of the columns that are put beside those of the source.
    """
    if time not in source.schema.names or not source.parts:
        return None
    kind = source.schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        return None
    files = source.files
    count = -(-sum(_bytes(part) for part in files) // RANGE_BYTES)
    if count < 2:
        return None
    places = sorted(_sample(files, time), key=_order)
    count = min(count, _MOST_RANGES, len(places))
    borders = [places[number * len(places) // count] for number in range(1, count)]
    distinct = tuple(each for each, _ in groupby(borders))
    return Ranges(
        time=time, kind=kind, borders=distinct, position=f"{hidden}pos", name=f"{hidden}range"
    )


def _order(place: Place) -> tuple[bool, int, int]:
    value, at = place
    return value is not None, value or 0, at


def _bytes(part: FilePart) -> int:
    return part.path.stat().st_size


def _sample(files: Sequence[FilePart], time: str) -> Iterator[Place]:
    """Yield the places of some rows, from all over the files."""
    groups = list(_groups(files))
    step = max(1, -(-len(groups) // _MOST_GROUPS))
    for part, number, first in groups[::step]:
        with pq.ParquetFile(part.path) as file:
            found = file.read_row_group(number, columns=[time]).column(time)
        every = max(1, len(found) // _ROWS)
        chosen = found.take(pa.array(range(0, len(found), every)))
        for at, value in enumerate(_counted(chosen).to_pylist()):
            yield value, first + at * every


def _groups(files: Sequence[FilePart]) -> Iterator[tuple[FilePart, int, int]]:
    """Yield the row groups of files, with the position of the first row of each."""
    before = 0
    for part in files:
        footer, at = pq.read_metadata(part.path), before - part.start
        for number in range(footer.num_row_groups):
            rows = footer.row_group(number).num_rows
            if rows:
                yield part, number, at
            at += rows
        before += part.rows


def _counted(times: Any) -> Any:
    """Return times as Spark counts them: microseconds, or days."""
    if pa.types.is_date32(times.type):
        return times.cast(pa.int32())
    return pc.cast(times, pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
