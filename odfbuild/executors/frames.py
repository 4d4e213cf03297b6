"""Frames: rows on their way between the steps of a build, in memory or in one Parquet file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["Frame", "file_batches"]

BATCH_ROWS = 1 << 17
BATCH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Rows in order with their schema: exactly one of `table` and `path` is set.

    `path` is a Parquet file whose columns have the names of the schema; its types may be other
    encodings of the same values (text as large text), batches come out in the types of `schema`.
    """

    schema: "pa.Schema"
    rows: int
    table: "pa.Table | None" = None
    path: Path | None = None

    def __post_init__(self) -> None:
        if (self.table is None) == (self.path is None):
            raise ValueError("a frame is a table or a file")

    @classmethod
    def of(cls, table: "pa.Table") -> "Frame":
        """Return the frame of a table in memory."""
        return cls(schema=table.schema, rows=table.num_rows, table=table)

    @classmethod
    def at(cls, path: Path) -> "Frame":
        """Return the frame of a Parquet file, with the schema that it reports."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            return cls(schema=file.schema_arrow, rows=file.metadata.num_rows, path=path)

    def select(self, names: Sequence[str]) -> "Frame":
        """Return the frame with some of its columns only, in the order given."""
        import pyarrow as pa

        if self.table is not None:
            return Frame.of(self.table.select(list(names)))
        schema = pa.schema([self.schema.field(name) for name in names])
        return Frame(schema=schema, rows=self.rows, path=self.path)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator["pa.RecordBatch"]:
        """Yield the rows in order, at most `rows` at a time; a file is never held as a whole."""
        if self.table is not None:
            yield from self.table.to_batches(max_chunksize=rows)
            return
        yield from self._file_batches(rows)

    def _file_batches(self, rows: int) -> Iterator["pa.RecordBatch"]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file_batches(file, self.schema.names, rows):
                yield batch if batch.schema == self.schema else batch.cast(self.schema)


def file_batches(
    file: "pq.ParquetFile", columns: Sequence[str], rows: int = BATCH_ROWS
) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a Parquet file in order, fewer at a time if they are wide."""
    size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups))
    fitting = BATCH_BYTES * file.metadata.num_rows // max(1, size)
    yield from file.iter_batches(max(1, min(rows, fitting)), columns=list(columns))
