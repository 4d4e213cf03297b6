"""Footers of Parquet files, read once: slices never change."""

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["columns_of_file", "footer"]

_MOST = 4096  # footers that are kept


def footer(path: Path) -> pq.FileMetaData:
    """Return the footer of a file.  One that was put in its place is another."""
    stat = path.stat()
    return _footer(path, stat.st_size, stat.st_mtime_ns)


def columns_of_file(path: Path) -> pa.Schema:
    """Return the columns of a file."""
    stat = path.stat()
    return _columns(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=_MOST)
def _columns(path: Path, *stat: int) -> pa.Schema:
    return _footer(path, *stat).schema.to_arrow_schema()


@lru_cache(maxsize=_MOST)
def _footer(path: Path, *_: int) -> pq.FileMetaData:
    return pq.read_metadata(path)
