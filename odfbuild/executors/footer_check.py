"""Whether the footer of a Parquet file tells the truth of its rows: steps find old rows by it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.lookup import Group, as_stored, groups_of

__all__ = ["untrue_columns"]


def untrue_columns(path: Path) -> Iterator[str]:
    """Yield each column of which some row group has values that its footer says are not there.

    A footer that tells less than it could is none of that.
    """
    groups = tuple(groups_of(path))
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for name in file.schema_arrow.names:
            for group in groups:
                rows = file.read_row_group(group.number, columns=[name]).column(name)
                if not _is_true(group, name, rows):
                    yield name
                    break


def _is_true(group: Group, name: str, rows: pa.ChunkedArray) -> bool:
    if group.nulls(name) not in (None, rows.null_count) or group.rows != len(rows):
        return False
    span = group.span(name, rows.type)
    if span is None:
        return True
    found = pc.min_max(as_stored(rows)).as_py()
    return found["min"] is None or (span[0] <= found["min"] and found["max"] <= span[1])
