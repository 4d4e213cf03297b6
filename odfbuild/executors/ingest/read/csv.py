"""CSV into typed columns (ODF 0.34.1, "ReadStep::Csv").

Arrow splits the text into cells, `values` gives them their types.  A row appended to the file
shows that the last quote was closed.  Problems are located afterwards with Python's own parser,
which counts lines, so that good files are read at full speed.

With `header`, columns bind by NAME when one set of names contains the other, and always with
`columns: by-name` or `union`: a declared column that the file lacks is null, one that is not
declared is dropped.  Otherwise they bind by POSITION as in the reference, which needs equal counts,
and common names in the same places.  An unquoted empty cell is null; a quoted one is the empty text
in text columns and null in all others.  The same holds for `nullValue`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from odfbuild.executors.data.fine_times import FineTimes, note_piece, noting
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read.csv_bad_rows import Diversion
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes, SchemaDrift, Spool
from odfbuild.executors.ingest.read.options import LARGE, collected, empty, formats_of
from odfbuild.executors.ingest.read.problems import (
    InvalidSourceError,
    Rejected,
    counted,
    quoted,
    refusal,
)
from odfbuild.executors.ingest.read.text import (
    CsvText,
    TextRecord,
    check_encoding,
    dialect_of,
    problem_of,
    record_blocks,
)
from odfbuild.executors.ingest.read.values import (
    Column,
    Formats,
    cast_columns,
    check_readable,
    expected,
    fits,
    infer,
    sieve_columns,
)
from odfbuild.host.ahead import in_order
from odfbuild.odf.events import ReadStepCsv
from odfbuild.odf.schema.arrow import declared_schema
from odfbuild.values import dataclass

_LISTED = 10
_BY_NAME = "or `columns: by-name` in the defaults of odfbuild.yaml, if columns come and go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """For each column of the schema the position of its field, None if the file lacks it.

    `width` is the number of fields that each record must have.
    """

    schema: pa.Schema
    positions: tuple[int | None, ...]
    width: int

    @property
    def bound(self) -> frozenset[int]:
        """Return the positions of the fields that are read."""
        return frozenset(at for at in self.positions if at is not None)


def bind(
    name: str,
    declared: pa.Schema,
    header: Sequence[str] | None,
    width: int,
    *,
    by_name: bool = False,
) -> Binding:
    """Bind by name if one set of names contains the other, else by position.

    `header` is None if the file has none; `width` is then the size of its first record.  With
    `by_name`, names that only the file or only the schema has are ignored, as long as there are
    common ones.  Raises InvalidSourceError if the columns cannot be bound.
    """
    if header is None:
        return _by_position(name, declared, width, None)
    names = [field.strip() for field in header]
    ours, theirs = set(declared.names), set(names)
    if by_name and not ours & theirs:
        raise InvalidSourceError(
            what=f"{name}: the header has no column of the schema",
            why=f"it names {listed(names)}, and the columns are bound by name",
            fix="correct `header` or `separator` in `read`, or the names in `schema`",
        )
    if not by_name and not (ours <= theirs or theirs <= ours):
        return _by_position(name, declared, len(names), names)
    twice = sorted(n for n in ours if names.count(n) > 1)
    if twice:
        raise InvalidSourceError(
            what=f"{name}: the header names {quoted(twice[0])} {names.count(twice[0])} times",
            why="columns are bound by name, so each name must be one column",
            fix="rename the columns in the file, or give each of them another name in `schema`: "
            "the columns then bind by position",
        )
    lacking = [f.name for f in declared if not f.nullable and f.name not in theirs]
    if lacking:
        raise InvalidSourceError(
            what=f"{name}: the header lacks the required column {lacking[0]}",
            why=f"it names {listed(names)}",
            fix="correct the name, or make the column optional",
        )
    positions = tuple(names.index(n) if n in theirs else None for n in declared.names)
    return Binding(schema=declared, positions=positions, width=len(names))


def check_is_header(
    name: str, declared: pa.Schema, header: Sequence[str], formats: Formats, null_value: str
) -> None:
    """Refuse a first line that looks like a record, where the columns bind by position.

    A line looks like a record if it contains no name of the schema, and each value for a column
    other than text has the type of that column.
    """
    names = [field.strip() for field in header]
    if len(names) != len(declared) or set(names) & set(declared.names):
        return
    typed = [
        (text, column)
        for text, column in zip(header, declared, strict=True)
        if not pa.types.is_string(column.type) and text.strip() not in ("", null_value)
    ]
    if typed and all(fits(text, column.type, formats) for text, column in typed):
        text, column = typed[0]
        raise InvalidSourceError(
            what=f"{name}: the first line looks like a record, not like a header:"
            f" {listed([quoted(each) for each in header])}",
            why=f"`header: true` skips it, and {quoted(text)} is {expected(column.type, formats)} "
            f"for {column.name}; it contains no name of the schema",
            fix="write `header: false` in `read`; if it is a header, use its names in `schema`",
        )


def check_is_record(name: str, declared: pa.Schema, first: Sequence[str]) -> None:
    """Refuse a first record that is a header: it names the columns, in their order."""
    if len(declared) > 1 and [field.strip() for field in first] == declared.names:
        raise InvalidSourceError(
            what=f"{name}: the first line is a header: {listed(declared.names)}",
            why="`header` is false, so it would become a record",
            fix="write `header: true` in `read`",
        )


def check_header(name: str, header: Sequence[str]) -> None:
    """Refuse a header that is not all text, before its names are used."""
    for at, field in enumerate(header, start=1):
        if any("\udc80" <= sign <= "\udcff" for sign in field):
            shown = quoted(field.encode("utf-8", "surrogateescape").decode("latin-1"))
            raise InvalidSourceError(
                what=f"{name}: field {at} of the header has bytes that are not UTF-8: {shown}",
                why="columns are known by name, so a name must be text",
                fix="correct the file, or set `encoding` in `read`",
            )


def unbound(
    name: str,
    header: Sequence[str] | None,
    sample: Sequence[Sequence[str]],
    width: int,
    *,
    formats: Formats | None,
    null_value: str,
) -> Binding:
    """Make a schema from the header, and with `formats` types from a sample; all optional."""
    names = [f.strip() or f"column_{i}" for i, f in enumerate(header or [""] * width, start=1)]
    twice = sorted(n for n in set(names) if names.count(n) > 1)
    if twice:
        raise InvalidSourceError(
            what=f"{name}: the header names {quoted(twice[0])} {names.count(twice[0])} times",
            why="without a schema the header gives the columns their names",
            fix="declare `schema` in `read`; columns then bind by position if names differ",
        )
    types = [pa.string()] * width
    if formats is not None:
        types = [_shown_type(sample, at, formats, null_value) for at in range(width)]
    fields = [pa.field(n, t) for n, t in zip(names, types, strict=True)]
    return Binding(schema=pa.schema(fields), positions=tuple(range(width)), width=width)


def drift_of(
    binding: Binding,
    header: Sequence[str] | None,
    records: Iterable[TextRecord],
    formats: Formats,
    null_value: str,
) -> SchemaDrift:
    """Return how the header differs from the schema; `records` show types, if that is needed."""
    if header is None:
        return SchemaDrift()
    names, ours = [field.strip() for field in header], binding.schema.names
    if None not in binding.positions and len(names) == len(ours) and set(names) != set(ours):
        pairs = [pair for pair in zip(names, ours, strict=True) if pair[0] != pair[1]]
        # a name that none or several have can only be another one in the schema
        return SchemaDrift(renamed=tuple(e for e in pairs if e[0] and names.count(e[0]) == 1))
    added = [at for at, name in enumerate(names) if name and name not in ours]
    sample = [record.fields for record in records] if added else []
    return SchemaDrift(
        added=tuple(
            pa.field(names[at], _shown_type(sample, at, formats, null_value)) for at in added
        ),
        missing=tuple(name for name in ours if name not in names),
    )


def _shown_type(
    sample: Sequence[Sequence[str]], at: int, formats: Formats, null_value: str
) -> pa.DataType:
    """Return the type that the cells of a column have in a sample."""
    nothing = {"", null_value}
    cells = [row[at] for row in sample if at < len(row)]
    try:
        return infer(pa.array([None if c in nothing else c for c in cells], pa.string()), formats)
    except UnicodeEncodeError:  # bytes that are not UTF-8: reading the rows says so
        return pa.string()


def _by_position(
    name: str, declared: pa.Schema, width: int, names: Sequence[str] | None
) -> Binding:
    if len(declared) != width:
        raise InvalidSourceError(
            what=f"{name}: {counted(width, 'column')} in the file, {len(declared)} in the schema",
            why="without a header columns bind by position, which needs equal counts"
            if names is None
            else f"{difference(names, declared.names)}; neither contains the other, and binding by "
            "position needs equal counts",
            fix=_remedy(names),
        )
    there = declared.names if names is None else names
    pairs = zip(declared.names, there, strict=True)
    moved = [each for each, other in pairs if each != other and each in there]
    if moved:
        raise _header_error(name, declared, there, moved[0])
    return Binding(schema=declared, positions=tuple(range(width)), width=width)


def _header_error(
    name: str, declared: pa.Schema, names: Sequence[str], moved: str
) -> InvalidSourceError:
    ours = sorted(set(declared.names) - set(names))
    theirs = sorted(set(names) - set(declared.names))
    return InvalidSourceError(
        what=f"{name}: the header has {listed(theirs)} instead of {listed(ours)}",
        why=f"columns would bind by position, but {moved} is in another place than in the schema",
        fix=f"correct the names in `read.schema`, or put its columns in the order of the file; "
        f"{_BY_NAME}",
    )


def difference(names: Sequence[str], ours: Sequence[str]) -> str:
    """Describe how two lists of names differ."""
    there = [name for name in names if name not in ours]
    here = [name for name in ours if name not in names]
    words = [f"only the file has {listed(there)}"] if there else []
    words += [f"only the schema has {listed(here)}"] if here else []
    return "; ".join(words) or "they are in another order"


def _remedy(names: Sequence[str] | None) -> str:
    if names is None:
        return "declare every column of the file, in its order"
    other = [sign for sign in ";\t|," if len(names) == 1 and sign in names[0]]
    if other:
        return f"set `separator: {other[0]!r}` in `read`"
    return f"correct the names in `read.schema`, or declare every column in order; {_BY_NAME}"


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


_SAMPLE: Final = 1000
_THREADS: Final = 2
_AHEAD: Final = 4  # blocks that are read before they are asked for
_LARGEST_BLOCK: Final = 64 << 20
_COUNTED: Final = 100


def read_csv(
    step: ReadStepCsv, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return the rows in the declared types; None if there is no record and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for options.
    """
    source = CsvText(path, name, check_encoding(step.encoding), dialect_of(step))
    job = _job(step, source, notes)
    if job is None:
        declared = declared_schema(step)
        return None if declared is None else empty(declared)
    try:
        if notes.bad_rows is None:
            return job.run(staging, notes.held)
        return _read_diverting(job, notes.bad_rows, staging, notes.held)
    except pa.ArrowInvalid as error:
        raise job.explained(error) from None


