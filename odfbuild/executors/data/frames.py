"""Frames: rows on their way between the steps of a build, in memory or in Parquet files."""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from odfbuild.errors import EngineError
from odfbuild.host.files import open_regular
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odfbuild.executors.data.fine_times import Cut


BATCH_ROWS = 1 << 17
BATCH_BYTES = 64 << 20
ALL_ROWS = 1 << 31
"""Rows of a batch for who takes those in memory in one piece, which is not copied."""

_MUCH = 64 << 20  # bytes that are worth giving back to the system
_THREADS = 2  # columns that are copied at a time
_TAIL = 8  # bytes at the end of a Parquet file: the length of its footer, and four letters


class DamagedRowsError(EngineError):
    """A temporary file of rows was changed after it was written."""

    code = "damaged-rows"

    def __init__(self, path: Path) -> None:
        super().__init__(
            what=f"a temporary file of rows is damaged: {path}",
            why="its footer was changed after it was written",
            fix="check the disk of the workspace, then run the command again: none of these rows "
            "were committed",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAmount:
    """How much was read: rows that were looked at, and bytes of columns, as they are stored.

    `of` is the size of all files that might have been read.
    """

    rows: int = 0
    bytes: int = 0
    of: int = 0

    def __add__(self, other: "ReadAmount") -> "ReadAmount":
        return ReadAmount(
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            of=self.of + other.of,
        )


class RowsPart(Protocol):
    """Rows of a frame, in order, wherever they are."""

    @property
    def rows(self) -> int:
        """Count the rows."""

    def cut(self, first: int, end: int) -> "RowsPart":
        """Return the rows from `first` up to, but without, `end`, counted within this part."""

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pa.RecordBatch"]:
        """Yield these columns of the rows in order, at most `rows` at a time."""

    def may_have_nulls(self, column: str) -> bool:
        """Tell whether a column may have nulls, without reading rows."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Rows of a Parquet file: as many as `rows` says, from the row number `start` on.

    `footer` is the `footer_sum` of the file when it was written, None if that is not known.
    """

    path: Path
    start: int
    rows: int
    footer: int | None = None

    @classmethod
    def of_file(cls, path: Path) -> "FilePart":
        """Return all rows of a file, counted in its footer."""
        import pyarrow.parquet as pq

        footer = footer_sum(path)
        return cls(path, 0, int(pq.read_metadata(path).num_rows), footer)

    def cut(self, first: int, end: int) -> "FilePart":
        """Return the rows from `first` up to, but without, `end`, counted within this part."""
        first, end = max(first, 0), min(end, self.rows)
        return replace(self, start=self.start + first, rows=max(0, end - first))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pa.RecordBatch"]:
        """Yield the rows in order, as the file has them, at most `rows` at a time.

        They are never more than `BATCH_ROWS`: texts of many rows may be stored as one.  Raises
        DamagedRowsError.
        """
        if self.footer is not None and footer_sum(self.path) != self.footer:
            raise DamagedRowsError(self.path)
        with opened_file(self.path) as file:
            groups, passed = self._groups(file)
            left = self.rows
            for batch in file_batches(file, columns, min(rows, BATCH_ROWS), groups):
                skipped = min(passed, batch.num_rows)
                passed -= skipped
                wanted = batch.slice(skipped, left)
                left -= wanted.num_rows
                if wanted.num_rows:
                    yield wanted

    def may_have_nulls(self, column: str) -> bool:
        """Tell whether a column may have nulls, by the footer."""
        import pyarrow.parquet as pq

        return may_have_nulls(pq.read_metadata(self.path), column)

    def _groups(self, file: "pq.ParquetFile") -> tuple[list[int], int]:
        """Return the row groups that hold these rows, and how many rows of them come before."""
        groups, before, at = [], 0, 0
        for number in range(file.num_row_groups):
            size = file.metadata.row_group(number).num_rows
            if at + size <= self.start:
                before = at + size
            elif at < self.start + self.rows:
                groups.append(number)
            at += size
        return groups, self.start - before


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows of a table in memory: those at `order`, or `rows` of its own order from `start` on.

    Each column of the table is one array, since rows are picked from all over it.
    """

    table: "pa.Table"
    start: int
    rows: int
    order: "pa.Array | None" = None

    @classmethod
    def of(cls, table: "pa.Table", order: "pa.Array | None" = None) -> "HeldRows":
        """Return all rows of a table, or those at so many places of it, in that order."""
        return cls(table, 0, int(table.num_rows) if order is None else len(order), order)

    @classmethod
    def joined(cls, batches: "list[pa.RecordBatch]", schema: "pa.Schema") -> "HeldRows":
        """Return the columns of `schema` of batches, which are given up column by column."""
        import pyarrow as pa

        columns = [[each.column(name) for each in batches] for name in schema.names]
        batches.clear()
        with ThreadPoolExecutor(_THREADS, "columns") as threads:
            arrays = list(threads.map(_joined, columns, schema.types))
        return cls.of(pa.Table.from_arrays(arrays, schema=schema))

    def cut(self, first: int, end: int) -> "HeldRows":
        """Return the rows from `first` up to, but without, `end`, counted within this part."""
        first, end = max(first, 0), min(end, self.rows)
        return replace(self, start=self.start + first, rows=max(0, end - first))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pa.RecordBatch"]:
        """Yield the rows in order, at most `rows` at a time, and fewer if they are wide.

        Of `ALL_ROWS` they are one batch, however wide.
        """
        chosen = self.table.select(list(columns))
        if rows < ALL_ROWS:
            rows = max(1, min(rows, BATCH_BYTES * chosen.num_rows // max(1, chosen.nbytes)))
        if self.order is None:
            yield from chosen.slice(self.start, self.rows).to_batches(max_chunksize=rows)
            return
        for start in range(0, self.rows, rows):
            places = self.order.slice(self.start + start, min(rows, self.rows - start))
            yield from chosen.take(places).to_batches()

    def may_have_nulls(self, column: str) -> bool:
        """Tell whether a column has nulls, in any row of the table."""
        return bool(self.table.column(column).null_count)


def _joined(arrays: "list[pa.Array]", of: "pa.DataType") -> "pa.Array":
    """Return arrays as one, without a copy of a single one; they are given up."""
    import pyarrow as pa

    if len(arrays) == 1:
        return arrays[0]
    joined = pa.concat_arrays([pa.array([], of), *arrays])
    arrays.clear()
    release_memory(joined.nbytes)
    return joined


def release_memory(freed: int) -> None:
    """Give memory back to the system once so many bytes were freed, unless they are few.

    The next arrays take pages that are kept, and which the system need not clear again.
    """
    import pyarrow as pa

    if freed >= _MUCH:
        pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True)
class Repeated:
    """How many keys are several times among rows, the first of them, and how many rows it has."""

    keys: int
    first: Mapping[str, Any]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Rows in order with their schema: those of `table`, or those of `parts` one after the other.

    A table is of few rows, parts are of many, in files or in memory.  Columns of parts have the
    names of the schema; their types may be other encodings of the
    same values (text as large text), batches come out in the types of `schema`.  `read` is what was
    read of slices to make the rows, None if that was not counted.  `repeated` is set by who looked
    for keys among rows in files, which are too many to be looked at in memory.  `cut` are
    times that the engine cut to milliseconds.  `offered` are the rows that a query gave to a
    merge, `left_out` those of them that it did not take, where they were looked at.
    """

    schema: "pa.Schema"
    table: "pa.Table | None" = None
    parts: tuple[RowsPart, ...] = ()
    read: ReadAmount | None = None
    repeated: Repeated | None = None
    offered: "Frame | None" = None
    left_out: "pa.Table | None" = None
    cut: "tuple[Cut, ...]" = ()

    def __post_init__(self) -> None:
        if self.table is not None and self.parts:
            raise ValueError("a frame is a table or parts")

    @classmethod
    def of(cls, table: "pa.Table") -> "Frame":
        """Return the frame of a table in memory."""
        return cls(schema=table.schema, table=table)

    @classmethod
    def at(cls, *paths: Path, schema: "pa.Schema | None" = None) -> "Frame":
        """Return the frame of Parquet files, by default with the schema that the first reports."""
        import pyarrow.parquet as pq

        known = pq.read_schema(paths[0]) if schema is None else schema
        return cls(schema=known, parts=tuple(FilePart.of_file(path) for path in paths))

    @property
    def rows(self) -> int:
        """Count the rows."""
        if self.table is not None:
            return int(self.table.num_rows)
        return sum(part.rows for part in self.parts)

    @property
    def files(self) -> tuple[FilePart, ...]:
        """Return the parts of a frame that is in files."""
        files = tuple(part for part in self.parts if isinstance(part, FilePart))
        if len(files) < len(self.parts):
            raise ValueError("rows of this frame are in memory, or in a store")
        return files

    def select(self, names: Sequence[str]) -> "Frame":
        """Return the frame with some of its columns only, in the order given."""
        import pyarrow as pa

        if self.table is not None:
            chosen = Frame.of(self.table.select(list(names)))
            return replace(chosen, read=self.read, cut=self.cut)
        kept = pa.schema([self.schema.field(name) for name in names])
        return Frame(schema=kept, parts=self.parts, read=self.read, cut=self.cut)

    def slice(self, start: int, rows: int) -> "Frame":
        """Return the frame of at most so many rows, from row `start` on."""
        if self.table is not None:
            return Frame.of(self.table.slice(start, rows))
        return Frame(schema=self.schema, parts=tuple(_cut(self.parts, start, start + rows)))

    def batches(self, rows: int = BATCH_ROWS) -> Iterator["pa.RecordBatch"]:
        """Yield the rows in order, at most `rows` at a time; a file is never held as a whole."""
        if self.table is not None:
            yield from self.table.to_batches(max_chunksize=rows)
            return
        for part in self.parts:
            for batch in part.batches(self.schema.names, rows):
                yield self._in_schema(batch)

    def _in_schema(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        import pyarrow as pa

        from odfbuild.executors.data.conformance import conform
        from odfbuild.executors.data.fine_times import noting_column

        if batch.schema == self.schema:
            return batch
        columns = []
        for field in self.schema:
            noting_column(field.name)
            columns.append(conform(batch.column(field.name), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cut(parts: Iterable[RowsPart], first: int, end: int) -> Iterator[RowsPart]:
    at = 0
    for part in parts:
        cut = part.cut(first - at, end - at)
        at += part.rows
        if cut.rows:
            yield cut


def footer_sum(path: Path) -> int:
    """Return a checksum of the size and the footer of a Parquet file: pages have their own."""
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - _TAIL - length))
        return zlib.crc32(file.read(), size)


def may_have_nulls(footer: "pq.FileMetaData", column: str) -> bool:
    """Tell whether a column of a file may have nulls, by the statistics of its row groups."""
    groups = map(footer.row_group, range(footer.num_row_groups))
    found = (_statistics(each, column) for each in groups)
    return any(e is None or not e.has_null_count or e.null_count > 0 for e in found)


def reaches(group: "pq.RowGroupMetaData", column: str, least: int) -> bool:
    """Tell whether a column of integers may have so much or more in a row group."""
    known = _statistics(group, column)
    return known is None or not known.has_min_max or known.max >= least


def _statistics(group: "pq.RowGroupMetaData", column: str) -> "pq.Statistics | None":
    columns = (group.column(at) for at in range(group.num_columns))
    return next((each.statistics for each in columns if each.path_in_schema == column), None)


def opened_file(path: Path) -> "pq.ParquetFile":
    """Open a Parquet file to be read through; pages with a checksum are compared with it.

    Files that a step writes for itself have them; of others the bytes are checked before.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
    )


def file_batches(
    file: "pq.ParquetFile",
    columns: Sequence[str],
    rows: int = BATCH_ROWS,
    groups: Sequence[int] | None = None,
) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a Parquet file in order, fewer at a time if they are wide.

    `groups` are the row groups to read, by default all.
    """
    wanted = range(file.num_row_groups) if groups is None else groups
    size = sum(file.metadata.row_group(number).total_byte_size for number in wanted)
    count = sum(file.metadata.row_group(number).num_rows for number in wanted)
    fitting = BATCH_BYTES * count // max(1, size)
    yield from file.iter_batches(
        max(1, min(rows, fitting)), columns=list(columns), row_groups=list(wanted)
    )
