"""Objects of a store in place of files in a folder that the machines of a cluster share.

    files/<hash>                        what steps read, kept for later ones (`leftovers`)
    engine-spark-<random>/<hash>        what the tasks of one job wrote, until it is here

Before a step the driver stores the files that it reads.  A slice that the workspace has in a store
is read there, if all executors may; else that store copies it, if it holds both.  Tasks are given
the places of the columns of each row group with their SHA-256, ask for these ranges, and take no
other bytes.  A task that writes stores one object, named by its hash; only the messages of tasks
that Spark counts come back, so what an attempt that was repeated or killed has stored is never
read.  Executors reach the store by credentials of their own machine: none is sent to them.
"""

import hashlib
import io
import os
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.conformance import conform, null_column, retyped, row_numbers
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.arrow.merging.plain_types import plain_type
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import SHARED, BadJobError, JobFile, job_file
from odfbuild.executors.engine.objects.leftovers import note_kept_job
from odfbuild.executors.engine.spark.cluster.driver import mapped
from odfbuild.executors.engine.spark.cluster.providers import OBJECTS
from odfbuild.executors.engine.spark.cluster.task_errors import (
    MARK,
    ClusterObjectError,
    marked_errors,
)
from odfbuild.host.files import open_regular
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.checked_files import FileMark, mark_of
from odfbuild.state.remote.client import side_by_side
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.origins import origin_of
from odfbuild.state.remote.s3 import Bucket
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_BATCH_ROWS: Final = 1 << 16
_BATCH_BYTES: Final = 32 << 20
_SURE: Final = 600.0  # seconds for which a file that was stored is not looked for again
_TASK_BYTES: Final = 64 << 20  # of a file that one task reads, more in files of great row groups
_TAIL: Final = 8  # bytes at the end of a Parquet file: the length of its footer, and four letters
_MESSAGE: Final = "part INT, size BIGINT, hash STRING"


@dataclass(frozen=True, slots=True)
class _Span:
    """A range of bytes of an object, and their SHA-256."""

    start: int
    end: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A row group: its number, that of its first row in the file, the spans of its leaves."""

    number: int
    first: int
    leaves: tuple[_Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """A Parquet file that is stored; `is_slice` tells one of the workspace from a copy."""

    url: str
    key: str
    size: int
    footer: _Span
    is_slice: bool = False

    @property
    def shown(self) -> str:
        return f"{self.url}{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredRows:
    """What is in an object; `paths` are those of its leaves, which are what Parquet stores."""

    object: _Object
    paths: tuple[str, ...]
    groups: tuple[_Group, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A row group as a task reads it: with the leaves of the columns that it needs."""

    object: _Object
    group: _Group

    @property
    def bytes(self) -> int:
        return sum(each.end - each.start for each in self.group.leaves)


def objects_of(session: "SparkSession") -> "ClusterObjects | None":
    """Return the store that the executors of a session read and write; None if it has none."""
    prefix = session.conf.get(OBJECTS, None)
    return None if prefix is None else _objects(f"{prefix.rstrip('/')}/")


@lru_cache(4)
def _objects(prefix: str) -> "ClusterObjects":
    return ClusterObjects(prefix)


