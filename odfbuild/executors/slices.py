"""Seal a frame into a data slice: system columns, order, types, one Parquet file, both hashes.

A slice begins with offset, op, system time and event time, then come the data columns as in the
schema in force.  Offsets count on from the chain's last one, system time is that of the block, and
rows without an event time get the one of their source (ODF 0.34.1, "Common Data Schema").
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import EngineError
from odfbuild.executors.conform import conform, unexpected_nulls
from odfbuild.executors.frames import Frame
from odfbuild.executors.slice_files import SliceWriter, read_slices, scan_slices
from odfbuild.executors.slice_schema import BadInputSchemaError, slice_schema
from odfbuild.odf.arrow import to_arrow
from odfbuild.odf.digest import LogicalHasher
from odfbuild.odf.events import DataSchema, DatasetVocabulary, DataSlice, OffsetInterval
from odfbuild.odf.timestamp import Timestamp

__all__ = [
    "BadInputSchemaError",
    "NullValuesError",
    "Sealed",
    "read_slices",
    "scan_slices",
    "seal",
]

DAY_MILLIS = 86_400_000


class NullValuesError(EngineError):
    """A required column came with nulls."""

    code = "null-values"

    def __init__(self, column: str, count: int) -> None:
        super().__init__(
            what=f"Column {column} contains {count} null values while none were expected",
            why="the column is required in the schema in force, or in the declared one",
            fix="fill or filter these rows in the query, or declare the column optional before "
            "the first rows are stored",
        )
        self.column = column
        self.count = count


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A frame made ready to commit.

    `schema` is that of the dataset from now on, system columns included; `slice` and `path` are
    None when the frame had no rows; `watermark` is the latest event time of the rows.
    """

    schema: DataSchema
    slice: DataSlice | None
    path: Path | None
    watermark: Timestamp | None

    @property
    def records(self) -> int:
        """Count the rows."""
        if self.slice is None:
            return 0
        return self.slice.offset_interval.end - self.slice.offset_interval.start + 1


def seal(
    frame: Frame,
    *,
    vocab: DatasetVocabulary,
    system_time: Timestamp,
    event_time: Timestamp,
    start: int,
    in_force: DataSchema | None,
    into: Path,
    retires: bool = False,
) -> Sealed:
    """Write the rows of a frame, from offset `start` on, as a slice into the file `into`.

    `event_time` is for rows without one; `retires` is as in `slice_schema`.  Every instant is cut
    to milliseconds.  Memory is bounded when the frame is a file.  Raises BadInputSchemaError,
    SchemaEvolutionError, NullValuesError, UnhashableTypeError.
    """
    schema = slice_schema(frame.schema, vocab, in_force, retires=retires)
    arrow = to_arrow(schema)
    hasher = LogicalHasher(arrow)
    if frame.rows == 0:
        return Sealed(schema=schema, slice=None, path=None, watermark=None)
    latest: int | None = None
    with SliceWriter(into, arrow, plain=vocab.offset_column) as writer:
        columns = _Columns(
            schema=arrow, vocab=vocab, system_time=system_time.millis, event_time=event_time.millis
        )
        for batch in _sealed_batches(frame, columns, start):
            hasher.update(batch)
            latest = _later(latest, batch.column(vocab.event_time_column))
            writer.write(batch)
    data = DataSlice(
        logical_hash=hasher.finish(),
        physical_hash=writer.physical_hash(),
        offset_interval=OffsetInterval(start, start + frame.rows - 1),
        size=into.stat().st_size,
    )
    watermark = None if latest is None else Timestamp.from_millis(latest)
    return Sealed(schema=schema, slice=data, path=into, watermark=watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """What the columns of a slice are made with; times in milliseconds."""

    schema: pa.Schema
    vocab: DatasetVocabulary
    system_time: int
    event_time: int

    def of(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Return a batch of the slice whose first offset is `start`."""
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = [self._column(field, found, batch.num_rows, start) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, field: pa.Field, found: dict[str, Any], rows: int, start: int) -> pa.Array:
        name = field.name
        if name == self.vocab.offset_column:
            return pc.cumulative_sum(pa.repeat(pa.scalar(1, field.type), rows), start=start - 1)
        if name == self.vocab.system_time_column:
            return pa.repeat(pa.scalar(self.system_time, field.type), rows)
        if name == self.vocab.event_time_column:
            return self._event_times(field.type, found.get(name), rows)
        if name == self.vocab.operation_type_column and name not in found:
            return pa.repeat(pa.scalar(0, field.type), rows)
        if name not in found:
            return pa.nulls(rows, field.type)
        return conform(found[name], field.type)

    def _event_times(self, data_type: pa.DataType, given: Any, rows: int) -> pa.Array:
        if pa.types.is_date(data_type):
            fallback = pa.scalar(self.event_time // DAY_MILLIS, pa.int32()).cast(data_type)
        else:
            fallback = pa.scalar(self.event_time, data_type)
        if given is None:
            return pa.repeat(fallback, rows)
        times = conform(given, data_type)
        return times if times.null_count == 0 else pc.coalesce(times, fallback)


def _sealed_batches(frame: Frame, columns: _Columns, start: int) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in frame.batches():
        if batch.num_rows == 0:
            continue
        made = columns.of(batch, start + rows)
        for field, array in zip(made.schema, made.columns, strict=True):
            for place, count in unexpected_nulls(array, field):
                raise NullValuesError(place, count)
        rows += made.num_rows
        yield made
    if rows != frame.rows:
        raise ValueError(f"a frame of {frame.rows} rows gave {rows}")


def _later(latest: int | None, times: pa.Array) -> int:
    """Return the later of an instant and the times of a batch, in milliseconds."""
    last = pc.max(times)
    millis = int(last.value) * (DAY_MILLIS if pa.types.is_date(times.type) else 1)
    return millis if latest is None else max(latest, millis)
