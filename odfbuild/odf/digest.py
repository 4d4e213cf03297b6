"""Hash data: what the rows say (logical hash) and what the file holds (physical hash).

The logical hash is arrow-digest V0 over SHA3-256.  It depends on names, types, values and the
order of rows and columns, and on nothing else: not on batches, encodings or nullability.

    table   = H( header(field)... digest(column)... )       every field depth first
    header  = length of name, name, level from 0            all lengths are u64, little endian
    column  = H( type value... )                            one for every field that is no struct
    null -> 00;  bool -> 01 or 02;  numbers, dates, times -> their bytes, little endian
    text and bytes -> length, bytes;  lists -> number of items, items

Below structs the reference lets a row be null only where the leaf and its parents all are, looks
at 10,000 rows at a time, and ignores a side that has no nulls there.  Data read from Parquet has
a null leaf wherever a parent is null, so this says: the outermost level with a null among the
10,000 rows decides alone, and other null leaves feed zeros.  We do the same.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.odf.rendering import (
    NULL,
    UnhashableTypeError,
    joined,
    payload,
    render,
    storage,
    storage_type,
    type_code,
    zero,
)
from odfbuild.regular_files import open_regular

__all__ = ["LogicalHasher", "array_digest", "logical_hash", "physical_hash"]

WINDOW = 10_000
CHUNK_BYTES = 4 << 20
THREADS = 2
IN_FLIGHT = 4

_Pieces: TypeAlias = list[tuple[Any, pa.Buffer | bytes]]


class _PathLike(Protocol):
    def __fspath__(self) -> str: ...


class LogicalHasher:
    """Hash a table that arrives in batches; memory stays bounded, big input uses two threads.

    `update` takes record batches of the given schema (nullability and metadata aside) in the order
    of rows, `finish` returns the hash once.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns = [_column_of(field) for field in schema]
        self._quantum = WINDOW if any(_is_struct(field.type) for field in schema) else 1
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[None]] = deque()

    def update(self, batch: pa.RecordBatch) -> None:
        """Take the next rows; they may be hashed after the call returns."""
        for piece in self._pieces(batch):
            self._held.append(piece)
            self._held_bytes += piece.nbytes
            if self._held_bytes >= CHUNK_BYTES:
                self._flush(self._quantum)

    def finish(self) -> Multihash:
        """Return the logical hash of all rows."""
        self._flush(1)
        for future in self._running:
            future.result()
        if self._pool is not None:
            self._pool.shutdown()
        whole = hashlib.sha3_256()
        for header in _headers(self._schema, 0):
            whole.update(header)
        for column in self._columns:
            whole.update(column.digest())
        return Multihash(int(Multicodec.ARROW0_SHA3_256), whole.digest())

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.num_columns != len(self._columns):
            raise ValueError(f"{batch.num_columns} columns instead of {len(self._columns)}")
        if batch.nbytes <= CHUNK_BYTES:
            yield batch
            return
        rows = max(1, batch.num_rows * CHUNK_BYTES // batch.nbytes)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def _flush(self, quantum: int) -> None:
        """Hash the held rows but for the last ones that do not fill a quantum."""
        rows = sum(batch.num_rows for batch in self._held)
        whole = rows - rows % quantum
        if whole == 0:
            return
        table = pa.Table.from_batches(self._held)
        self._held = table.slice(whole).to_batches()
        small = self._pool is None and self._held_bytes < CHUNK_BYTES
        self._held_bytes = sum(batch.nbytes for batch in self._held)
        for column, chunked in zip(self._columns, table.slice(0, whole).columns, strict=True):
            array = chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
            if small:
                column.absorb(array)
            else:
                self._submit(column, array)

    def _submit(self, column: "_Column", array: pa.Array) -> None:
        """Start the work on one column; tasks start in order, so none waits for a later one."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "logical-hash")
        while len(self._running) >= IN_FLIGHT + len(self._columns):
            self._running.popleft().result()
        column.last = self._pool.submit(column.absorb, array, column.last)
        self._running.append(column.last)


def _column_of(field: pa.Field) -> "_Column":
    try:
        return _Column(field.type)
    except UnhashableTypeError as error:
        error.what = f"the column {field.name!r}: {error.what}"
        raise


class _Column:
    """One column of the table with the digests of its leaves, in the order of the schema."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._leaves = [_opened(leaf) for leaf in _leaf_types(data_type)]
        self.last: Future[None] | None = None

    def absorb(self, array: pa.Array, before: Future[None] | None = None) -> None:
        """Render the rows, wait for those before them, hash."""
        pieces = self._rendered(array)
        if before is not None:
            before.result()
        for leaf, data in pieces:
            leaf.update(data)

    def digest(self) -> bytes:
        return b"".join(leaf.digest() for leaf in self._leaves)

    def _rendered(self, array: pa.Array) -> _Pieces:
        if not _is_struct(array.type):
            return [(self._leaves[0], payload(array))]
        windows: Iterable[pa.Array] = (array,)
        if _has_null_struct(array):
            windows = (array.slice(at, WINDOW) for at in range(0, len(array), WINDOW))
        return [
            (leaf, data)
            for window in windows
            for leaf, data in zip(self._leaves, _struct_payloads(window, None), strict=True)
        ]


def logical_hash(
    data: pa.Table | Iterable[pa.RecordBatch], schema: pa.Schema | None = None
) -> Multihash:
    """Return the logical hash of a table, or of batches in order together with their schema."""
    if isinstance(data, pa.Table):
        schema = data.schema if schema is None else schema
        data = data.to_batches()
    if schema is None:
        raise ValueError("batches do not say their schema when there are none: pass it")
    hasher = LogicalHasher(schema)
    for batch in data:
        hasher.update(batch)
    return hasher.finish()


def array_digest(array: pa.Array) -> bytes:
    """Return the digest of one column that is no struct."""
    column = _Column(array.type)
    column.absorb(array)
    return column.digest()


def physical_hash(path: str | _PathLike) -> Multihash:
    """Return the SHA3-256 multihash of a file."""
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha3_256")
    return Multihash(int(Multicodec.SHA3_256), digest.digest())


def _opened(data_type: pa.DataType) -> Any:
    return hashlib.sha3_256(type_code(data_type))


def _headers(fields: Iterable[pa.Field], level: int) -> Iterator[bytes]:
    for field in fields:
        name = field.name.encode()
        yield struct.pack("<Q", len(name)) + name + struct.pack("<Q", level)
        data_type = storage_type(field.type)
        if _is_struct(data_type):
            yield from _headers(_children(data_type), level + 1)


def _leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    data_type = storage_type(data_type)
    if not _is_struct(data_type):
        yield data_type
        return
    for child in _children(data_type):
        yield from _leaf_types(child.type)


def _struct_payloads(array: pa.Array, decided: pa.Array | None) -> Iterator[pa.Buffer | bytes]:
    """Render the leaves of a struct; `decided` is the validity of an outer level with nulls."""
    if decided is None and array.null_count:
        decided = array.is_valid()
    for child in map(storage, array.flatten()):
        if _is_struct(child.type):
            yield from _struct_payloads(child, decided)
        elif decided is None:
            yield payload(child)
        else:
            rendered = render(child, zero(child.type))
            yield joined(pc.if_else(decided, rendered, pa.scalar(NULL, rendered.type)))


def _has_null_struct(array: pa.Array) -> bool:
    return _is_struct(array.type) and (
        array.null_count > 0 or any(_has_null_struct(storage(c)) for c in array.flatten())
    )


def _children(data_type: pa.DataType) -> list[pa.Field]:
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _is_struct(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(data_type))
