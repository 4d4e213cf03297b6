"""Rows in objects of a store: where the columns of each row group are, and the hash of each place.

Who reads asks for these ranges, and takes no other bytes: a task of Spark, or this process.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import may_have_nulls, reaches
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.host.files import open_regular
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.objects.bucket import BucketPlace

_TAIL: Final = 8  # bytes at the end of a Parquet file: the length of its footer, and four letters
_DIGEST: Final = 32  # bytes
_BATCH_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """A range of bytes of an object, and their SHA-256."""

    start: int
    end: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpans:
    """A row group: its number, its first row in the file, its rows, the spans of its leaves."""

    number: int
    first: int
    rows: int
    leaves: tuple[ByteSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetObject:
    """A Parquet file that is stored; `is_slice` tells one of the workspace from a copy."""

    url: str
    key: str
    size: int
    footer: ByteSpan
    is_slice: bool = False

    @property
    def shown(self) -> str:
        """Return the name of the object."""
        return f"{self.url}{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """What is in an object; `paths` are those of its leaves, which are what Parquet stores."""

    object: ParquetObject
    paths: tuple[str, ...]
    groups: tuple[GroupSpans, ...]

    @property
    def rows(self) -> int:
        """Count the rows."""
        return sum(each.rows for each in self.groups)

    def pieces(self, names: Sequence[str]) -> "Iterator[GroupPiece]":
        """Yield the row groups with the leaves of these columns only."""
        wanted = [leaf for leaf, path in enumerate(self.paths) if _is_of(path, names)]
        for group in self.groups:
            leaves = tuple(group.leaves[leaf] for leaf in wanted)
            yield GroupPiece(self.object, replace(group, leaves=leaves))


@dataclass(frozen=True, slots=True)
class GroupPiece:
    """A row group as it is read: with the leaves of some columns."""

    object: ParquetObject
    group: GroupSpans

    @property
    def bytes(self) -> int:
        """Return how many bytes the leaves take."""
        return sum(each.end - each.start for each in self.group.leaves)

    def table(self, names: Iterable[str]) -> pa.Table:
        """Return those of these columns that the object has.  Raises ClusterObjectError."""
        stored, spans = self.object, [self.object.footer, *self.group.leaves]
        try:
            ranges = [(each.start, each.end) for each in spans]
            found = _bucket(stored.url).ranges(stored.key, ranges)
        except BrokenSourceError:
            raise other_bytes(stored) from None
        for span, data in zip(spans, found, strict=True):
            if hashlib.sha256(data).digest() != span.digest:
                raise other_bytes(stored)
        held = {span.start: data for span, data in zip(spans, found, strict=True)}
        file = pq.ParquetFile(
            pa.PythonFile(_HeldBytes(stored.size, held), "r"),
            metadata=pq.read_metadata(pa.BufferReader(found[0])),
            pre_buffer=False,
            page_checksum_verification=True,
        )
        there = set(file.schema_arrow.names)
        return file.read_row_group(
            self.group.number, [each for each in names if each in there], use_threads=False
        )


@lru_cache(16)
def _bucket(url: str) -> Bucket:
    return Bucket(url)


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


# Descriptions


def described(path: Path, url: str, key: str, *, is_slice: bool = False) -> StoredRows:
    """Return what is in an object that has the bytes of a file."""
    with open_regular(path) as file:
        return _stored_rows(_footer_of(file), url, key, _hashing(file), is_slice=is_slice)


def summary(path: Path) -> tuple[bytes, bytes]:
    """Return the footer of a file, and the hashes of its leaves, one after the other."""
    with open_regular(path) as file:
        footer = _footer_of(file)
        rows = _stored_rows(footer, "", "", _hashing(file))
        leaves = (leaf.digest for group in rows.groups for leaf in group.leaves)
        return footer[1], b"".join(leaves)


def described_by(footer: bytes, digests: bytes, size: int, url: str, key: str) -> StoredRows:
    """Return what is in an object of so many bytes by its `summary`."""
    left = iter(digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST))
    return _stored_rows((size, footer), url, key, lambda _start, _end: next(left))


def _footer_of(file: BinaryIO) -> tuple[int, bytes]:
    """Return the size of a Parquet file, and its last bytes, from where its footer begins."""
    size = os.fstat(file.fileno()).st_size
    file.seek(size - _TAIL)
    length = int.from_bytes(file.read(4), "little")
    file.seek(size - _TAIL - length)
    return size, file.read()


def _hashing(file: BinaryIO) -> Callable[[int, int], bytes]:
    def digest(start: int, end: int) -> bytes:
        file.seek(start)
        return hashlib.sha256(file.read(end - start)).digest()

    return digest


def _stored_rows(
    found: tuple[int, bytes],
    url: str,
    key: str,
    digest: Callable[[int, int], bytes],
    *,
    is_slice: bool = False,
) -> StoredRows:
    size, last = found
    footer = pq.read_metadata(pa.BufferReader(last))
    groups, first = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if not group.num_rows:  # whose columns may have no place
            continue
        places = (_range(group.column(leaf)) for leaf in range(group.num_columns))
        leaves = tuple(ByteSpan(*place, digest(*place)) for place in places)
        groups.append(GroupSpans(number=number, first=first, rows=group.num_rows, leaves=leaves))
        first += group.num_rows
    return StoredRows(
        object=ParquetObject(
            url=url,
            key=key,
            size=size,
            footer=ByteSpan(size - len(last), size, hashlib.sha256(last).digest()),
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


def _is_of(path: str, names: Iterable[str]) -> bool:
    """Tell whether pyarrow reads a leaf where it is asked for columns: by the start of its path."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def other_bytes(stored: ParquetObject) -> ClusterObjectError:
    """Return the error for an object that is not there, or has other bytes."""
    if not stored.is_slice:
        return damaged(stored.shown)
    return ClusterObjectError(
        what=f"{stored.shown}, a slice of the workspace, does not exist, or has other bytes than "
        "its chain records",
        why="the store is damaged, or others write or delete below its prefix",
        fix="odfbuild verify lists what is damaged, and how to restore it; nothing of the step was "
        "committed",
    )


