"""Data slices sealed from frames: system columns, order, types, Parquet files, hashes.

A slice begins with offset, op, system time and event time, then come the data columns as in the
schema in force.  Offsets count on from the chain's last one, system time is that of the block, and
rows without an event time get the one of their source (ODF 0.34.1, "Common Data Schema").
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import EngineError
from odfbuild.executors.data.changelog import against_rules
from odfbuild.executors.data.checks.leaves import first_without_utf8
from odfbuild.executors.data.checks.rows import (
    CORRECT_FROM,
    CORRECT_TO,
    RowRules,
    SliceTerms,
    lone_from,
    lone_to,
)
from odfbuild.executors.data.conformance import conform, null_column, unexpected_nulls
from odfbuild.executors.data.fine_times import Cut, FineTimes, noting, noting_column
from odfbuild.executors.data.frames import Frame, ReadAmount
from odfbuild.executors.data.parquet import SliceWriter
from odfbuild.executors.data.slice_schema import slice_schema
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    DataSlice,
    MetadataEvent,
    OffsetInterval,
    SetDataSchema,
)
from odfbuild.odf.hashing import LogicalHasher
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.state.chain.checked_files import HashedMark
from odfbuild.state.chain.commit_request import StagedFile
from odfbuild.values import dataclass

DAY_MILLIS = 86_400_000

Item = TypeVar("Item")
Result = TypeVar("Result")


class NullValuesError(EngineError):
    """A required column has nulls."""

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


class TextNotUtf8Error(EngineError):
    """A text column has bytes that are not UTF-8."""

    code = "text-not-utf8"

    def __init__(self, column: str, row: int) -> None:
        super().__init__(
            what=f"row {row:,} has a text in the column {column} that is not UTF-8",
            why="texts in Parquet and Arrow are UTF-8: other programs could not read the row",
            fix="correct the source, declare the column BINARY, or decode the bytes in the query, "
            "such as by decode(cast(column as binary), 'ISO-8859-1')",
        )
        self.column = column
        self.row = row


class SliceNotSeenError(EngineError):
    """A slice that another process wrote is not visible here, or differs."""

    code = "slice-not-seen"

    def __init__(self, path: Path, written: int, found: int | None) -> None:
        super().__init__(
            what=f"a task wrote {written:,} bytes to {path}, and "
            + ("they are not here" if found is None else f"{found:,} are here"),
            why="its machine does not share that folder with this one",
            fix="mount the folder of the workspace at the same path on every machine of the "
            "cluster, then run again: nothing of the step was written",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSlice:
    """One slice, the file that it is in, and the latest event time of its rows.

    `first` and `last` are the operations of its first and last record; `takes_back` tells whether
    any of them is a -R or -C.  `cut` has the first time of each column that was cut.  `mark` shows
    whether the file is as it was when it was hashed.  `held` keeps what it may be copied from.
    """

    data: DataSlice
    path: Path
    watermark: Timestamp
    first: int
    last: int
    takes_back: bool
    cut: tuple[Cut, ...] = ()
    mark: HashedMark | None = dataclasses.field(default=None, compare=False)
    held: object = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A frame made ready to commit.

    `schema` is that of the dataset from now on, system columns included; `slices` hold the rows in
    order, offsets without gaps, and are none when the frame had no rows.  `read` is the frame's.
    `cut_before` are times that were cut before the rows were sealed.
    """

    schema: DataSchema
    slices: tuple[SealedSlice, ...] = ()
    read: ReadAmount | None = None
    cut_before: tuple[Cut, ...] = ()

    @property
    def records(self) -> int:
        """Count the rows."""
        intervals = [each.data.offset_interval for each in self.slices]
        return intervals[-1].end - intervals[0].start + 1 if intervals else 0

    @property
    def takes_back(self) -> bool:
        """Tell whether any record is a -R or -C."""
        return any(each.takes_back for each in self.slices)

    @property
    def cut(self) -> tuple[Cut, ...]:
        """Return the first time of each column that was cut to milliseconds."""
        first = {each.column: each for each in self.cut_before}
        for each in (cut for piece in self.slices for cut in piece.cut):
            first.setdefault(each.column, each)
        return tuple(first.values())

    @property
    def slice(self) -> DataSlice | None:
        """Return the slice of a frame that was not to be cut; None if it had no rows."""
        return None if self._only_slice is None else self._only_slice.data

    @property
    def path(self) -> Path | None:
        """Return the file of that slice."""
        return None if self._only_slice is None else self._only_slice.path

    @property
    def watermark(self) -> Timestamp | None:
        """Return the latest event time of all rows."""
        return max((each.watermark for each in self.slices), default=None)

    @property
    def _only_slice(self) -> SealedSlice | None:
        if len(self.slices) > 1:
            raise ValueError("there are several slices")
        return self.slices[0] if self.slices else None


