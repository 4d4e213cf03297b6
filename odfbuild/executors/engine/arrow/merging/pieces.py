"""Pieces: rows of several sources that are merged at once, with the number of their source."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.frames import Frame

PIECE: Final = "__odf_piece"


def joined(sources: Sequence[Frame]) -> Frame:
    """Return the rows of tables of one schema, behind each other, with the number of each."""
    numbered = [
        source.table.append_column(PIECE, pa.repeat(pa.scalar(number, pa.int32()), source.rows))
        for number, source in enumerate(sources)
        if source.table is not None
    ]
    return Frame.of(pa.concat_tables(numbered))


def parted(frame: Frame, count: int) -> tuple[Frame, ...]:
    """Return the rows of each piece as a frame of its own, without the numbers."""
    table = frame.table
    if table is None:
        table = pa.Table.from_batches(frame.batches(), schema=frame.schema)
    lost = [None] * count if frame.left_out is None else _split(frame.left_out, count)
    frames = map(Frame.of, _split(table, count))
    return tuple(replace(each, left_out=rows) for each, rows in zip(frames, lost, strict=True))


def _split(table: pa.Table, count: int) -> list[pa.Table]:
    """Return the rows of each piece, which come one after the other."""
    numbers, rows = table.column(PIECE), table.drop_columns([PIECE])
    sizes = dict.fromkeys(range(count), 0)
    for each in pc.value_counts(numbers).to_pylist():
        sizes[each["values"]] = each["counts"]
    tables, start = [], 0
    for number in range(count):
        tables.append(rows.slice(start, sizes[number]))
        start += sizes[number]
    return tables
