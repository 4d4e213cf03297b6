"""Objects of a store in place of files in a folder that the machines of a cluster share.

    files/<hash>                        what steps read, kept for later ones (`leftovers`)
    engine-spark-<random>/<hash>        what tasks wrote, or one step reads, until nobody needs it

Before a step the driver stores the files that it reads.  A slice that the workspace has in a store
is read there, if all executors may; else that store copies it, if it holds both.  Tasks are given
the places of the columns of each row group with their SHA-256, ask for these ranges, and take no
other bytes.  A task that writes stores one object, named by its hash; only the messages of tasks
that Spark counts come back, so what an attempt that was repeated or killed has stored is never
read.  Executors reach the store by credentials of their own machine: none is sent to them.
"""

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.conformance import conform, null_column, retyped, row_numbers
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.arrow.merging.plain_types import plain_type
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import SHARED, BadJobError, JobFile, job_file
from odfbuild.executors.engine.objects.leftovers import note_kept_job
from odfbuild.executors.engine.spark.cluster.driver import mapped, parallelism, setting, task_rows
from odfbuild.executors.engine.spark.cluster.providers import OBJECTS
from odfbuild.executors.engine.spark.cluster.stored_rows import (
    GroupPiece,
    JobObjects,
    StoredPart,
    StoredRows,
    damaged,
    described,
    described_by,
    summary,
)
from odfbuild.executors.engine.spark.cluster.task_errors import MARK, marked_errors
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.checked_files import FileMark, mark_of
from odfbuild.state.chain.origins import origin_of
from odfbuild.state.remote.client import side_by_side
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.objects import FILES_AT_ONCE
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_BATCH_ROWS: Final = 1 << 16
_BATCH_BYTES: Final = 32 << 20
_SURE: Final = 600.0  # seconds for which a file that was stored is not looked for again
_TASK_BYTES: Final = 64 << 20  # that one task reads, more in files of great row groups
_LEAST_TASK_BYTES: Final = 8 << 20  # of which one is not worth a task
_TASKS_EACH: Final = 4  # for each processor, at least: so that all have about as much to do
_TAIL: Final = 8  # bytes at the end of a Parquet file: the length of its footer, and four letters
_MESSAGE: Final = "part INT, size BIGINT, hash STRING, last BINARY, digests BINARY"


def objects_of(session: "SparkSession") -> "ClusterObjects | None":
    """Return the store that the executors of a session read and write; None if it has none."""
    prefix = setting(session, OBJECTS)
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
        self._stored: dict[tuple[Path, FileMark], tuple[StoredRows, float]] = {}
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
            self._clear(place)

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
        kept = side_by_side(paths, self._kept)
        return frame_of(session, kept, kinds, position)

    def _kept(self, path: Path) -> StoredRows:
        """Have a file stored; one that was there a short time ago, and is unchanged, still is."""
        mark, now = (path, mark_of(path)), time.monotonic()
        known, since = self._stored.get(mark, (None, 0.0))
        if known is None or now - since > _SURE:
            known = self._referred(path) or self._sent(path)
            self._stored[mark] = known, now
        return known

    def _referred(self, path: Path) -> StoredRows | None:
        """Return what is in the object that a file is a copy of, if it is one, and is there.

        The driver knows the parts of the object by the file, which was compared with its hash.
        """
        origin = origin_of(path)
        if origin is None or origin.place not in self.readable:
            return None
        if Bucket(origin.place).size(origin.key) != path.stat().st_size:
            return None
        return described(path, origin.place, origin.key, is_slice=True)

    def _sent(self, path: Path) -> StoredRows:
        origin, found = origin_of(path), job_file(path, path.name)
        shared = JobFile(found.stored, found.size, found.hash, shared=True)
        known = origin is not None and origin.hash == found.hash
        self._given.upload(path, shared, origin.url if origin is not None and known else None)
        return described(path, f"{self._prefix}{SHARED}/", found.stored)

    def written(
        self, frame: "DataFrame", folder: Path, group_bytes: int, *, millis: bool = False
    ) -> list[Path]:
        """Let tasks write the rows of a frame, and return the files of its parts in order, here.

        With `millis` times are stored in milliseconds.  Raises ClusterObjectError.
        """
        with self.job() as place:
            parts = _written_parts(frame, place, group_bytes, millis=millis)
            folder.mkdir(parents=True)
            if not parts:
                return [_without_rows(schema_of(frame), folder)]
            return sorted(side_by_side(parts, partial(_brought, place, folder)))

    def left(self, frame: "DataFrame", group_bytes: int) -> tuple[StoredPart, ...]:
        """Let tasks write the rows of a frame, and return its parts in order, which stay there."""
        job = self.new_job()
        parts = _written_parts(frame, job.place, group_bytes)
        found = (_stored_part(job, each) for each in sorted(parts, key=lambda e: int(e["part"])))
        return tuple(each for each in found if each.rows)

    def lent(self, paths: Sequence[Path]) -> tuple[JobObjects, Sequence[StoredRows]]:
        """Store files that one step reads, and return what keeps them, and what is in each."""
        job = self.new_job()

        def store(path: Path) -> StoredRows:
            file = job_file(path, path.name)
            job.place.store(path, file)
            return described(path, job.place.shown(""), file.stored)

        return job, side_by_side(paths, store, parallel=FILES_AT_ONCE)

    def new_job(self) -> JobObjects:
        """Return a place for objects that are deleted when nobody here uses it any more."""
        return JobObjects(self._new_place(), self._clear)

    def _clear(self, place: BucketPlace) -> None:
        try:
            place.clear()
        except OdfBuildError as error:
            note_kept_job(self._prefix, error.what)