def csv_record_lines(step: ReadStepCsv, path: Path, name: str) -> Iterator[int]:
    """Yield the line, from 1, on which each record begins, without the header."""
    source = CsvText(path, name, check_encoding(step.encoding), dialect_of(step))
    return (each.line for each in islice(source.records(), bool(step.header), None))


def is_csv_bound_alike(step: ReadStepCsv, path: Path, name: str) -> bool:
    """Tell whether columns bind by name alone as they do otherwise; see `ReadNotes.by_name`."""
    positions = []
    for by_name in (False, True):
        source = CsvText(path, name, check_encoding(step.encoding), dialect_of(step))
        try:
            job = _job(step, source, ReadNotes(by_name=by_name))
        except InvalidSourceError:
            return False
        positions.append(() if job is None else job.binding.positions)
    return positions[0] == positions[1]


def _read_diverting(job: "_Job", bad_rows: BadRowFile, staging: Path, held: int) -> Frame:
    """Read the good rows, and put the others aside."""
    with closing(Spool(staging)) as spool:
        diversion = Diversion(
            source=job.source,
            width=job.binding.width,
            bound=job.binding.bound,
            skipped=job.skipped,
            end=job.end,
            read=job.cells,
            sieve=job.sieved,
            spool=spool,
        )
        schema = job.binding.schema
        tables = diversion.tables(job.records())
        if job.is_large():
            frame = collected(tables, schema, staging, held)
        else:
            frame = Frame.of(pa.concat_tables([schema.empty_table(), *tables]))
        diversion.put(bad_rows)
        return frame


