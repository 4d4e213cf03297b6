"""Footers of slices: what they say of the rows, compared with these.

Readers leave out row groups by the counts and bounds there: this program, Arrow, and whoever else
reads the files.  So nothing of it may be untrue, of no column and of nothing inside of one.
"""

import struct
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.checks.leaves import leaf_types, leaves
from odfbuild.executors.data.lookup import as_stored, is_sorted_as_stored
from odfbuild.executors.data.parquet import columns_of_file, footer
from odfbuild.values import dataclass


class FooterCheck:
    """Compares the rows of a file with what its footer says, as they are read.

    A footer that tells less than it could is none the worse.
    """

    def __init__(self, path: Path) -> None:
        self._footer = footer(path)
        self._kinds = tuple(chain(*(leaf_types(each.type) for each in columns_of_file(path))))
        self._rows = [0] * self._footer.num_row_groups
        self._leaves: dict[int, tuple[_LeafFacts, ...]] = {}

    def update(self, number: int, batch: pa.RecordBatch) -> None:
        """Take the next rows of a row group."""
        self._rows[number] += batch.num_rows
        if number not in self._leaves:
            self._leaves[number] = tuple(self._facts(self._footer.row_group(number)))
        found = chain(*(leaves(column) for column in batch.columns))
        for known, values in zip(self._leaves[number], found, strict=True):
            known.update(values)

    def _facts(self, group: pq.RowGroupMetaData) -> "Iterator[_LeafFacts]":
        for at, kind in zip(range(group.num_columns), self._kinds, strict=True):
            column, is_flat = group.column(at), self._is_flat(at)
            known = column.statistics
            counts = known is not None and known.has_null_count and is_flat
            yield _LeafFacts(
                name=self._footer.schema.column(at).path,
                kind=kind,
                span=_span(known, kind),
                nulls=int(known.null_count) if counts else None,
                values=int(column.num_values) if is_flat else None,
            )

    def _is_flat(self, at: int) -> bool:
        """Tell whether a leaf is in no list, so that it has a value for each row."""
        return int(self._footer.schema.column(at).max_repetition_level) == 0

    @property
    def rows(self) -> int:
        """Count the rows so far."""
        return sum(self._rows)

    def miscounts(self) -> Iterator[str]:
        """Yield where the footer counts other rows than there are, in a row group or in all."""
        for number, rows in enumerate(self._rows):
            said = int(self._footer.row_group(number).num_rows)
            if said != rows:
                yield f"its footer counts {said} rows in row group {number}, which has {rows}"
            for each in self._leaves.get(number, ()):
                if each.values not in (None, rows):
                    yield (
                        f"its footer counts {each.values} values of {each.name} in row group "
                        f"{number}, which has {rows} rows"
                    )
        if int(self._footer.num_rows) != self.rows:
            yield f"its footer counts {self._footer.num_rows} rows, and {self.rows} are there"

    def untrue(self) -> Iterator[str]:
        """Yield each column of which the footer says in some row group what is not so."""
        every = chain(*self._leaves.values())
        yield from {each.name: None for each in every if not each.is_true}


_UNREADABLE: Final = (0, -1)
"""Bounds that cannot be read, and that no value lies between."""


def _span(known: pq.Statistics | None, kind: pa.DataType) -> tuple[Any, Any] | None:
    """Return the bounds of the values of a leaf, as they are compared; None if there are none."""
    if known is None or not known.has_min_max:
        return None
    try:
        if _is_compared_as_stored(kind):
            return known.min_raw, known.max_raw
        if pa.types.is_float16(kind):
            return struct.unpack("<e", known.min_raw)[0], struct.unpack("<e", known.max_raw)[0]
        return known.min, known.max
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError, struct.error):
        return _UNREADABLE


def _is_compared_as_stored(kind: pa.DataType) -> bool:
    of_bytes = pa.types.is_fixed_size_binary(kind)
    return is_sorted_as_stored(kind) or of_bytes or _is_span_of_time(kind)


def _is_span_of_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind))


@dataclass(slots=True, kw_only=True)
class _LeafFacts:
    """What the footer says of one leaf in one row group, and whether that holds so far.

    `kind` is its type in Parquet; `nulls` and `values` are None where a row may have several.
    """

    name: str
    kind: pa.DataType
    span: tuple[Any, Any] | None
    nulls: int | None
    values: int | None
    found: int = 0
    is_within: bool = True

    def update(self, values: pa.Array) -> None:
        """Take the next values."""
        self.found += values.null_count
        if self.span is not None and self.is_within:
            self.is_within = _lie_within(values, self.kind, self.span)

    @property
    def is_true(self) -> bool:
        return self.is_within and self.nulls in (None, self.found)


def _lie_within(values: pa.Array, kind: pa.DataType, span: tuple[Any, Any]) -> bool:
    """Tell whether all values that can be compared lie between two bounds; NaN cannot."""
    try:
        seen = pc.min_max(_comparable(values.cast(kind))).as_py()
    except (pa.ArrowException, ValueError):
        return False
    if seen["min"] is None or seen["min"] != seen["min"]:
        return True
    return bool(span[0] <= seen["min"] and seen["max"] <= span[1])


def _comparable(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if _is_span_of_time(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return as_stored(values)
