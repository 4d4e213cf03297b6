"""Slices as Parquet files: how they are written, and read with the schema in force.

Files are as the reference writes them: format version 1.0, data pages of version 1, Snappy, row
groups of at most 1,048,576 rows, dictionaries for all columns but the offset.  Columns whose
values would not fit into a dictionary have none, either: the reference begins one in each row group
and gives it up, which takes a fifth of the time of sealing, and more space.  pyarrow ties the newer
names of encodings and unsigned integers to format version 2, so it writes that, and the version
number at the start of the footer is set back.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.conformance import conform, null_column
from odfbuild.executors.data.frames import file_batches
from odfbuild.odf.events import DataSchema
from odfbuild.odf.hashing import LogicalHasher
from odfbuild.odf.identity import Multihash
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.state.chain.checked_files import (
    FileMark,
    GrowingHash,
    HashedMark,
    hash_written,
    mark_of,
)

GROUP_ROWS = 1 << 20
GROUP_BYTES = 32 << 20
_MOST = 4096  # footers that are kept
_DICTIONARY_BYTES = 1 << 20  # of a row group and column, after which the writer gives it up
_OVERFULL = 1.5  # how far beyond that an estimate has to be
_SAMPLE = 1 << 14  # rows


class FileWriter(pq.ParquetWriter):  # type: ignore[misc]  # pyarrow has no types
    """A writer that is closed once: if that fails it is not tried again when nobody needs it.

    That of pyarrow is, and what goes wrong then is printed as a traceback of what is ignored.
    """

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.is_open = False


def write_groups(writer: FileWriter, groups: Iterable[pa.Table], group_rows: int) -> int:
    """Write tables in a thread, each while the next one is made; return the number of rows."""
    rows = 0
    writing: Future[None] | None = None
    with ThreadPoolExecutor(1, "rows") as thread:
        for group in groups:
            if writing is not None:
                writing.result()
            writing = thread.submit(writer.write_table, group, row_group_size=group_rows)
            rows += group.num_rows
        if writing is not None:
            writing.result()
    return rows


class SliceWriter:
    """Writes batches of one schema into a file; a context manager, the file is whole after it.

    Full row groups are written by a thread of their own, one at a time.  The first one shows which
    columns have dictionaries; `plain` has none.  With `hashed` that thread also hashes what it has
    written, for `hash`.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, plain: str, hashed: bool = False) -> None:
        self._path = path
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[int] | None = None
        self._hash = GrowingHash(path) if hashed else None
        self._hashing: Future[None] | None = None
        self._schema = schema
        self._plain = plain
        self._file = pa.OSFile(str(path), "wb")
        self._writer: FileWriter | None = None

    def __enter__(self) -> "SliceWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._wait()
            if error is None:
                self._put(self._take_batches())
        finally:
            try:
                self._close()
            finally:
                if self._thread is not None:
                    self._thread.shutdown()
        if error is None:
            if self._hashing is not None:
                self._hashing.result()
            _set_format_version(self._path)

    def hash(self) -> tuple[Multihash, HashedMark | None]:
        """Return the hash of the complete file, and the mark of what was hashed.

        See `hash_written`.
        """
        return hash_written(self._path) if self._hash is None else self._hash.finish()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; they reach the file a row group at a time."""
        while self._rows + batch.num_rows >= GROUP_ROWS:
            room = GROUP_ROWS - self._rows
            self._hold(batch.slice(0, room))
            self._flush()
            batch = batch.slice(room)
        self._hold(batch)
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def _flush(self) -> None:
        """Hand the held rows to the writing thread, once it is done with the ones before."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "slice")
        self._wait()
        written = self._thread.submit(self._put, self._take_batches())
        self._writing = written
        if (hash := self._hash) is not None:
            self._hashing = self._thread.submit(lambda: hash.go_on(written.result()))

    def _take_batches(self) -> list[pa.RecordBatch]:
        taken = self._held
        self._held, self._rows, self._bytes = [], 0, 0
        return taken

    def _put(self, batches: list[pa.RecordBatch]) -> int:
        """Write a row group; return where it ends in the file."""
        group = pa.Table.from_batches(batches) if batches else self._schema.empty_table()
        if self._writer is None:
            self._writer = self._writer_for(group)
        if batches:
            self._writer.write_table(group, GROUP_ROWS)
        return int(self._file.tell())

    def _writer_for(self, first: pa.Table) -> FileWriter:
        """Return the writer of a file that begins with these rows."""
        found = zip(self._schema, first.columns, strict=True)
        repeating = [field for field, column in found if _fits_dictionary(column)]
        return FileWriter(
            self._file,
            self._schema,
            version="2.6",
            data_page_version="1.0",
            compression="snappy",
            use_dictionary=[n for each in repeating for n in _leaves(each) if n != self._plain],
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            store_schema=False,
            store_decimal_as_integer=True,
        )

    def _close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            self._file.close()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()