def _job(step: ReadStepCsv, source: CsvText, notes: ReadNotes) -> "_Job | None":
    """Bind the columns by the first records; None if there are no records."""
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
        elif not notes.by_name:
            check_is_header(source.name, declared, header, formats, null_value)
        binding = bind(source.name, declared, header, width, by_name=notes.by_name)
        notes.drift = drift_of(binding, header, islice(records, _SAMPLE), formats, null_value)
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
    """One read of one file: how its cells become columns."""

    source: CsvText
    binding: Binding
    formats: Formats
    null_value: str
    skipped: int

    def run(self, staging: Path, held: int) -> Frame:
        if self.is_large():
            return collected(self._pieces(), self.binding.schema, staging, held)
        return Frame.of(pa.concat_tables([self.binding.schema.empty_table(), *self._pieces()]))

    def is_large(self) -> bool:
        return self.source.path.stat().st_size > LARGE

    def records(self) -> Iterator[bytes]:
        """Yield the text, with a row appended, in blocks of complete records."""
        content = chain(self.source.blocks(), [self._ending()])
        return record_blocks(content, self.source.dialect, self.source.name, self.source.blocks)

    def cells(self, block: bytes, handler: Callable[[Any], str] | None = None) -> pa.Table:
        """Read the records of one block; the handler is called for those of another width."""
        return arrow_csv.read_csv(
            pa.BufferReader(block),
            self._read_options(),
            self._parse_options(handler),
            self._convert_options(),
        )

    def sieved(self, cells: pa.Table) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
        """Return the rows that fit, and the problems of the others, by row."""
        columns = self._columns(cells)
        return sieve_columns(columns, self.binding.schema, self.formats, cells.num_rows)

    def explained(self, error: Exception) -> InvalidSourceError:
        """Return the error behind Arrow's: an open quote, rows of the wrong width, bad bytes."""
        wrong: list[tuple[int, str]] = []
        last: TextRecord | None = None
        for record in self.source.records(self._ending()):
            problem = problem_of(record, self.binding.width, self.binding.bound)
            if problem is not None and len(wrong) <= _COUNTED:
                wrong.append((record.line, problem))
            last = record
        if last is None or last.fields != [self.end] * self.binding.width:
            return _quote_error(self.source.name, 1 if last is None else last.line)
        if wrong:
            return refusal(
                self.source.name,
                wrong[:_COUNTED],
                more=len(wrong) > _COUNTED,
                why=f"every record must have {self.binding.width} fields like the first one, "
                "in UTF-8",
                fix="correct the file, or `separator`, `quote`, `escape`, `encoding` in `read`",
            )
        return InvalidSourceError(
            what=f"{self.source.name} cannot be read as CSV",
            why=str(error),
            fix="correct the file, or `separator`, `quote`, `escape`, `encoding` in `read`",
        )

    def _pieces(self) -> Iterator[pa.Table]:
        """Yield the rows, read by threads a block each, in order."""
        blocks = _marked_ends(self.records())
        start = 0
        with ThreadPoolExecutor(_THREADS, "blocks") as threads:
            for piece in in_order(threads, self._piece, blocks, _AHEAD):
                yield self._accepted(piece, start)
                start += piece.records

    def _piece(self, block: "_Block") -> "_Piece":
        """Read the records of a block."""
        cells, fine = self.cells(block.text), FineTimes()
        records = cells.num_rows
        if block.is_first:
            cells = cells.slice(self.skipped)
        if block.is_last:
            cells = self._without_end(cells)
        try:
            with noting(fine):
                return _Piece(self._table(cells), records, fine)
        except Rejected as rejected:
            return _Piece(rejected, records, fine)

    def _accepted(self, piece: "_Piece", start: int) -> pa.Table:
        """Return the rows of a piece; `start` is the number of its first record in the file."""
        if isinstance(piece.rows, Rejected):
            raise self._refusal(piece.rows, start or self.skipped) from None
        note_piece(piece.fine)
        return piece.rows

    def _table(self, cells: pa.Table) -> pa.Table:
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

    def _refusal(self, rejected: Rejected, start: int) -> InvalidSourceError:
        """Return the error for a block; of a file that is not large, with what the others have.

        Raises ArrowInvalid if there are records that are none.
        """
        if self.is_large():
            return self._rejection(rejected, start)
        cells = pa.concat_tables(self.cells(block.text) for block in _marked_ends(self.records()))
        try:
            self._table(self._without_end(cells).slice(self.skipped))
        except Rejected as every:
            return self._rejection(every, self.skipped)
        return self._rejection(rejected, start)  # the file was written meanwhile

    def _rejection(self, rejected: Rejected, start: int) -> InvalidSourceError:
        """Turn rows of a batch into lines of the file."""
        rows = {start + bad.row for bad in rejected.found}
        numbered = enumerate(islice(self.source.records(), max(rows) + 1))
        at = {row: record.line for row, record in numbered if row in rows}
        return rejected.at_lines(self.source.name, lambda row: at[start + row])

    def _without_end(self, cells: pa.Table) -> pa.Table:
        """Drop the row appended to the file; if it is missing, a quote is open."""
        last = cells.num_rows - 1
        if last < 0 or cells.column(0)[last].as_py() != self.end:
            raise pa.ArrowInvalid("the last quoted value is not closed")
        return cells.slice(0, last)

    @property
    def end(self) -> str:
        """The text of each cell of the row appended to the file."""
        dialect = self.source.dialect
        return next(c for c in "\4\5\6" if c not in {dialect.separator, dialect.quote}) * 8

    def _ending(self) -> bytes:
        row = self.source.dialect.separator.join([self.end] * self.binding.width)
        return f"\n{row}\n".encode()

    def _read_options(self) -> arrow_csv.ReadOptions:
        return arrow_csv.ReadOptions(
            column_names=[str(position) for position in range(self.binding.width)],
            block_size=_LARGEST_BLOCK,
            use_threads=False,
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


@dataclass(frozen=True, slots=True)
class _Block:
    """Complete records of a text, which may be its first or its last ones."""

    text: bytes
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of a block, or what is wrong with them; its records, and the times that were cut."""

    rows: pa.Table | Rejected
    records: int
    fine: FineTimes


def _marked_ends(texts: Iterable[bytes]) -> Iterator[_Block]:
    """Yield blocks of records; a block of blank lines has none, and is left out."""
    waiting, is_first = b"", True
    for text in texts:
        if not _is_blank(waiting):
            yield _Block(waiting, is_first, False)
            is_first = False
        waiting = text
    yield _Block(waiting, is_first, True)


def _is_blank(text: bytes) -> bool:
    """Tell whether a text has blank lines only; most are not copied to say so."""
    return text[:1] in (b"", b"\r", b"\n") and not text.strip(b"\r\n")


def _quote_error(name: str, line: int) -> InvalidSourceError:
    return InvalidSourceError(
        what=f"{name}:{line}: a quoted value of this record is never closed",
        why="the file ends inside the value",
        fix="correct the file, or set `escape: ''` or `quote: ''` in `read`",
    )