class ClusterObjects:
    """The files of steps below a prefix of a store, which ends with a slash."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.readable: frozenset[str] = frozenset()
        """Prefixes, beside this one, below which all executors read objects."""
        self._stored: dict[tuple[Path, FileMark], tuple[_StoredRows, float]] = {}
        self._given = self._new_place()

    def _new_place(self) -> BucketPlace:
        return BucketPlace(f"{self._prefix}engine-spark-{token_hex(8)}/")

    @contextmanager
    def job(self) -> Iterator[BucketPlace]:
        """Yield a place for the objects of one job, which are deleted afterwards."""
        place = self._new_place()
        try:
            yield place
        finally:
            try:
                place.clear()
            except OdfBuildError as error:
                note_kept_job(self._prefix, error.what)

    def frame(
        self,
        session: "SparkSession",
        paths: Sequence[Path],
        kinds: "StructType",
        position: tuple[str, int] | None = None,
    ) -> "DataFrame":
        """Return the rows of Parquet files that have these columns, or only some of them.

        `position` is the name of a last column that numbers the rows of a file, from a number on.
        """
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import LongType, StructField, StructType

        given = to_arrow_schema(kinds, timezone="UTC")  # the types in which Spark takes them
        if position is not None:
            kinds = StructType([*kinds.fields, StructField(position[0], LongType(), False)])
        kept = side_by_side(paths, self._kept)
        pieces = [piece for each in kept for piece in self._pieces(each, given.names)]
        tasks = [(bytearray(pickle.dumps(each)),) for each in _tasks(pieces)]
        parallel = session.sparkContext.parallelize(tasks, max(1, len(tasks)))
        read = _ReadTask(schema=given.serialize().to_pybytes(), position=position, mark=MARK)
        return mapped(session.createDataFrame(parallel, "task BINARY"), read, kinds)

    def _kept(self, path: Path) -> _StoredRows:
        """Have a file stored; one that was there a short time ago, and is unchanged, still is."""
        mark, now = (path, mark_of(path)), time.monotonic()
        known, since = self._stored.get(mark, (None, 0.0))
        if known is None or now - since > _SURE:
            known = self._referred(path) or self._sent(path)
            self._stored[mark] = known, now
        return known

    def _referred(self, path: Path) -> _StoredRows | None:
        """Return what is in the object that a file is a copy of, if it is one, and is there.

        The driver knows the parts of the object by the file, which was compared with its hash.
        """
        origin = origin_of(path)
        if origin is None or origin.place not in self.readable:
            return None
        if Bucket(origin.place).size(origin.key) != path.stat().st_size:
            return None
        return _described(path, origin.place, origin.key, is_slice=True)

    def _sent(self, path: Path) -> _StoredRows:
        origin, found = origin_of(path), job_file(path, path.name)
        shared = JobFile(found.stored, found.size, found.hash, shared=True)
        known = origin is not None and origin.hash == found.hash
        self._given.upload(path, shared, origin.url if origin is not None and known else None)
        return _described(path, f"{self._prefix}{SHARED}/", found.stored)

    @staticmethod
    def _pieces(stored: _StoredRows, names: Sequence[str]) -> Iterator[_Piece]:
        wanted = [leaf for leaf, path in enumerate(stored.paths) if _is_of(path, names)]
        for group in stored.groups:
            leaves = tuple(group.leaves[leaf] for leaf in wanted)
            yield _Piece(stored.object, replace(group, leaves=leaves))

    def written(
        self, frame: "DataFrame", folder: Path, group_bytes: int, *, millis: bool = False
    ) -> list[Path]:
        """Let tasks write the rows of a frame, and return the files of its parts in order, here.

        With `millis` times are stored in milliseconds.  Raises ClusterObjectError.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(frame.schema, timezone="UTC")
        with self.job() as place:
            task = _WrittenPart(
                url=place.shown(""),
                schema=schema.serialize().to_pybytes(),
                group_bytes=group_bytes,
                millis=millis,
                mark=MARK,
            )
            parts = mapped(frame, task, _MESSAGE).collect()
            folder.mkdir(parents=True)
            if not parts:
                return [_without_rows(schema, folder)]
            return sorted(side_by_side(parts, partial(_brought, place, folder)))


def _brought(place: BucketPlace, folder: Path, part: Any) -> Path:
    """Copy what a task wrote into a folder.  Raises ClusterObjectError of other bytes."""
    name = f"part-{part['part']:08}.parquet"
    file = JobFile(name, int(part["size"]), Multihash.parse(part["hash"]))
    try:
        return place.made(file, folder)
    except (BadJobError, BrokenSourceError):
        raise _damaged(place.shown(file.stored)) from None


def _without_rows(schema: pa.Schema, folder: Path) -> Path:
    path = folder / "part-00000000.parquet"
    with FileWriter(path, _nullable(schema), compression="snappy"):
        pass
    return path


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


# What the driver finds out


def _described(path: Path, url: str, key: str, *, is_slice: bool = False) -> _StoredRows:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(size - _TAIL)
        length = int.from_bytes(file.read(4), "little")
        span = partial(_span, file)
        footer = pq.read_metadata(path)
        groups, first = [], 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if not group.num_rows:  # whose columns may have no place
                continue
            leaves = tuple(span(*_range(group.column(leaf))) for leaf in range(group.num_columns))
            groups.append(_Group(number=number, first=first, leaves=leaves))
            first += group.num_rows
        return _StoredRows(
            object=_Object(
                url=url,
                key=key,
                size=size,
                footer=span(size - _TAIL - length, size),
                is_slice=is_slice,
            ),
            paths=tuple(footer.schema.column(at).path for at in range(footer.num_columns)),
            groups=tuple(groups),
        )


def _range(chunk: Any) -> tuple[int, int]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


def _span(file: Any, start: int, end: int) -> _Span:
    file.seek(start)
    return _Span(start, end, hashlib.sha256(file.read(end - start)).digest())


