"""The first row in which two files of a slice differ: values are equal as their hashes are.

So -0.0 differs from 0.0, and one NaN is like another.  Offsets are not compared: they only count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.odf.digest import logical_hash

__all__ = ["DifferingRow", "first_difference"]

_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRow:
    """A row as it is recorded, and as it came out; None where there is no such row.

    `columns` are those that differ; none of them when one of the two is not there.
    """

    offset: int
    columns: tuple[str, ...]
    recorded: Mapping[str, Any] | None
    computed: Mapping[str, Any] | None


def first_difference(
    recorded: Path | None, computed: Path | None, *, start: int, offset: str
) -> DifferingRow | None:
    """Return the first row that differs between two files; None stands for no rows.

    `start` is the offset of the first row, `offset` the column of offsets.  Columns that only one
    of the files has, or that have another type there, are not compared.
    """
    names = _common(recorded, computed, offset)
    for one, other in zip_longest(_windows(recorded), _windows(computed)):
        found = _in_window(one, other, names)
        if found is not None:
            at, columns = found
            return DifferingRow(
                offset=start + at,
                columns=columns,
                recorded=_row(one, at),
                computed=_row(other, at),
            )
        start += one.num_rows
    return None


def _common(one: Path | None, other: Path | None, offset: str) -> tuple[str, ...]:
    if one is None or other is None:
        return ()
    types = {field.name: field.type for field in pq.read_schema(other)}
    fields = (field for field in pq.read_schema(one) if field.name != offset)
    return tuple(field.name for field in fields if types.get(field.name) == field.type)


def _windows(path: Path | None) -> Iterator[pa.Table]:
    """Yield the rows of a file, equally many at a time but for the last."""
    if path is None:
        return
    with pq.ParquetFile(path, pre_buffer=False) as file:
        held, rows = [], 0
        for batch in file.iter_batches(_ROWS):
            held.append(batch)
            rows += batch.num_rows
            while rows >= _ROWS:
                table = pa.Table.from_batches(held)
                yield table.slice(0, _ROWS)
                held, rows = table.slice(_ROWS).to_batches(), rows - _ROWS
        if rows:
            yield pa.Table.from_batches(held)


def _in_window(
    one: pa.Table | None, other: pa.Table | None, names: Sequence[str]
) -> tuple[int, tuple[str, ...]] | None:
    """Return the number of the first row that differs, and its columns that do."""
    if one is None or other is None:
        return 0, ()
    rows = min(one.num_rows, other.num_rows)
    differing = [name for name in names if not _equal(one, other, name, 0, rows)]
    if differing:
        at = min(_first(rows, _prefix(one, other, name)) for name in differing)
        return at, tuple(name for name in differing if not _equal(one, other, name, at, 1))
    return None if one.num_rows == other.num_rows else (rows, ())


def _prefix(one: pa.Table, other: pa.Table, name: str) -> Callable[[int], bool]:
    return lambda rows: _equal(one, other, name, 0, rows)


def _first(rows: int, is_equal_upto: Callable[[int], bool]) -> int:
    """Return the first row that differs, of rows that do as a whole."""
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_equal_upto(middle) else (low, middle)
    return low


def _equal(one: pa.Table, other: pa.Table, name: str, start: int, rows: int) -> bool:
    return _digest(one, name, start, rows) == _digest(other, name, start, rows)


def _digest(table: pa.Table, name: str, start: int, rows: int) -> object:
    return logical_hash(table.select([name]).slice(start, rows))


def _row(table: pa.Table | None, at: int) -> Mapping[str, Any] | None:
    if table is None or at >= table.num_rows:
        return None
    return dict(table.slice(at, 1).to_pylist()[0])