def damaged(shown: str) -> ClusterObjectError:
    """Return the error for an object of a job, or for a file that was stored for several."""
    return ClusterObjectError(
        what=f"{shown} does not exist, or has other bytes than were stored",
        why="the store is damaged, or others write or delete below its prefix",
        fix="delete the object if it is there, check who may write there, and run again: nothing "
        "of the step was committed",
    )


# Rows of frames


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """Rows of an object, part of a frame: so many from row `start` on.

    `last` is the end of the object, with its footer; `job` has the object deleted once no part of
    it is used in this process.  Tasks get neither.
    """

    stored: StoredRows
    last: bytes
    start: int
    rows: int
    job: "JobObjects | None" = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        return _part_of_task, (self.stored, self.start, self.rows)

    def cut(self, first: int, end: int) -> "StoredPart":
        """Return the rows from `first` up to, but without, `end`, counted within this part."""
        first, end = max(first, 0), min(end, self.rows)
        start, rows = self.start + first, max(0, end - first)
        groups = tuple(
            each
            for each in self.stored.groups
            if each.first < start + rows and start < each.first + each.rows
        )
        return replace(self, stored=replace(self.stored, groups=groups), start=start, rows=rows)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, at most `rows` at a time.  Raises ClusterObjectError."""
        for piece in self.stored.pieces(columns):
            first, end = self.start - piece.group.first, self.start + self.rows - piece.group.first
            start = max(0, first)
            table = piece.table(columns).slice(start, min(end, piece.group.rows) - start)
            if table.num_rows:
                fitting = _BATCH_BYTES * table.num_rows // max(1, table.nbytes)
                yield from table.select(columns).to_batches(max(1, min(rows, fitting)))

    def may_have_nulls(self, column: str) -> bool:
        """Tell whether a column may have nulls, by the footer."""
        return may_have_nulls(pq.read_metadata(pa.BufferReader(self.last)), column)

    def groups_reaching(self, column: str, least: int) -> "Iterator[StoredPart]":
        """Yield the rows of those row groups that may have so much or more in a column."""
        footer = pq.read_metadata(pa.BufferReader(self.last))
        for each in self.stored.groups:
            if reaches(footer.row_group(each.number), column, least):
                within = each.first - self.start
                yield self.cut(within, within + each.rows)


def _part_of_task(stored: StoredRows, start: int, rows: int) -> StoredPart:
    return StoredPart(stored=stored, last=b"", start=start, rows=rows)


class JobObjects:
    """The objects that the tasks of a job wrote, deleted when the last part of them is given up."""

    def __init__(self, place: "BucketPlace", clear: "Callable[[BucketPlace], None]") -> None:
        self.place = place
        finalize(self, clear, place)
