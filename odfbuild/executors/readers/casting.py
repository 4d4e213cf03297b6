"""Give typed columns the types that are declared: without loss, or refused with the row."""

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.fine_times import note_cut, noting_column, passed
from odfbuild.executors.readers.columns import check_nulls
from odfbuild.executors.readers.problems import REQUIRED, InvalidSourceError, Rejected, quoted
from odfbuild.executors.readers.values import (
    Column,
    Formats,
    Misfit,
    expected,
    failing,
    is_readable,
    typed,
)

__all__ = ["Cast"]


class Cast:
    """Gives pieces of one file the types of the schema, counting rows for messages."""

    def __init__(self, schema: pa.Schema, name: str) -> None:
        self._schema = schema
        self._name = name
        self._row = 1

    def apply(self, cells: pa.Table) -> pa.Table:
        """Return the piece with exactly the columns of the schema."""
        columns = [self._column(cells, field) for field in self._schema]
        try:
            check_nulls(columns, self._schema)
        except Rejected as rejected:
            bad = rejected.found[0]
            raise self._misfit(bad.row, bad.text) from None
        self._row += cells.num_rows
        passed(cells.num_rows)
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _column(self, cells: pa.Table, field: pa.Field) -> Column:
        if field.name not in cells.column_names:
            return pa.nulls(cells.num_rows, field.type)
        column = cells.column(field.name)
        noting_column(field.name, cells.num_rows)
        try:
            return _as(column, field.type)
        except Misfit:
            row, text = failing(column.cast(pa.string()), field.type, Formats(), 1)[0]
            wanted = expected(field.type, Formats())
            raise self._misfit(
                row, f"column {field.name}: {quoted(text)} is not {wanted}"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            text = f"column {field.name}: {column.type} does not go into {field.type}: {error}"
            raise self._misfit(None, text) from None

    def _misfit(self, row: int | None, text: str) -> InvalidSourceError:
        place = "" if row is None else f" row {self._row + row}:"
        return InvalidSourceError(
            what=f"{self._name}:{place} {text}",
            why="every value must be of the type of its column",
            fix="correct the file, or make the column optional"
            if text.endswith(REQUIRED)
            else "correct the type in `read.schema`, or convert the column in `preprocess`",
        )


def _as(column: Column, target: pa.DataType) -> Column:
    """Cast without loss; text by the rules of text, times to a coarser unit rounded down."""
    source = column.type
    if source == target:
        return column
    if pa.types.is_dictionary(source):
        column = column.cast(source.value_type)
        source = source.value_type
    by_digits = pa.types.is_integer(source) and pa.types.is_decimal(target)
    if by_digits or (_is_text(source) and is_readable(target)):
        return typed(column.cast(pa.string()), target, Formats())
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return _floored(column, target)
    return column.cast(target)


def _floored(column: Column, target: pa.DataType) -> Column:
    """Round times down to the unit of the target; a time without zone is taken as UTC."""
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    fine, coarse = units[column.type.unit], units[target.unit]
    if fine > coarse:
        unit = {"s": "second", "ms": "millisecond", "us": "microsecond"}[target.unit]
        floored = pc.floor_temporal(column, unit=unit)
        note_cut(column, pc.not_equal(column, floored))
        column = floored
    instants = column.cast(pa.timestamp(column.type.unit)).cast(pa.timestamp(target.unit))
    return instants.cast(pa.int64()).cast(target)


def _is_text(source: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(source)
        or pa.types.is_large_string(source)
        or pa.types.is_string_view(source)
    )
