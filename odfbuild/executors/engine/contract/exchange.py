"""Files that go to an engine elsewhere and come from it: slices of an event log.

What goes are rows that stand, as appends with offsets of their own from 0.  What comes is held to
the contract and to its answer: nothing of a file is taken that breaks either.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.changelog import current_table
from odfbuild.executors.data.conformance import conform, row_numbers
from odfbuild.executors.data.fine_times import noting_column
from odfbuild.executors.data.frames import file_batches
from odfbuild.executors.data.parquet import SliceWriter
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.executors.engine.arrow.stored import conformed, stored
from odfbuild.host.files import open_descriptor
from odfbuild.odf.events import DataSchema, DatasetVocabulary, OffsetInterval
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.texts.redaction import excerpt

MOST_BYTES: Final = 2 << 30
"""Bytes that the rows of one answer may take in memory."""

_OPERATIONS: Final = (0, 1, 2, 3)

Wrong = Callable[[str], OdfBuildError]
"""What makes an error of what is wrong with an answer."""


def write_log(
    rows: pa.Table, schema: DataSchema, vocab: DatasetVocabulary, path: Path
) -> OffsetInterval | None:
    """Write rows as a slice in which each is appended; return its offsets, None without rows.

    System times are those of the Unix epoch: an engine does not learn when a row was committed.
    """
    wanted = to_arrow(schema)
    count = rows.num_rows
    made = {
        vocab.offset_column: row_numbers(count),
        vocab.operation_type_column: pa.repeat(0, count),
        vocab.system_time_column: pa.repeat(pa.scalar(0, pa.timestamp("ms", "UTC")), count),
    }
    with SliceWriter(path, wanted, plain=vocab.offset_column) as writer:
        for start in range(0, count, 1 << 16):
            part = rows.slice(start, 1 << 16).combine_chunks()
            columns = [
                made[each.name].slice(start, part.num_rows).cast(each.type)
                if each.name in made
                else conform(_one_array(part.column(each.name)), each.type)
                for each in wanted
            ]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=wanted))
    return OffsetInterval(0, count - 1) if count else None


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def write_columns(schema: DataSchema, path: Path) -> None:
    """Write a file without rows, which shows columns."""
    pq.write_table(to_arrow(schema).empty_table(), path)


def read_rows(path: Path, wrong: Wrong) -> pa.Table:
    """Return the rows of a file that an engine wrote, in types that are stored.

    The file itself is read, no link; so many bytes as fit into memory.
    """
    try:
        with (
            os.fdopen(open_descriptor(path, follow=False), "rb") as opened,
            pq.ParquetFile(opened, pre_buffer=False) as file,
        ):
            return _rows(file, wrong)
    except FileNotFoundError:
        raise wrong("did not write the file of its result") from None
    except (OSError, pa.ArrowException) as error:
        text = excerpt(" ".join(str(error).split()), 300)
        raise wrong(f"wrote a file that is not Parquet, or cannot be read: {text}") from None


def _rows(file: pq.ParquetFile, wrong: Wrong) -> pa.Table:
    found = file.schema_arrow
    twice = repeated_name(found.names)
    if twice is not None:
        raise wrong(f"wrote two columns named {twice!r}")
    schema = pa.schema([pa.field(each.name, stored(each.name, each.type)) for each in found])
    if file.metadata.num_rows * max(1, len(found)) > MOST_BYTES:
        raise wrong(f"wrote {file.metadata.num_rows:,} rows, which do not fit into memory")
    batches, size = [], 0
    for batch in file_batches(file, found.names):
        batch.validate(full=True)  # texts of a file may be no UTF-8
        columns = []
        for column, to in zip(batch.columns, schema, strict=True):
            noting_column(to.name)
            columns.append(conformed(column, to.type))
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        size += batches[-1].nbytes
        if size > MOST_BYTES:
            raise wrong(f"wrote rows of more than {MOST_BYTES >> 20} MB")
    return pa.Table.from_batches(batches, schema)


def read_log(
    path: Path, interval: OffsetInterval | None, vocab: DatasetVocabulary, wrong: Wrong
) -> pa.Table:
    """Return the rows that stand of a log that an engine wrote: event time and data columns.

    `interval` are the offsets that its answer says.
    """
    rows = read_rows(path, wrong)
    offset, op, time = vocab.offset_column, vocab.operation_type_column, vocab.event_time_column
    for name in (offset, op, time):
        if name not in rows.column_names:
            raise wrong(f"wrote a file without the column {name!r}")
    for name in (offset, op):
        kind = rows.schema.field(name).type
        if not pa.types.is_integer(kind) or rows.column(name).null_count:
            raise wrong(f"wrote a column {name!r} of {kind} that is not a column of whole numbers")
    kind = rows.schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise wrong(f"wrote an event time {time!r} of {kind}, which is not a date or timestamp")
    _check_offsets(rows, offset, interval, wrong)
    known = pc.is_in(rows.column(op), value_set=pa.array(_OPERATIONS, rows.schema.field(op).type))
    if not pc.all(known, min_count=0).as_py():
        raise wrong(f"wrote an operation {op!r} that is not 0, 1, 2 or 3")
    data = [each for each in rows.column_names if each not in {*_system(vocab)}]
    if rows.num_rows and pc.max(rows.column(op)).as_py() > 0:
        log = rows.set_column(rows.column_names.index(op), op, rows.column(op).cast(pa.int32()))
        return current_table(log, data, vocab)
    return rows.select(data)


def _check_offsets(
    rows: pa.Table, offset: str, interval: OffsetInterval | None, wrong: Wrong
) -> None:
    count = rows.num_rows
    said = None if interval is None else (interval.start, interval.end)
    if said != ((0, count - 1) if count else None):
        shown = "no offsets" if said is None else f"the offsets {said[0]} to {said[1]}"
        raise wrong(f"says {shown} of {count:,} rows that begin at offset 0")
    try:
        offsets = rows.column(offset).cast(pa.int64())
    except pa.ArrowInvalid:
        raise wrong("wrote offsets that no slice can have") from None
    expected = row_numbers(count)
    if not pc.all(pc.equal(offsets, expected), min_count=0).as_py():
        raise wrong(f"wrote offsets that do not count from 0 to {count - 1}")


def _system(vocab: DatasetVocabulary) -> tuple[str, str, str]:
    return vocab.offset_column, vocab.operation_type_column, vocab.system_time_column
