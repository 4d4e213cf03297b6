"""Read the good records of a CSV file, and put the bad ones aside.

A record is bad before it is read, by its number of fields or by bytes that are no text, or after
it, by a value.  Which lines those are is only looked up when there are some, at the end, by reading
the file once more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from odfbuild.executors.readers.aside import Aside, Spool, sift
from odfbuild.executors.readers.csv_text import CsvText, problem_of
from odfbuild.executors.readers.problems import InvalidSourceError
from odfbuild.executors.readers.quoting import Record
from odfbuild.executors.readers.text import BLOCK

__all__ = ["Diversion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversion:
    """What is left out of one reading of a file, whose records have `width` fields.

    The first `skipped` records are no rows.  When `sieving`, records that are not as wide as the
    others, or no text, are taken out of the text that is read.
    """

    source: CsvText
    width: int
    skipped: int
    sieving: bool
    misfits: Spool

    def blocks(self) -> Iterator[bytes]:
        """Yield the text to be read."""
        return self._sieved() if self.sieving else self.source.blocks()

    def sifted(
        self, cells: pa.Table, start: int, make: Callable[[pa.Table], pa.Table], schema: pa.Schema
    ) -> pa.Table:
        """Return the rows that `make` takes; `start` is the number of the first among the read."""

        def some(rows: Sequence[int]) -> pa.Table:
            return make(cells if len(rows) == cells.num_rows else cells.take(list(rows)))

        tables, bad = sift(range(cells.num_rows), some)
        self.misfits.add({start + row: reasons for row, reasons in bad.items()})
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def put(self, aside: Aside, good: int) -> None:
        """Put aside what was left out; `good` rows were taken in."""
        if not self.sieving and not self.misfits.size:
            return
        read, structural = -self.skipped, 0
        waiting = iter(self.misfits)
        due = next(waiting, None)
        written = self.source.lines(as_written=True)
        for record, row in _with_text(self.source.records(), written):
            problem = self._problem(record)
            if problem is not None:
                structural += 1
                aside.put(record.line, [problem], row)
                continue
            read += 1
            if due is not None and due[0] == read + self.skipped - 1:
                aside.put(record.line, due[1], row)
                due = next(waiting, None)
        if read != good + self.misfits.size:
            raise self._uncertain(good, read)

    def _sieved(self) -> Iterator[bytes]:
        rewritten = self.source.lines(as_written=False)
        held = bytearray()
        for number, (record, text) in enumerate(_with_text(self.source.records(), rewritten)):
            if self._problem(record) is not None:
                self._refuse_doubt(number, record)
                continue
            held += text
            if len(held) >= BLOCK:
                yield bytes(held)
                held.clear()
        yield bytes(held)

    def _problem(self, record: Record) -> str | None:
        if not self.sieving:
            return None
        return problem_of(record, self.width)

    def _refuse_doubt(self, number: int, record: Record) -> None:
        """Refuse what may be no bad row but a bad file."""
        problem = problem_of(record, self.width)
        if number < self.skipped:
            raise InvalidSourceError(
                what=f"{self.source.name}:{record.line}: {problem}",
                why="this is the header, without which no row is known",
                fix="correct the file, or `encoding` in `read`",
            )
        if record.last > record.line:
            raise InvalidSourceError(
                what=f"{self.source.name}:{record.line}: {problem}, up to line {record.last}",
                why="a bad row of several lines cannot be told from a quote that is not closed",
                fix="correct the file, or set `escape: ''` or `quote: ''` in `read`",
            )

    def _uncertain(self, good: int, read: int) -> InvalidSourceError:
        return InvalidSourceError(
            what=f"{self.source.name}: which rows are bad cannot be told",
            why=f"{good + self.misfits.size:,} rows were read, and {read:,} are there",
            fix="correct the file, or refuse bad rows to see the first ones: `bad_rows: refuse`",
        )


def _with_text(records: Iterator[Record], text: Iterator[str]) -> Iterator[tuple[Record, bytes]]:
    """Yield records with the text of their lines, line ends included."""
    line = 1
    for record in records:
        before, own = record.line - line, record.last - record.line + 1
        held = "".join(islice(islice(text, before + own), before, None))
        line = record.last + 1
        yield record, held.encode("utf-8", "surrogateescape")
