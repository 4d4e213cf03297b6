"""Hashes of data: what the rows say (logical hash) and what the file holds (physical hash).

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

A rendered column is a binary array without nulls, one element a row.  Its data buffer is what is
hashed, and cutting it at the offsets of a list column renders the lists: no value is touched one
by one.  Offsets are 64 bit throughout, so no chunk can overflow them.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import ProtocolError
from odfbuild.host.files import open_regular
from odfbuild.odf.identity import Multicodec, Multihash

NULL = b"\x00"
_BYTES = pa.large_binary()
_TIME_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnhashableTypeError(ProtocolError):
    """The logical hash is not defined for a type."""

    code = "unhashable-type"

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(
            what=f"data of type {data_type} has no logical hash",
            why="arrow0-sha3-256 knows numbers, booleans, text, bytes, dates, times, decimals, "
            "lists of these and structs outside of lists",
            fix="cast the column to one of these types, or leave it out, in `preprocess` or in "
            "the query",
        )
        self.type = data_type


def type_code(data_type: pa.DataType) -> bytes:
    """Return the bytes that open a column: u16 type id, then what the type is refined by."""
    t = storage_type(data_type)
    types = pa.types
    if types.is_null(t):
        return struct.pack("<H", 0)
    if types.is_integer(t):
        return struct.pack("<HBQ", 1, types.is_signed_integer(t), t.bit_width)
    if types.is_floating(t):
        return struct.pack("<HQ", 2, t.bit_width)
    if _is_bytes(t):
        return struct.pack("<H", 3)
    if _is_text(t):
        return struct.pack("<H", 4)
    if types.is_boolean(t):
        return struct.pack("<H", 5)
    if types.is_decimal(t):
        return struct.pack("<HQQq", 6, t.bit_width, t.precision, t.scale)
    if types.is_date(t):
        return struct.pack("<HQH", 7, t.bit_width, 0 if types.is_date32(t) else 1)
    if types.is_time(t):
        return struct.pack("<HQH", 8, t.bit_width, _TIME_UNITS[t.unit])
    if types.is_timestamp(t):
        return struct.pack("<HH", 9, _TIME_UNITS[t.unit]) + _zone(t.tz)
    if _is_list(t):
        return struct.pack("<H", 11) + type_code(t.value_type)
    raise UnhashableTypeError(data_type)


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionary encoding or extension."""
    if pa.types.is_dictionary(data_type):
        return storage_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return storage_type(data_type.storage_type)
    return data_type


def storage(array: pa.Array) -> pa.Array:
    """Return the array without dictionary encoding or extension."""
    if pa.types.is_dictionary(array.type):
        return storage(array.dictionary_decode())
    if isinstance(array.type, pa.BaseExtensionType):
        return storage(array.storage)
    return array


