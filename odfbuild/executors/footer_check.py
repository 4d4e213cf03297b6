"""Whether the footer of a Parquet file tells the truth of its rows: steps find old rows by it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.footers import footer
from odfbuild.executors.lookup import as_stored, groups_of

__all__ = ["FooterCheck"]


@dataclass(slots=True)
class _Told:
    """What is known of one column in one row group: from the footer, and from rows so far."""

    span: tuple[Any, Any] | None
    nulls: int | None
    found: int = 0
    is_true: bool = True

    def update(self, rows: pa.Array) -> None:
        self.found += rows.null_count
        if self.span is None or not self.is_true:
            return
        seen = pc.min_max(as_stored(rows)).as_py()
        self.is_true = seen["min"] is None or (
            self.span[0] <= seen["min"] and seen["max"] <= self.span[1]
        )


class FooterCheck:
    """Compares the rows of a file with what its footer says, as they are read.

    A footer that tells less than it could is none the worse.
    """

    def __init__(self, path: Path) -> None:
        self._groups = tuple(groups_of(path))
        self._count = int(footer(path).num_rows)
        self._rows = [0] * len(self._groups)
        self._told: dict[tuple[int, str], _Told] = {}

    def update(self, number: int, batch: pa.RecordBatch) -> None:
        """Take the next rows of a row group."""
        group = self._groups[number]
        self._rows[number] += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            told = self._told.get((number, name))
            if told is None:
                told = _Told(group.span(name, column.type), group.nulls(name))
                self._told[number, name] = told
            told.update(column)

    @property
    def rows(self) -> int:
        """Count the rows so far."""
        return sum(self._rows)

    def miscounts(self) -> Iterator[str]:
        """Yield where the footer counts other rows than there are, in a row group or in all."""
        for number, (group, rows) in enumerate(zip(self._groups, self._rows, strict=True)):
            if group.rows != rows:
                yield f"its footer counts {group.rows} rows in row group {number}, which has {rows}"
            for name, values in group.flat_values():
                if values != rows:
                    yield (
                        f"its footer counts {values} values of {name} in row group {number}, "
                        f"which has {rows} rows"
                    )
        if self._count != self.rows:
            yield f"its footer counts {self._count} rows, and {self.rows} are there"

    def untrue(self) -> Iterator[str]:
        """Yield each column of which the footer says in some row group what is not so."""
        found = {
            name: None
            for (number, name), told in self._told.items()
            if not told.is_true or told.nulls not in (None, told.found)
        }
        yield from found