def frame_of(
    session: "SparkSession",
    stored: Sequence[StoredRows],
    kinds: "StructType",
    position: tuple[str, int] | None = None,
) -> "DataFrame":
    """Return the rows of objects, as `frame` does."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import LongType, StructField, StructType

    given = to_arrow_schema(kinds, timezone="UTC")  # the types in which Spark takes them
    if position is not None:
        kinds = StructType([*kinds.fields, StructField(position[0], LongType(), False)])
    pieces = [piece for each in stored for piece in each.pieces(given.names)]
    most = _task_bytes(pieces, parallelism(session))
    tasks = [pickle.dumps(each) for each in _tasks(pieces, most)]
    read = _ReadTask(schema=given.serialize().to_pybytes(), position=position, mark=MARK)
    return mapped(task_rows(session, tasks), read, kinds)


def _written_parts(
    frame: "DataFrame", place: BucketPlace, group_bytes: int, *, millis: bool = False
) -> list[Any]:
    """Let tasks write the rows of a frame, and return what they say of the parts."""
    task = _WrittenPart(
        url=place.shown(""),
        schema=schema_of(frame).serialize().to_pybytes(),
        group_bytes=group_bytes,
        millis=millis,
        mark=MARK,
    )
    return list(mapped(frame, task, _MESSAGE).collect())


def schema_of(frame: "DataFrame") -> pa.Schema:
    """Return the columns of rows as Spark hands them to tasks."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def _stored_part(job: JobObjects, part: Any) -> StoredPart:
    last, digests = bytes(part["last"]), bytes(part["digests"])
    key, size = str(Multihash.parse(part["hash"])), int(part["size"])
    stored = described_by(last, digests, size, job.place.shown(""), key)
    return StoredPart(stored=stored, last=last, start=0, rows=stored.rows, job=job)


def _brought(place: BucketPlace, folder: Path, part: Any) -> Path:
    """Copy what a task wrote into a folder.  Raises ClusterObjectError of other bytes."""
    name = f"part-{part['part']:08}.parquet"
    return brought(place, JobFile(name, int(part["size"]), Multihash.parse(part["hash"])), folder)


def brought(place: BucketPlace, file: JobFile, folder: Path) -> Path:
    """Copy an object of a job into a folder.  Raises ClusterObjectError of other bytes."""
    try:
        return place.made(file, folder)
    except (BadJobError, BrokenSourceError):
        raise damaged(place.shown(file.stored)) from None


def _without_rows(schema: pa.Schema, folder: Path) -> Path:
    path = folder / "part-00000000.parquet"
    with FileWriter(path, _nullable(schema), compression="snappy"):
        pass
    return path


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _task_bytes(pieces: Sequence[GroupPiece], processors: int) -> int:
    """Return how many bytes a task reads of some pieces."""
    share = sum(piece.bytes for piece in pieces) // (_TASKS_EACH * processors)
    return min(_TASK_BYTES, max(_LEAST_TASK_BYTES, share))


def _tasks(pieces: Sequence[GroupPiece], most: int) -> Iterator[tuple[GroupPiece, ...]]:
    """Yield pieces of up to so many bytes together, in order."""
    held: list[GroupPiece] = []
    size = 0
    for piece in pieces:
        if held and size + piece.bytes > most:
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

    def _numbered(self, table: pa.Table, piece: GroupPiece) -> pa.Table:
        if self.position is None:
            return table
        name, first = self.position[0], self.position[1] + piece.group.first
        positions = row_numbers(table.num_rows, first)
        return table.append_column(name, positions)


def _table(piece: GroupPiece, given: pa.Schema) -> pa.Table:
    read = piece.table(given.names)
    there = set(read.column_names)
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


@contextmanager
def task_folder() -> Iterator[Path]:
    """Yield a folder for the files of a task, among those of Spark.

    It clears them with the application, also where it kills this process.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with TemporaryDirectory(prefix="odfbuild-part-", dir=local) as folder:
        yield Path(folder)


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
        with marked_errors(self.mark), task_folder() as folder:
            path = folder / "part.parquet"
            self._write(path, batches)
            file = job_file(path, path.name)
            BucketPlace(self.url).store(path, file)
            last, digests = summary(path)
        kinds = [("part", pa.int32()), ("size", pa.int64()), ("hash", pa.string())]
        kinds += [("last", pa.binary()), ("digests", pa.binary())]
        said = {"part": [part], "size": [file.size], "hash": [file.stored]}
        said |= {"last": [last], "digests": [digests]}
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