def _fits_dictionary(column: pa.ChunkedArray) -> bool:
    """Tell whether the different values of a column seem to fit into one dictionary, or are few.

    They are estimated twice: by those of the first rows, as if the rows went on in that way, which
    holds for sorted values, and by pairs of equal ones among random rows of all.
    """
    rows, kind = len(column), column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return True
    room = _DICTIONARY_BYTES / max(1, column.nbytes / max(1, rows))
    if rows <= room:
        return True
    first = column.slice(0, _SAMPLE)
    some = pa.chunked_array([each.take(_places(len(each), rows)) for each in column.chunks])
    in_turn = pc.count_distinct(first).as_py() * rows / len(first)
    repeated = len(some) - pc.count_distinct(some).as_py()
    at_random = len(some) ** 2 / (2 * max(1, repeated))
    return bool(min(in_turn, at_random) <= _OVERFULL * room)


@lru_cache(maxsize=8)
def _places(count: int, of: int) -> pa.Array:
    """Return places among so many rows for their share of a sample; the same ones each time."""
    chance = random.Random(count)  # noqa: S311
    places = [int(chance.random() * count) for _ in range(_SAMPLE * count // of)]
    return pa.array(places, pa.int64())


def read_slices(
    paths: Sequence[Path], columns: Sequence[str] | None = None, *, schema: DataSchema
) -> pa.Table:
    """Return the rows of slices, in the order given, as a table of the schema in force.

    `columns` chooses columns and their order.  What a slice lacks, also inside structs, is null.
    """
    wanted = _wanted_schema(schema, columns)
    return pa.Table.from_batches(_scan(paths, wanted), wanted)


def scan_slices(
    paths: Sequence[Path], columns: Sequence[str] | None = None, *, schema: DataSchema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of slices as `read_slices` gives them, in batches, with bounded memory."""
    return _scan(paths, _wanted_schema(schema, columns))


def logical_hash(path: Path, schema: pa.Schema) -> Multihash:
    """Return the hash of the rows of a file in these columns."""
    hasher = LogicalHasher(schema)
    for batch in _scan((path,), schema):
        hasher.update(batch)
    return hasher.finish()


def _wanted_schema(schema: DataSchema, columns: Sequence[str] | None) -> pa.Schema:
    whole = to_arrow(schema)
    return whole if columns is None else pa.schema([whole.field(name) for name in columns])


def _scan(paths: Sequence[Path], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            present = set(file.schema_arrow.names)
            names = [name for name in wanted.names if name in present]
            for batch in file_batches(file, names):
                yield _in_schema(batch, wanted)


def _in_schema(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [
        conform(found[field.name], field.type)
        if field.name in found
        else null_column(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _leaves(field: pa.Field) -> Iterator[str]:
    """Yield the paths of the Parquet columns that a field becomes."""
    t: Any = field.type
    if pa.types.is_struct(t):
        for index in range(t.num_fields):
            yield from (f"{field.name}.{leaf}" for leaf in _leaves(t.field(index)))
    elif pa.types.is_list(t) or pa.types.is_fixed_size_list(t):
        yield from (
            f"{field.name}.list.{leaf}" for leaf in _leaves(t.field(0).with_name("element"))
        )
    else:
        yield field.name


def _set_format_version(path: Path) -> None:
    """Say version 1 in the footer, whose first field it is: the bytes 15 04 become 15 02."""
    with path.open("r+b") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        if file.read(2) != b"\x15\x04":
            raise ValueError("pyarrow begins the footer with something else than format version 2")
        file.seek(-2, 1)
        file.write(b"\x15\x02")


def footer(path: Path) -> pq.FileMetaData:
    """Return the footer of a file, which is read once.  One put in its place is another."""
    return _footer(path, mark_of(path))


def columns_of_file(path: Path) -> pa.Schema:
    """Return the columns of a file."""
    return _columns(path, mark_of(path))


@lru_cache(maxsize=_MOST)
def _columns(path: Path, mark: FileMark) -> pa.Schema:
    return _footer(path, mark).schema.to_arrow_schema()


@lru_cache(maxsize=_MOST)
def _footer(path: Path, _: FileMark) -> pq.FileMetaData:
    return pq.read_metadata(path)
