"""Read CSV into typed columns (ODF 0.34.1, "ReadStep::Csv").

Arrow splits the text into cells, `columns` gives them their types.  A row after the end of the
file proves that the last quote was closed.  What is wrong is found again with Python's own
parser, which knows the lines; so a good file never pays for the messages of a bad one.

With `header` columns bind by NAME when one set of names contains the other: a declared column
that the file lacks is null, one that is not declared is dropped; so it is with any header where a
source asks for that.  Otherwise they bind by POSITION
as in the reference, which needs equal counts, and each name that both have in its place.  An
unquoted empty cell is null; a quoted one is the empty text in text columns and null in all others,
and so it is with `nullValue`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from odfbuild.executors.frames import Frame
from odfbuild.executors.readers.aside import Aside, Spool
from odfbuild.executors.readers.binding import (
    Binding,
    bind,
    check_header,
    check_is_header,
    check_is_record,
    drift_of,
    unbound,
)
from odfbuild.executors.readers.columns import cast_columns, check_readable, sieve_columns
from odfbuild.executors.readers.csv_diversion import Diversion
from odfbuild.executors.readers.csv_text import CsvText, problem_of
from odfbuild.executors.readers.drift import Besides
from odfbuild.executors.readers.options import declared_schema, formats_of
from odfbuild.executors.readers.problems import InvalidSourceError, Rejected, refusal
from odfbuild.executors.readers.quoting import Record, dialect_of, whole_records
from odfbuild.executors.readers.sink import LARGE, empty, on_disk
from odfbuild.executors.readers.text import BLOCK, WholeBlocks, check_encoding
from odfbuild.executors.readers.values import Column, Formats
from odfbuild.odf.events import ReadStepCsv

__all__ = ["read_csv"]

_SAMPLE: Final = 1000
_LARGEST_BLOCK: Final = 64 << 20
_COUNTED: Final = 100


def read_csv(
    step: ReadStepCsv, path: Path, *, staging: Path, name: str, besides: Besides
) -> Frame | None:
    """Return the rows in the declared types; None if there is no record and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for options.
    """
    source = CsvText(path, name, check_encoding(step.encoding), dialect_of(step))
    job = _job(step, source, besides)
    if job is None:
        declared = declared_schema(step)
        return None if declared is None else empty(declared)
    try:
        if besides.aside is None:
            return job.run(staging)
        return _diverted(job, besides.aside, staging)
    except pa.ArrowInvalid as error:
        raise job.explained(error) from None


def _diverted(job: "_Job", aside: Aside, staging: Path) -> Frame:
    """Read the rows that are good, and put the others aside."""
    with closing(Spool(staging)) as spool:
        diversion = Diversion(
            source=job.source,
            width=job.binding.width,
            skipped=job.skipped,
            end=job.end,
            read=job.cells,
            sieve=job.sieved,
            spool=spool,
        )
        schema = job.binding.schema
        tables = diversion.tables(job.records())
        if job.source.path.stat().st_size > LARGE:
            frame = on_disk(tables, schema, staging)
        else:
            frame = Frame.of(pa.concat_tables([schema.empty_table(), *tables]))
        diversion.put(aside)
        return frame


def _job(step: ReadStepCsv, source: CsvText, besides: Besides) -> "_Job | None":
    """Look at the first records and bind them; None if there are none."""
    formats = formats_of(step)
    declared = declared_schema(step)
    if declared is not None:
        check_readable(declared)
    has_header = bool(step.header)
    records = source.records()
    first = list(islice(records, has_header + _SAMPLE if step.infer_schema else 1))
    if not first:
        return None
    header = first[0].fields if has_header else None
    if header is not None:
        check_header(source.name, header)
    width = len(first[0].fields)
    null_value = step.null_value or ""
    if declared is not None:
        if header is None:
            check_is_record(source.name, declared, first[0].fields)
        elif not besides.by_name:
            check_is_header(source.name, declared, header, formats, null_value)
        binding = bind(source.name, declared, header, width, by_name=besides.by_name)
        besides.drift = drift_of(binding, header, islice(records, _SAMPLE), formats, null_value)
    else:
        sample = [record.fields for record in first[has_header:]]
        types = formats if step.infer_schema else None
        binding = unbound(source.name, header, sample, width, formats=types, null_value=null_value)
    return _Job(
        source=source,
        binding=binding,
        formats=formats,
        null_value=null_value,
        skipped=1 if has_header else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One reading of one file: how its cells become columns."""

    source: CsvText
    binding: Binding
    formats: Formats
    null_value: str
    skipped: int

    def run(self, staging: Path) -> Frame:
        if self.source.path.stat().st_size > LARGE:
            return on_disk(self._pieces(), self.binding.schema, staging)
        cells = arrow_csv.read_csv(
            self._content(),
            self._read_options(use_threads=self.source.path.stat().st_size > BLOCK),
            self._parse_options(),
            self._convert_options(),
        )
        rows = self._without_end(cells).slice(self.skipped)
        return Frame.of(self._typed(rows, self.skipped))

    def records(self) -> Iterator[bytes]:
        """Yield the text, and a row after its end, in blocks of whole records."""
        content = chain(self.source.blocks(), [self._ending()])
        return whole_records(content, self.source.dialect, self.source.name)

    def cells(self, block: bytes, handler: Callable[[Any], str]) -> pa.Table:
        """Read the records of one block; the handler is told those of another width."""
        return arrow_csv.read_csv(
            pa.BufferReader(block),
            self._read_options(use_threads=False),
            self._parse_options(handler),
            self._convert_options(),
        )

    def sieved(self, cells: pa.Table) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
        """Return the rows that fit, and what is wrong with the others, by row."""
        columns = self._columns(cells)
        return sieve_columns(columns, self.binding.schema, self.formats, cells.num_rows)

    def explained(self, error: Exception) -> InvalidSourceError:
        """Find what Arrow stumbled over: open quotes, rows of the wrong width, bad bytes."""
        wrong: list[tuple[int, str]] = []
        last: Record | None = None
        for record in self.source.records(self._ending()):
            problem = problem_of(record, self.binding.width)
            if problem is not None and len(wrong) <= _COUNTED:
                wrong.append((record.line, problem))
            last = record
        if last is None or last.fields != [self.end] * self.binding.width:
            return _unclosed(self.source.name, 1 if last is None else last.line)
        if wrong:
            return refusal(
                self.source.name,
                wrong[:_COUNTED],
                more=len(wrong) > _COUNTED,
                why=f"every record must have the {self.binding.width} fields of the first one, "
                "in UTF-8",
                fix="correct the file, or `separator`, `quote`, `escape`, `encoding` in `read`",
            )
        return InvalidSourceError(
            what=f"{self.source.name} cannot be read as CSV",
            why=str(error),
            fix="correct the file, or `separator`, `quote`, `escape`, `encoding` in `read`",
        )

    def _content(self) -> pa.PythonFile:
        return pa.PythonFile(WholeBlocks(self.records()), "r")

    def _pieces(self) -> Iterator[pa.Table]:
        reader = arrow_csv.open_csv(
            self._content(),
            self._read_options(use_threads=True),
            self._parse_options(),
            self._convert_options(),
        )
        start = 0
        held: pa.Table | None = None
        for batch in reader:
            if not batch.num_rows:
                continue
            if held is not None:
                yield self._typed(held, start)
                start += held.num_rows
            held = pa.Table.from_batches([batch])
            if not start:
                held, start = held.slice(self.skipped), self.skipped
        if held is not None:
            yield self._typed(self._without_end(held), start)

    def _typed(self, cells: pa.Table, start: int) -> pa.Table:
        """Give the cells their types; `start` is the number of the first record in the file."""
        try:
            return self._made(cells)
        except Rejected as rejected:
            raise self._located(rejected, start) from None

    def _made(self, cells: pa.Table) -> pa.Table:
        schema = self.binding.schema
        made = cast_columns(self._columns(cells), schema, self.formats, cells.num_rows)
        return pa.Table.from_arrays(made, schema=schema)

    def _columns(self, cells: pa.Table) -> list[Column | None]:
        bound = zip(self.binding.positions, self.binding.schema, strict=True)
        return [self._cells(cells, position, field) for position, field in bound]

    def _cells(self, cells: pa.Table, position: int | None, field: pa.Field) -> Column | None:
        if position is None:
            return None
        column = cells.column(str(position))
        if not self.null_value or pa.types.is_string(field.type):
            return column
        nothing = pa.scalar(None, pa.string())
        return pc.if_else(pc.equal(column, self.null_value), nothing, column)

    def _located(self, rejected: Rejected, start: int) -> InvalidSourceError:
        """Turn rows of a batch into lines of the file."""
        rows = {start + bad.row for bad in rejected.found}
        numbered = enumerate(islice(self.source.records(), max(rows) + 1))
        at = {row: record.line for row, record in numbered if row in rows}
        return rejected.at_lines(self.source.name, lambda row: at[start + row])

    def _without_end(self, cells: pa.Table) -> pa.Table:
        """Take off the row that was put after the end; if it is not there, a quote is open."""
        last = cells.num_rows - 1
        if last < 0 or cells.column(0)[last].as_py() != self.end:
            raise pa.ArrowInvalid("the last quoted value is not closed")
        return cells.slice(0, last)

    @property
    def end(self) -> str:
        """The cells of the row that is put after the end of the file."""
        dialect = self.source.dialect
        return next(c for c in "\4\5\6" if c not in {dialect.separator, dialect.quote}) * 8

    def _ending(self) -> bytes:
        row = self.source.dialect.separator.join([self.end] * self.binding.width)
        return f"\n{row}\n".encode()

    def _read_options(self, *, use_threads: bool) -> arrow_csv.ReadOptions:
        return arrow_csv.ReadOptions(
            column_names=[str(position) for position in range(self.binding.width)],
            block_size=_LARGEST_BLOCK,
            use_threads=use_threads,
        )

    def _parse_options(self, handler: Callable[[Any], str] | None = None) -> arrow_csv.ParseOptions:
        dialect = self.source.dialect
        return arrow_csv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote or False,
            double_quote=True,
            escape_char=False,
            newlines_in_values=False,  # of blocks, none of which ends in a value
            invalid_row_handler=handler,
        )

    def _convert_options(self) -> arrow_csv.ConvertOptions:
        names = [str(position) for position in self.binding.positions if position is not None]
        return arrow_csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=["", self.null_value],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=True,
        )


def _unclosed(name: str, line: int) -> InvalidSourceError:
    return InvalidSourceError(
        what=f"{name}:{line}: a quoted value of this record is never closed",
        why="the file ends inside of the value",
        fix="correct the file, or set `escape: ''` or `quote: ''` in `read`",
    )
