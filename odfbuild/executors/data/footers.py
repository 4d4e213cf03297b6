"""Footers of Parquet files, read once: slices never change."""

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.state.chain.checked_files import FileMark, mark_of

_MOST = 4096  # footers that are kept


def footer(path: Path) -> pq.FileMetaData:
    """Return the footer of a file.  One that was put in its place is another."""
    return _footer(path, mark_of(path))


def columns_of_file(path: Path) -> pa.Schema:
    """Return the columns of a file."""
    return _columns(path, mark_of(path))


@lru_cache(maxsize=_MOST)
def _columns(path: Path, mark: FileMark) -> pa.Schema:
    return _footer(path, mark).schema.to_arrow_schema()


@lru_cache(maxsize=_MOST)
def _footer(path: Path, _: FileMark) -> pq.FileMetaData:
    return pq.read_metadata(path)
