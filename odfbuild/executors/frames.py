"""Frames: rows on their way between the steps of a build, in memory or in one Parquet file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Frame"]

BATCH_ROWS = 1 << 17


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

    def batches(self, rows: int = BATCH_ROWS) -> Iterator["pa.RecordBatch"]:
        """Yield the rows in order, at most `rows` at a time; a file is never held as a whole."""
        if self.table is not None:
            yield from self.table.to_batches(max_chunksize=rows)
            return
        yield from self._file_batches(rows)

    def _file_batches(self, rows: int) -> Iterator["pa.RecordBatch"]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, memory_map=True) as file:
            for batch in file.iter_batches(rows, columns=self.schema.names):
                yield batch if batch.schema == self.schema else batch.cast(self.schema)
