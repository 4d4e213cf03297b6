"""CSV files with bad records: good ones read, bad ones put aside.

A record is bad by its number of fields, by bytes that are not text, or by a value.  Blocks of
complete records are read one by one; line numbers are looked up only in blocks with bad records,
and the texts of these at the end, by reading the file once more.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, TypeAlias

import pyarrow as pa

from odfbuild.executors.ingest.read.notes import BadRowFile, Spool
from odfbuild.executors.ingest.read.problems import InvalidSourceError, counted
from odfbuild.executors.ingest.read.text import CsvText, TextRecord, problem_of, records, spans
from odfbuild.executors.ingest.read.values import without_rows
from odfbuild.values import dataclass

_Found: TypeAlias = Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversion:
    """A read of a file that leaves out bad records; good ones have `width` fields.

    Those at the positions `bound` must be text, from 0; what else a record has is not read.
    The first `skipped` records are not rows, nor is the last one, whose cells are `end`.  `read`
    turns complete records into cells, `sieve` cells into rows.
    """

    source: CsvText
    width: int
    bound: Collection[int]
    skipped: int
    end: str
    read: Callable[[bytes, Callable[[Any], str]], pa.Table]
    sieve: Callable[[pa.Table], tuple[pa.Table, _Found]]
    spool: Spool

    def tables(self, blocks: Iterable[bytes]) -> Iterator[pa.Table]:
        """Yield the good rows; raises ArrowInvalid if the last quoted value is not closed."""
        line, skipped = 1, self.skipped
        waiting: _Block | None = None
        for text in blocks:
            if text.strip(b"\r\n"):
                if waiting is not None:
                    yield self._table(waiting)
                waiting = self._block(text, line, skipped)
                skipped = 0
            line += len(text.splitlines()) if b"\r" in text else text.count(b"\n")
        if waiting is not None:
            yield self._table(waiting.without_end(self.end))

    def put(self, bad_rows: BadRowFile) -> None:
        """Write the records left out to the file of bad rows."""
        groups = self.source.lines()
        first, waiting = 1, list[bytes]()
        for line, last, reasons in self.spool:
            while last >= first + len(waiting):
                more = next(groups, None)
                if more is None:
                    raise self._undetermined_error()
                kept = waiting[max(0, line - first) :]
                first += len(waiting) - len(kept)
                waiting = kept + more
            bad_rows.put(line, reasons, b"".join(waiting[line - first : last - first + 1]))

    def _block(self, text: bytes, line: int, skipped: int) -> "_Block":
        wrong: dict[int, int] = {}

        def skip(row: Any) -> str:
            wrong[row.number - 1] = row.actual_columns
            return "skip"

        bytes_fit = _is_text(text)
        plain = text if bytes_fit else text.decode(errors="replace").encode()
        return _Block(text, line, skipped, self.read(plain, skip), wrong, bytes_fit)

    def _table(self, block: "_Block") -> pa.Table:
        """Return the good rows of a block, and add the others to the spool."""
        where = None if block.is_clean else self._spans(block)
        bad = {row: [self._width(count)] for row, count in block.wrong.items()}
        if where is not None:
            bad |= self._undecodable(block, where, bad)
            self._check_doubtful(block, where, bad)
        rows = block.rows
        leave: list[int] = []
        if bad or block.skipped:
            leave = [at for at, row in enumerate(rows) if row in bad or row < block.skipped]
        table, misfits = self.sieve(without_rows(block.cells, leave))
        if misfits:
            where = self._spans(block) if where is None else where
            left = set(leave)
            rows = [row for at, row in enumerate(rows) if at not in left]
            bad |= {rows[at]: list(reasons) for at, reasons in misfits.items()}
        for row in sorted(bad):
            assert where is not None  # noqa: S101 - looked up for whatever is bad
            first, last = where[row]
            self.spool.add(block.line + first, block.line + last, bad[row])
        return table

    def _width(self, count: int) -> str:
        return f"{counted(count, 'field')} instead of {self.width}"

    def _spans(self, block: "_Block") -> Sequence[tuple[int, int]]:
        """Return the first and last line, from 0, of each record; parse them only if need be."""
        lines = block.text.splitlines()
        there = [at for at, line in enumerate(lines) if line]
        if len(there) == block.size:
            return [(at, at) for at in there]
        whole = block.text.decode(errors="surrogateescape")
        found = spans(_lines(whole), self.source.dialect)
        if len(found) != block.size:
            raise self._undetermined_error()
        return found

    def _undecodable(
        self, block: "_Block", where: Sequence[tuple[int, int]], bad: _Found
    ) -> Mapping[int, list[str]]:
        """Return the problems of records with bytes that are not text."""
        if block.bytes_fit:
            return {}
        lines = block.text.splitlines(keepends=True)
        starts = [first for first, _ in where]
        at = [number for number, line in enumerate(lines) if not _is_text(line)]
        found: dict[int, list[str]] = {}
        for row in dict.fromkeys(bisect_right(starts, number) - 1 for number in at):
            first, last = where[row]
            text = b"".join(lines[first : last + 1]).decode(errors="surrogateescape")
            for record in records(_lines(text), self.source.dialect, self.source.name):
                problem = problem_of(record, self.width, self.bound)
                if problem is not None and row not in bad:
                    found[row] = [problem]
        return found

    def _check_doubtful(
        self, block: "_Block", where: Sequence[tuple[int, int]], bad: _Found
    ) -> None:
        """Raise for a bad header, and for a bad record that an open quote may have made."""
        if all(row >= block.skipped and where[row][0] == where[row][1] for row in bad):
            return
        for number, record in enumerate(self.source.records()):
            problem = problem_of(record, self.width, self.bound)
            if problem is not None:
                self._check_record(number, record, problem)
        raise self._undetermined_error()

    def _check_record(self, number: int, record: TextRecord, problem: str) -> None:
        if number < self.skipped:
            raise InvalidSourceError(
                what=f"{self.source.name}:{record.line}: {problem}",
                why="this is the header, without which no row can be read",
                fix="correct the file, or `encoding` in `read`",
            )
        if record.last > record.line:
            raise InvalidSourceError(
                what=f"{self.source.name}:{record.line}: {problem}, up to line {record.last}",
                why="a bad row of several lines cannot be distinguished from an unclosed quote",
                fix="correct the file, or set `escape: ''` or `quote: ''` in `read`",
            )

    def _undetermined_error(self) -> InvalidSourceError:
        return InvalidSourceError(
            what=f"{self.source.name}: which rows are bad cannot be determined",
            why="the records that were read do not match the lines of the file",
            fix="correct the file, or set `bad_rows: refuse`, which reports the first bad rows",
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """Complete records: the cells of those with the right number of fields, others in `wrong`.

    `line` is where the first begins in the file.  The last `ends` records were appended to it.
    """

    text: bytes
    line: int
    skipped: int
    cells: pa.Table
    wrong: Mapping[int, int]
    bytes_fit: bool
    ends: int = 0

    @property
    def size(self) -> int:
        """The number of records."""
        return int(self.cells.num_rows) + len(self.wrong) + self.ends

    @property
    def is_clean(self) -> bool:
        """Whether all records have the right number of fields, in UTF-8."""
        return self.bytes_fit and not self.wrong

    @property
    def rows(self) -> Sequence[int]:
        """The number of the record of each row of cells."""
        numbers = range(self.size - self.ends)
        return [at for at in numbers if at not in self.wrong] if self.wrong else numbers

    def without_end(self, end: str) -> "_Block":
        """Drop the row appended to the file; raises ArrowInvalid if it is missing."""
        last = self.cells.num_rows - 1
        if last < 0 or self.cells.column(0)[last].as_py() != end:
            raise pa.ArrowInvalid("the last quoted value is not closed")
        kept = self.cells.slice(0, last)
        return _Block(self.text, self.line, self.skipped, kept, self.wrong, self.bytes_fit, 1)


def _lines(text: str) -> Sequence[str]:
    return list(StringIO(text, newline=""))


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