def _is_of(path: str, names: Iterable[str]) -> bool:
    """Tell whether pyarrow reads a leaf where it is asked for columns: by the start of its path."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _tasks(pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, ...]]:
    """Yield pieces of so many bytes together, in order."""
    held: list[_Piece] = []
    size = 0
    for piece in pieces:
        if held and size + piece.bytes > _TASK_BYTES:
            yield tuple(held)
            held, size = [], 0
        held.append(piece)
        size += piece.bytes
    if held:
        yield tuple(held)


# What tasks do


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadTask:
    """What a task does that reads row groups: those of each row that it gets."""

    schema: bytes
    position: tuple[str, int] | None
    mark: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = pa.ipc.read_schema(pa.py_buffer(self.schema))
        for batch in batches:
            for task in batch.column(0):
                for piece in pickle.loads(task.as_py()):  # noqa: S301 - of the driver
                    with marked_errors(self.mark):
                        table = _table(piece, given)
                    rows = _BATCH_BYTES * table.num_rows // max(1, table.nbytes)
                    yield from self._numbered(table, piece).to_batches(
                        max(1, min(rows, _BATCH_ROWS))
                    )

    def _numbered(self, table: pa.Table, piece: _Piece) -> pa.Table:
        if self.position is None:
            return table
        name, first = self.position[0], self.position[1] + piece.group.first
        positions = row_numbers(table.num_rows, first)
        return table.append_column(name, positions)


@lru_cache(16)
def _bucket(url: str) -> Bucket:
    return Bucket(url)


def _table(piece: _Piece, given: pa.Schema) -> pa.Table:
    stored, spans = piece.object, [piece.object.footer, *piece.group.leaves]
    try:
        found = _bucket(stored.url).ranges(stored.key, [(each.start, each.end) for each in spans])
    except BrokenSourceError:
        raise _other_bytes(stored) from None
    for span, data in zip(spans, found, strict=True):
        if hashlib.sha256(data).digest() != span.digest:
            raise _other_bytes(stored)
    footer = pq.read_metadata(pa.BufferReader(found[0]))
    held = _HeldBytes(stored.size, {s.start: data for s, data in zip(spans, found, strict=True)})
    file = pq.ParquetFile(
        pa.PythonFile(held, "r"),
        metadata=footer,
        pre_buffer=False,
        page_checksum_verification=True,
    )
    there = set(file.schema_arrow.names)
    read = file.read_row_group(
        piece.group.number, [each for each in given.names if each in there], use_threads=False
    )
    columns = [
        pa.chunked_array([_as_given(c, f.type) for c in read.column(f.name).chunks], f.type)
        if f.name in there
        else null_column(read.num_rows, f.type)
        for f in given
    ]
    return retyped(pa.Table.from_arrays(columns, schema=_nullable(given)), _nullable(given))


def _as_given(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type in which Spark takes it, its values as Spark has them."""
    return conform(conform(column, plain_type(column.type)), kind)


def _other_bytes(stored: _Object) -> ClusterObjectError:
    if not stored.is_slice:
        return _damaged(stored.shown)
    return ClusterObjectError(
        what=f"{stored.shown}, a slice of the workspace, does not exist, or has other bytes than "
        "its chain records",
        why="the store is damaged, or others write or delete below its prefix",
        fix="odfbuild verify lists what is damaged, and how to restore it; nothing of the step was "
        "committed",
    )


def _damaged(shown: str) -> ClusterObjectError:
    return ClusterObjectError(
        what=f"{shown} does not exist, or has other bytes than were stored",
        why="the store is damaged, or others write or delete below its prefix",
        fix="delete the object if it is there, check who may write there, and run again: nothing "
        "of the step was committed",
    )


class _HeldBytes(io.RawIOBase):
    """A file of which some ranges are there, each read at once or in parts."""

    def __init__(self, size: int, held: Mapping[int, bytes]) -> None:
        self._size = size
        self._held = held
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        for start, data in self._held.items():
            if start <= self._at < start + len(data):
                found = data[self._at - start :]
                found = found if size < 0 else found[:size]
                self._at += len(found)
                return found
        raise OSError(f"the bytes from {self._at} on were not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenPart:
    """What a task does that writes its rows as one object: it yields the message of it."""

    url: str
    schema: bytes
    group_bytes: int
    millis: bool
    mark: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        # which Spark clears with the application, also where it kills this process
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        with (
            marked_errors(self.mark),
            TemporaryDirectory(prefix="odfbuild-part-", dir=local) as folder,
        ):
            path = Path(folder) / "part.parquet"
            self._write(path, batches)
            file = job_file(path, path.name)
            BucketPlace(self.url).store(path, file)
        kinds = [("part", pa.int32()), ("size", pa.int64()), ("hash", pa.string())]
        said = {"part": [part], "size": [file.size], "hash": [file.stored]}
        yield pa.RecordBatch.from_pydict(said, schema=pa.schema(kinds))

    def _write(self, path: Path, batches: Iterator[pa.RecordBatch]) -> None:
        schema = _nullable(pa.ipc.read_schema(pa.py_buffer(self.schema)))
        unit = {"coerce_timestamps": "ms"} if self.millis else {}
        held: list[pa.RecordBatch] = []
        size = 0
        with FileWriter(
            path, schema, compression="snappy", write_page_checksum=True, **unit
        ) as writer:
            for batch in batches:
                held.append(batch)
                size += batch.nbytes
                if size >= self.group_bytes:
                    writer.write_table(retyped(pa.Table.from_batches(held), schema))
                    held, size = [], 0
            if held:
                writer.write_table(retyped(pa.Table.from_batches(held), schema))