class Spread(Protocol):
    """A way to call a function with every item, perhaps with several at a time."""

    def __call__(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        """Return the results in the order of the items; raises the error of the first to fail."""


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
    slice_rows: int | None = None,
    spread: Spread | None = None,
) -> Sealed:
    """Write the rows of a frame, from offset `start` on, as a slice into the file `into`.

    `event_time` is for rows without one; `retires` is as in `slice_schema`.  Every instant is cut
    to milliseconds: `Sealed.cut`.  Memory is bounded when the frame is in files.  With
    `slice_rows`, every so many rows become a slice of their own, in a file beside `into`; `spread`
    writes slices of a frame in files, several at a time, perhaps in other processes.  Raises
    BadInputSchemaError, SchemaEvolutionError, NullValuesError, TextNotUtf8Error,
    UnhashableTypeError, and InvalidChangelogError for rows that break the rules of `checks.rows`.
    """
    schema = slice_schema(frame.schema, vocab, in_force, retires=retires)
    arrow = to_arrow(schema)
    LogicalHasher(arrow)  # refuses types without a hash, rows or no rows
    columns = _SliceColumns(
        schema=arrow, vocab=vocab, system_time=system_time.millis, event_time=event_time.millis
    )
    pieces = _pieces(frame, columns, start, into, slice_rows)
    if spread is None or frame.table is not None or len(pieces) < 2:
        slices, read = tuple(map(_seal_piece, pieces)), frame.read
    else:
        slices, read = spread(_seal_piece, pieces), None
        _check_files(slices)
    _check_borders(slices)
    return Sealed(schema=schema, slices=slices, read=read, cut_before=frame.cut)


def _check_files(slices: Sequence[SealedSlice]) -> None:
    """Refuse slices whose files are not here as other processes, maybe elsewhere, wrote them."""
    for each in slices:
        try:
            size: int | None = each.path.stat().st_size
        except OSError:
            size = None
        if size != each.data.size:
            raise SliceNotSeenError(each.path, each.data.size, size)


