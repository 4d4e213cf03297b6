"""Rows of slices by their keys or by a time: no more is read than what may hold some.

Files and row groups go by their statistics; of a row group that is left the columns of the
condition are read first, and the others only if a row meets it.  Equality is that of GROUP BY,
also for nulls; columns whose equality in Arrow is another one cannot be looked up.

A poll brings few rows, a history has many.  Its rows whose value in one column of the key is among
those of the new rows are copied into one file; an exact join over that is then as good as over
all.  Files sorted by key are passed over where they hold none of these values.
"""

import bisect
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.conformance import conform, null_column
from odfbuild.executors.data.frames import Frame, ReadAmount
from odfbuild.executors.data.parquet import columns_of_file, footer
from odfbuild.values import dataclass

_THREADS: Final = 2
_DAY: Final = 86_400_000
_ALONE: Final = 1 << 17  # rows up to which one thread is quicker than several


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The rows that meet a condition, in the order of the files, and what was read for them."""

    rows: pa.Table
    read: ReadAmount


Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


class Condition(Protocol):
    """What rows are looked up by."""

    @property
    def kinds(self) -> Mapping[str, pa.DataType]:
        """Return the columns that decide, and the types in which their values are compared."""

    def may_hold(self, group: "RowGroup") -> bool:
        """Tell whether a row group may have rows that meet it; True if its footer cannot tell."""

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of each row whether it meets it."""


def look_up(
    paths: Sequence[Path], schema: pa.Schema, condition: Condition | None, *, most: int
) -> LookupResult | None:
    """Return the rows of slices that meet a condition, by default all.

    `schema` are the columns to return, with types as `in_millis` gives them; those that a file
    lacks are null.  None if the rows that are found take more than `most` bytes.
    """
    wanted = pa.schema([field.with_nullable(True) for field in schema])
    groups = [group for path in paths for group in groups_of(path)]
    of = sum(path.stat().st_size for path in paths)
    chosen = [each for each in groups if condition is None or condition.may_hold(each)]
    parts, read = [], ReadAmount(of=of)
    for table, looked in _in_turn(chosen, wanted, condition):
        read += looked
        parts.append(table)
        if sum(each.nbytes for each in parts) > most:
            return None
    tables = [part for part in parts if part.num_rows]
    return LookupResult(pa.concat_tables(tables) if tables else wanted.empty_table(), read)


