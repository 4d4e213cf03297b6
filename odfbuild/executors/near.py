"""The part of a history that new rows may touch, found without an engine.

A poll brings few rows, a history has many.  Its rows whose value in one column of the key is among
those of the new rows are copied into one file; an exact join over that is then as good as over
all.  Files sorted by key are passed over where they hold none of these values.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.frames import Frame
from odfbuild.executors.lookup import Group, in_millis, look_up

__all__ = ["MOST_ROWS", "near_rows"]

MOST_ROWS: Final = 2_000_000  # new rows whose values are looked for
_MOST_WANTED: Final = 64 << 20  # bytes of these values
_MOST_FOUND: Final = 256 << 20  # bytes of rows that have them
_LEAST_CHUNK: Final = 1 << 18  # rows compared at a time, where the values are few


def near_rows(
    paths: Sequence[Path], schema: pa.Schema, key: Sequence[str], new: Frame, into: Path
) -> Path | None:
    """Write the rows of Parquet files that rows with these keys may touch; return their file.

    It has the columns of `schema`, null where a file lacks one, in full (no dictionaries).  None if
    the rows on one of both sides are too many, or if no column of the key is of a type whose
    equality is the same everywhere.
    """
    wanted = _wanted(schema, key, new)
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

    def may_hold(self, group: Group) -> bool:
        span = group.span(self.column, self.kind)
        return group.has(self.column) if span is None else len(self._between(*span)) > 0

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        stored = pa.table([rows.column(self.column).cast(self.values.type)], [self.column])
        pieces = stored.to_batches(max_chunksize=max(_LEAST_CHUNK, len(self.values)))
        return pa.chunked_array([self._among(each.column(0)) for each in pieces], pa.bool_())

    def _among(self, piece: pa.Array) -> pa.Array:
        """Compare with no more values than there may be: of sorted rows that is quick."""
        ends = pc.min_max(piece).as_py()
        near = self.values[:0] if ends["min"] is None else self._between(ends["min"], ends["max"])
        return pc.is_in(piece, value_set=near)

    def _between(self, low: Any, high: Any) -> pa.Array:
        first = bisect_left(self.values, low, key=_plain)
        return self.values.slice(first, bisect_right(self.values, high, key=_plain) - first)


def _wanted(schema: pa.Schema, key: Sequence[str], new: Frame) -> _Wanted | None:
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
