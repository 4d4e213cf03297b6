"""Spool of rows: a table of few, a Parquet file of the staging folder of many."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.parquet import FileWriter, write_groups

BYTES_IN_MEMORY: Final = 64 << 20
"""Bytes of rows that are held in memory; more of them are kept in files."""

_GROUP_ROWS: Final = 1 << 17


def spooled(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, staging: Path, held: int = BYTES_IN_MEMORY
) -> Frame:
    """Return rows as a frame; of more than `held` bytes it is a file of the folder `staging`."""
    few, rest = first_of(batches, held)
    if rest is None:
        return Frame.of(pa.Table.from_batches(few, schema))
    path = staging / f"rows-{uuid4().hex}.parquet"
    write(path, schema, chain(few, rest), compression="none")
    return Frame.at(path, schema=schema)


def write(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], compression: str = "snappy"
) -> None:
    """Write rows as a Parquet file that is read once or twice."""
    with FileWriter(
        path, schema, compression=compression, use_dictionary=False, write_page_checksum=True
    ) as writer:
        write_groups(writer, _tables(batches, schema), _GROUP_ROWS)


def _tables(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows as tables that are worth a row group."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= BYTES_IN_MEMORY // 2:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def first_of(
    batches: Iterable[pa.RecordBatch], most: int
) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """Return batches of so many bytes, and those that follow; None if these are all."""
    left, found, size = iter(batches), list[pa.RecordBatch](), 0
    for batch in left:
        found.append(batch)
        size += batch.nbytes
        if size > most:
            return found, left
    return found, None