def _check_borders(slices: Sequence[SealedSlice]) -> None:
    """Refuse a -C at the end of a slice, or a +C at the start, that has no other half there."""
    last = 0
    for each in slices:
        interval = each.data.offset_interval
        if last == CORRECT_FROM and each.first != CORRECT_TO:
            raise against_rules(lone_from(interval.start - 1))
        if last != CORRECT_FROM and each.first == CORRECT_TO:
            raise against_rules(lone_to(interval.start))
        last = each.last
    if slices and last == CORRECT_FROM:
        raise against_rules(lone_from(slices[-1].data.offset_interval.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePiece:
    """Rows that become one slice: plain values, so that another process can do it."""

    frame: Frame
    columns: "_SliceColumns"
    start: int
    into: Path

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the slice."""
        return self.columns.schema


def _pieces(
    frame: Frame, columns: "_SliceColumns", start: int, into: Path, slice_rows: int | None
) -> tuple[SlicePiece, ...]:
    if slice_rows is None or frame.rows <= slice_rows:
        whole = SlicePiece(frame=frame, columns=columns, start=start, into=into)
        return (whole,) if frame.rows else ()
    return tuple(
        SlicePiece(
            frame=frame.slice(first, slice_rows),
            columns=columns,
            start=start + first,
            into=into.with_name(f"{into.stem}-{number}{into.suffix}"),
        )
        for number, first in enumerate(range(0, frame.rows, slice_rows))
    )


def _seal_piece(piece: SlicePiece) -> SealedSlice:
    hasher, fine = LogicalHasher(piece.columns.schema), FineTimes()
    terms = SliceTerms(
        vocab=piece.columns.vocab, start=piece.start, latest=piece.columns.system_time, exact=True
    )
    rules = RowRules(terms, piece.columns.schema)
    latest: int | None = None
    offsets = piece.columns.vocab.offset_column
    writer = SliceWriter(piece.into, piece.columns.schema, plain=offsets, hashed=True)
    with noting(fine), writer:
        for batch in _sealed_batches(piece.frame, piece.columns, piece.start):
            hasher.update(batch)
            rules.update(batch)
            latest = _later(latest, batch.column(piece.columns.vocab.event_time_column))
            writer.write(batch)
    for problem in rules.problems:
        raise against_rules(problem)
    first, last = rules.first_op, rules.tail.op
    assert latest is not None  # noqa: S101 - a piece has rows, and all have an event time
    assert first is not None and last is not None  # noqa: S101 - and an operation
    logical_hash = hasher.finish()
    physical_hash, mark = writer.hash()
    data = DataSlice(
        logical_hash=logical_hash,
        physical_hash=physical_hash,
        offset_interval=OffsetInterval(piece.start, piece.start + piece.frame.rows - 1),
        size=piece.into.stat().st_size,
    )
    return SealedSlice(
        data=data,
        path=piece.into,
        watermark=_watermark(latest, piece.columns.vocab),
        first=first,
        last=last,
        takes_back=rules.takes_back,
        cut=tuple(fine.first.values()),
        mark=mark,
    )


def _watermark(latest: int, vocab: DatasetVocabulary) -> Timestamp:
    watermark = Timestamp.from_millis(latest)
    if not watermark.has_date:
        raise InvalidTimestampError(
            what=f"the latest {vocab.event_time_column!r}, {latest} ms since 1970, is not within "
            "the years 1 to 9999",
            why="it becomes the watermark, which has no other years",
            fix="check the unit of its numbers: seconds read as milliseconds, or the reverse, "
            "give such times",
        )
    return watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class _SliceColumns:
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
        noting_column(name)
        if name == self.vocab.offset_column:
            return pc.cumulative_sum(pa.repeat(pa.scalar(1, field.type), rows), start=start - 1)
        if name == self.vocab.system_time_column:
            return pa.repeat(pa.scalar(self.system_time, field.type), rows)
        if name == self.vocab.event_time_column:
            return self._event_times(field.type, found.get(name), rows)
        if name == self.vocab.operation_type_column and name not in found:
            return pa.repeat(pa.scalar(0, field.type), rows)
        if name not in found:
            return null_column(rows, field.type)
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


def _sealed_batches(frame: Frame, columns: _SliceColumns, start: int) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in frame.batches():
        if batch.num_rows == 0:
            continue
        made = columns.of(batch, start + rows)
        for field, array in zip(made.schema, made.columns, strict=True):
            for place, count in unexpected_nulls(array, field):
                raise NullValuesError(place, count)
            if (row := first_without_utf8(array)) is not None:
                raise TextNotUtf8Error(field.name, rows + row + 1)
        rows += made.num_rows
        yield made
    if rows != frame.rows:
        raise ValueError(f"a frame of {frame.rows} rows gave {rows}")


def _later(latest: int | None, times: pa.Array) -> int:
    """Return the later of an instant and the times of a batch, in milliseconds."""
    last = pc.max(times)
    millis = int(last.value) * (DAY_MILLIS if pa.types.is_date(times.type) else 1)
    return millis if latest is None else max(latest, millis)


def schema_events(state: ChainState, sealed: Sealed | None) -> tuple[MetadataEvent, ...]:
    """Return the SetDataSchema that the slice asks for: the first one, or one that grew."""
    if sealed is None:
        return ()
    in_force = schema_in_force(state)
    schema = arrow_bytes(sealed.schema)
    if in_force is not None and schema == arrow_bytes(in_force):
        return ()
    return (SetDataSchema(raw_arrow_schema=schema),)


def staged_files(sealed: Sealed | None) -> tuple[StagedFile, ...]:
    """Return the files of the slices, in their order."""
    slices = () if sealed is None else sealed.slices
    return tuple(
        StagedFile(each.path, each.data.physical_hash, "data", each.mark) for each in slices
    )