def zero(data_type: pa.DataType) -> bytes:
    """Return what a slot without a value feeds when the row counts as valid."""
    t = storage_type(data_type)
    if pa.types.is_boolean(t):
        return b"\x01"
    return bytes(t.bit_width // 8) if _is_number(t) else bytes(8)


def payload(array: pa.Array, null: bytes = NULL) -> pa.Buffer | bytes:
    """Return the bytes of all rows one after another; numbers without nulls are not copied."""
    array = storage(array)
    if len(array) == 0:
        return b""
    if _is_number(array.type) and array.null_count == 0:
        width = array.type.bit_width // 8
        return array.buffers()[1].slice(array.offset * width, len(array) * width)
    if _takes_one_byte(array.type):
        return payload(_one_byte(array, null))
    return joined(render(array, null))


def render(array: pa.Array, null: bytes = NULL) -> pa.LargeBinaryArray:
    """Return the bytes of every row; `null` stands for rows without a value."""
    array = storage(array)
    t = array.type
    if len(array) == 0:
        return pa.array([], _BYTES)
    if pa.types.is_boolean(t):
        return render(_one_byte(array, null))
    if _is_number(t):
        return _with_nulls(array.view(pa.binary(t.bit_width // 8)).cast(_BYTES), null)
    if _is_text(t) or _is_bytes(t):
        values = array.cast(_BYTES)
        return _with_counts(pc.binary_length(values), values, null)
    if _is_list(t):
        return _with_counts(pc.list_value_length(array).cast(pa.int64()), _items(array), null)
    raise UnhashableTypeError(t)


def joined(values: pa.LargeBinaryArray) -> pa.Buffer:
    """Return the values one after another, without a copy."""
    offsets = _offsets(values)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return values.buffers()[2].slice(first, last - first)


def _one_byte(array: pa.Array, null: bytes) -> pa.Array:
    """Render what takes one byte, null or not: booleans and 8-bit integers."""
    if pa.types.is_boolean(array.type):
        numbers = pc.add(array.cast(pa.uint8()), pa.scalar(1, pa.uint8()))
    else:
        numbers = array.view(pa.uint8())
    return numbers.fill_null(null[0])


def _with_nulls(values: pa.Array, null: bytes) -> pa.Array:
    return values if values.null_count == 0 else pc.coalesce(values, pa.scalar(null, _BYTES))


def _with_counts(counts: pa.Array, values: pa.Array, null: bytes) -> pa.Array:
    """Put the count before each value; rows whose count is null are `null` and no value."""
    prefixes = _with_nulls(counts.view(pa.binary(8)).cast(_BYTES), null)
    return pc.binary_join_element_wise(
        prefixes, values, pa.scalar(b"", _BYTES), null_handling="skip"
    )


def _items(lists: pa.Array) -> pa.Array:
    """Return the rendered items of each list, joined; empty for a null list."""
    starts = _starts(lists)
    first, last = starts[0].as_py(), starts[-1].as_py()
    rendered = render(lists.values.slice(first, last - first))
    cuts = _offsets(rendered).take(pc.subtract(starts, first))
    texts = _binary(cuts, rendered.buffers()[2])
    if pc.sum(pc.list_value_length(lists), min_count=0).as_py() == last - first:
        return texts
    return pc.if_else(lists.is_valid(), texts, pa.scalar(b"", _BYTES))


def _starts(lists: pa.Array) -> pa.Array:
    """Return where each list starts among the items, and where the last one ends."""
    if not pa.types.is_fixed_size_list(lists.type):
        return lists.offsets.cast(pa.int64())
    size = pa.scalar(lists.type.list_size, pa.int64())
    ends = pc.cumulative_sum(pa.repeat(size, len(lists)), start=lists.offset * size.as_py())
    return pa.concat_arrays([pa.array([lists.offset * size.as_py()], pa.int64()), ends])


def _offsets(values: pa.Array) -> pa.Array:
    raw = values.buffers()[1]
    if raw is None or raw.size == 0:
        return pa.array([0], pa.int64())
    return pa.Array.from_buffers(
        pa.int64(), len(values) + 1, [None, raw], null_count=0, offset=values.offset
    )


def _binary(offsets: pa.Array, data: pa.Buffer | None) -> pa.Array:
    buffers = [None, offsets.buffers()[1], data]
    return pa.Array.from_buffers(_BYTES, len(offsets) - 1, buffers, null_count=0)


def _zone(name: str | None) -> bytes:
    if name is None:
        return b"\x00"
    text = name.encode()
    return struct.pack("<Q", len(text)) + text


def _is_number(t: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(t)
        or types.is_floating(t)
        or types.is_decimal(t)
        or types.is_date(t)
        or types.is_time(t)
        or types.is_timestamp(t)
    )


def _takes_one_byte(t: Any) -> bool:
    return bool(pa.types.is_boolean(t) or pa.types.is_int8(t) or pa.types.is_uint8(t))


def _is_text(t: Any) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: Any) -> bool:
    return bool(
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_fixed_size_binary(t)
        or pa.types.is_binary_view(t)
    )


def _is_list(t: Any) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))


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
        self._leaves = [_new_hash(leaf) for leaf in _leaf_types(data_type)]
        self.last: Future[None] | None = None

    def absorb(self, array: pa.Array, before: Future[None] | None = None) -> None:
        """Render the rows, wait for those before them, hash."""
        pieces = self._render(array)
        if before is not None:
            before.result()
        for leaf, data in pieces:
            leaf.update(data)

    def digest(self) -> bytes:
        return b"".join(leaf.digest() for leaf in self._leaves)

    def _render(self, array: pa.Array) -> _Pieces:
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


def _new_hash(data_type: pa.DataType) -> Any:
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