def in_millis(kind: pa.DataType) -> pa.DataType:
    """Return a type with its timestamps in milliseconds of UTC, as slices hold them."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, in_millis(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(in_millis(kind.key_type), in_millis(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(in_millis(kind.value_type))
    return kind


@dataclass(frozen=True)
class KeyTable:
    """The rows of some keys: a column of the table for each part of the key, nulls count."""

    table: pa.Table

    @classmethod
    def of(cls, table: pa.Table) -> "KeyTable | None":
        """Return the condition for keys, None if columns of these types cannot be looked up."""
        kinds = [field.type for field in table.schema]
        return cls(table) if kinds and all(map(_is_plain, kinds)) else None

    @property
    def kinds(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in self.table.schema}

    def may_hold(self, group: "RowGroup") -> bool:
        return all(self._may_hold(group, name, kind) for name, kind in self.kinds.items())

    def _may_hold(self, group: "RowGroup", name: str, kind: pa.DataType) -> bool:
        values, has_null = self._stored_values[name]
        if not group.has(name):
            return has_null
        nulls = group.nulls(name)
        if has_null and nulls != 0:
            return True
        if nulls == group.rows:
            return False
        span = group.span(name, kind)
        if span is None:
            return True
        at = bisect.bisect_left(values, span[0])
        return at < len(values) and bool(values[at] <= span[1])

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        if len(self.kinds) == 1:
            (name,) = self.kinds
            return pc.is_in(rows.column(name), value_set=self._values[name])
        codes, known = None, None
        for name, values in self._values.items():
            size = pa.scalar(len(values), pa.int64())
            pair = [
                pc.index_in(each.column(name), value_set=values).cast(pa.int64())
                for each in (rows, self.table)
            ]
            if codes is not None:
                pair = [
                    pc.add(pc.multiply(c, size), p)
                    for c, p in zip((codes, known), pair, strict=True)
                ]
            distinct = pc.unique(pair[1])
            codes, known = (
                pc.index_in(p, value_set=distinct, skip_nulls=True).cast(pa.int64()) for p in pair
            )
        return pc.is_valid(codes)

    @cached_property
    def _values(self) -> dict[str, pa.Array]:
        return {name: pc.unique(self.table.column(name)) for name in self.kinds}

    @cached_property
    def _stored_values(self) -> dict[str, tuple[list[Any], bool]]:
        """Return the sorted values of each column as they are stored, and whether one is null."""
        return {
            name: (_stored_values(each), each.null_count > 0) for name, each in self._values.items()
        }


@dataclass(frozen=True)
class Times:
    """The rows with an instant from one on (None: any) up to, but without, another.

    In milliseconds; a column of dates stands for their first instants.
    """

    name: str
    kind: pa.DataType
    start: int | None
    end: int

    @classmethod
    def of(cls, name: str, kind: pa.DataType, start: int | None, end: int) -> "Times | None":
        """Return the condition, None for a column of another type than these."""
        is_known = pa.types.is_date32(kind) or kind == in_millis(pa.timestamp("ms"))
        return cls(name, kind, start, end) if is_known else None

    @property
    def kinds(self) -> Mapping[str, pa.DataType]:
        return {self.name: self.kind}

    def may_hold(self, group: "RowGroup") -> bool:
        span = group.span(self.name, self.kind)
        if span is None:
            return group.has(self.name)
        first, last = (each * self._unit for each in span)
        return first < self.end and (self.start is None or last >= self.start)

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        stored = rows.column(self.name).cast(pa.int32() if self._unit > 1 else pa.int64())
        millis = pc.multiply(stored.cast(pa.int64()), self._unit)
        early = pc.less(millis, self.end)
        found = (
            early if self.start is None else pc.and_(early, pc.greater_equal(millis, self.start))
        )
        return pc.fill_null(found, False)

    @property
    def _unit(self) -> int:
        return _DAY if pa.types.is_date32(self.kind) else 1


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether values of a type are equal in Arrow if and only if they are in SQL."""
    return (
        is_sorted_as_stored(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_unsigned_integer(kind)
        or pa.types.is_decimal128(kind)
    )


def is_sorted_as_stored(kind: pa.DataType) -> bool:
    """Tell whether values of a type compare like the numbers or bytes that they are stored as."""
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def _stored_values(values: pa.Array) -> list[Any]:
    there = values.drop_null()
    return sorted(as_stored(there).to_pylist()) if is_sorted_as_stored(there.type) else []


def as_stored(values: Values) -> Values:
    """Return values as the numbers or bytes that they are stored as."""
    if pa.types.is_string(values.type):
        return values.cast(pa.binary())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a file, and what the footer tells of it."""

    path: Path
    number: int

    @property
    def footer(self) -> pq.RowGroupMetaData:
        return footer(self.path).row_group(self.number)

    def has(self, name: str) -> bool:
        return name in columns_of_file(self.path).names

    def nulls(self, name: str) -> int | None:
        """Count the nulls of a column, as far as the footer tells."""
        known = self._statistics(name)
        return None if known is None or not known.has_null_count else int(known.null_count)

    def span(self, name: str, kind: pa.DataType) -> tuple[Any, Any] | None:
        """Return the least and the greatest value of a column, as they are stored.

        None if the footer does not tell, or the values are stored in another type than this.
        """
        known = self._statistics(name)
        if known is None or not known.has_min_max or not is_sorted_as_stored(kind):
            return None
        if columns_of_file(self.path).field(name).type != kind:
            return None
        return known.min_raw, known.max_raw

    @property
    def rows(self) -> int:
        return int(self.footer.num_rows)

    def _statistics(self, name: str) -> pq.Statistics | None:
        at = _flat_columns(self.path).get(name)
        return None if at is None else self.footer.column(at).statistics

    def bytes(self, columns: Sequence[str]) -> int:
        """Return the stored size of columns, be they nested."""
        group = self.footer
        chunks = (group.column(at) for at in range(group.num_columns))
        return sum(
            int(each.total_compressed_size)
            for each in chunks
            if each.path_in_schema.partition(".")[0] in columns
        )


def groups_of(path: Path) -> Iterator[RowGroup]:
    """Return the row groups of a file, in order."""
    return (RowGroup(path, number) for number in range(footer(path).num_row_groups))


def _flat_columns(path: Path) -> dict[str, int]:
    schema = footer(path).schema
    return {schema.column(at).path: at for at in range(len(schema))}


def _in_turn(
    groups: Sequence[RowGroup], wanted: pa.Schema, condition: Condition | None
) -> Iterator[tuple[pa.Table, ReadAmount]]:
    """Yield what comes of each row group, in order; some are read ahead, by several threads."""
    if len(groups) < 2 or sum(each.rows for each in groups) <= _ALONE:
        yield from (_read(each, wanted, condition) for each in groups)
        return
    with ThreadPoolExecutor(_THREADS, "look-up") as pool:
        left = iter(groups)
        running = [pool.submit(_read, each, wanted, condition) for each in islice(left, _THREADS)]
        try:
            while running:
                yield running.pop(0).result()
                running += [pool.submit(_read, e, wanted, condition) for e in islice(left, 1)]
        finally:
            for each in running:
                each.cancel()


def _read(
    group: RowGroup, wanted: pa.Schema, condition: Condition | None
) -> tuple[pa.Table, ReadAmount]:
    metadata = footer(group.path)
    with pq.ParquetFile(group.path, metadata=metadata, memory_map=True) as file:
        there = set(file.schema_arrow.names)
        deciding = [] if condition is None else list(condition.kinds)
        first = [name for name in deciding if name in there]
        others = [name for name in wanted.names if name in there and name not in first]
        held = file.read_row_group(group.number, columns=first, use_threads=False)
        looked = ReadAmount(rows=group.rows, bytes=group.bytes(first))
        places = None
        if condition is not None:
            fitted = _in_types(held, tuple(condition.kinds.items()), group.rows)
            places = pc.indices_nonzero(condition.mask(fitted))
            if not len(places):
                return wanted.empty_table(), looked
        found = file.read_row_group(group.number, columns=others, use_threads=False)
        looked += ReadAmount(bytes=group.bytes(others))
    for name in first:
        found = found.append_column(name, held.column(name))
    if places is not None and len(places) < group.rows:
        found = found.take(places)
    rows = group.rows if places is None else len(places)
    return _in_types(found, [(field.name, field.type) for field in wanted], rows), looked


def _in_types(table: pa.Table, fields: Sequence[tuple[str, pa.DataType]], rows: int) -> pa.Table:
    """Return columns of these types; those that are not there are null."""
    there = set(table.column_names)
    columns = [
        conform(_one_chunk(table.column(name)), kind) if name in there else null_column(rows, kind)
        for name, kind in fields
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _one_chunk(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


MOST_ROWS: Final = 2_000_000  # new rows whose values are looked for
_MOST_WANTED: Final = 64 << 20  # bytes of these values
_MOST_FOUND: Final = 256 << 20  # bytes of rows that have them
_LEAST_CHUNK: Final = 1 << 18  # rows compared at a time, where the values are few


def affected_rows(
    paths: Sequence[Path], schema: pa.Schema, key: Sequence[str], new: Frame, into: Path
) -> Path | None:
    """Write the rows of Parquet files that rows with these keys may touch; return their file.

    It has the columns of `schema`, null where a file lacks one, in full (no dictionaries).  None if
    the rows on one of both sides are too many, or if no column of the key is of a type whose
    equality is the same everywhere.
    """
    wanted = _telling_column(schema, key, new)
    if wanted is None:
        return None
    stored = pa.schema([field.with_type(in_millis(field.type)) for field in schema])
    found = look_up(paths, stored, wanted, most=_MOST_FOUND)
    if found is None:
        return None
    pq.write_table(
        found.rows, into, compression="snappy", use_dictionary=False, write_page_checksum=True
    )
    return into


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The values of one key column in the new rows, each once, in order, without null.

    `kind` is the type of the column; `values` are as Parquet stores them.
    """

    column: str
    kind: pa.DataType
    values: pa.Array

    @property
    def kinds(self) -> Mapping[str, pa.DataType]:
        return {self.column: self.kind}

    def may_hold(self, group: RowGroup) -> bool:
        span = group.span(self.column, self.kind)
        return group.has(self.column) if span is None else len(self._between(*span)) > 0

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        stored = pa.table([rows.column(self.column).cast(self.values.type)], [self.column])
        pieces = stored.to_batches(max_chunksize=max(_LEAST_CHUNK, len(self.values)))
        return pa.chunked_array([self._among(each.column(0)) for each in pieces], pa.bool_())

    def _among(self, piece: pa.Array) -> pa.Array:
        """Compare with no more values than there may be: of sorted rows that is quick."""
        ends = pc.min_max(piece).as_py()
        possible = (
            self.values[:0] if ends["min"] is None else self._between(ends["min"], ends["max"])
        )
        return pc.is_in(piece, value_set=possible)

    def _between(self, low: Any, high: Any) -> pa.Array:
        first = bisect_left(self.values, low, key=_plain)
        return self.values.slice(first, bisect_right(self.values, high, key=_plain) - first)


def _telling_column(schema: pa.Schema, key: Sequence[str], new: Frame) -> _Wanted | None:
    """Return the values of the column of the key that tells most rows apart."""
    if new.rows > MOST_ROWS:
        return None
    both = [name for name in key if name in schema.names and name in new.schema.names]
    found = [_values(new, name) for name in both if _compares_alike(schema, new.schema, name)]
    known = [each for each in found if each is not None]
    return max(known, key=lambda each: len(each.values), default=None)


def _compares_alike(schema: pa.Schema, new: pa.Schema, name: str) -> bool:
    """Say whether both sides have one type, of which Arrow and SQL agree what is equal."""
    kinds = (_kind(schema.field(name).type), _kind(new.field(name).type))
    return kinds[0] == kinds[1] and _STORED.get(kinds[0]) is not None


def _kind(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


def _values(new: Frame, name: str) -> _Wanted | None:
    """Return the values of a column of the new rows; None if they are too large."""
    kind = _kind(new.schema.field(name).type)
    stored, kept, size = _STORED[kind], [], 0
    for batch in new.select([name]).batches():
        kept.append(pc.unique(batch.column(0)).drop_null().cast(kind).cast(stored))
        size += kept[-1].nbytes
        if size > _MOST_WANTED:
            return None
    values = pc.unique(pa.chunked_array(kept, stored))
    return _Wanted(name, kind, values.take(pc.sort_indices(values)))


def _plain(value: pa.Scalar) -> Any:
    return value.as_py()


_STORED: Final[Mapping[pa.DataType, pa.DataType]] = {
    **{kind: kind for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.binary())},
    pa.date32(): pa.int32(),
    pa.string(): pa.binary(),
}
