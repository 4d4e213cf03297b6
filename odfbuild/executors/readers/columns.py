"""Give the columns of a source the types of its schema, and find the values that do not fit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.fine_times import noting, noting_column, passed
from odfbuild.executors.readers.fitting import sieved
from odfbuild.executors.readers.problems import (
    REQUIRED,
    Bad,
    Rejected,
    UnsupportedReadError,
    quoted,
)
from odfbuild.executors.readers.values import (
    Column,
    Formats,
    Misfit,
    expected,
    failing,
    is_readable,
    typed,
)

__all__ = [
    "cast_columns",
    "check_nulls",
    "check_readable",
    "infer",
    "sieve_columns",
    "without_rows",
]

_COUNTED: Final = 100
_CANDIDATES: Final = (
    pa.bool_(),
    pa.int64(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("ms", "UTC"),
)


def check_readable(schema: pa.Schema) -> None:
    """Refuse a schema with types that one cell of text cannot hold."""
    for field in schema:
        if not is_readable(field.type):
            raise UnsupportedReadError(
                what=f"the column {field.name} has the type {field.type}",
                why="one cell of text cannot hold a value of this type",
                fix="declare the column as STRING, and convert it in `preprocess`",
            )


def cast_columns(
    columns: Sequence[Column | None], schema: pa.Schema, formats: Formats, size: int
) -> list[Column]:
    """Return columns of text, None for one that is not there, in the types of the schema.

    Raises Rejected with the rows at fault.
    """
    made: list[Column] = []
    bad: list[Bad] = []
    more = False
    for column, field in zip(columns, schema, strict=True):
        if column is None:
            made.append(pa.nulls(size, field.type))
        else:
            noting_column(field.name, size)
            try:
                made.append(typed(column, field.type, formats))
            except Misfit:
                found = failing(column, field.type, formats, _COUNTED)
                more = more or len(found) == _COUNTED
                bad += [Bad(row, _misfit(field, text, formats)) for row, text in found]
    if bad:
        raise Rejected(bad, more=more)
    check_nulls(made, schema)
    passed(size)
    return made


def sieve_columns(
    columns: Sequence[Column | None], schema: pa.Schema, formats: Formats, size: int
) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
    """Return a table of the rows that fit, and what is wrong with the others, by row."""
    made: list[Column] = []
    bad: dict[int, list[str]] = {}
    for column, field in zip(columns, schema, strict=True):
        noting_column(field.name, size)
        found, rows = (
            (pa.nulls(size, field.type), list[int]())
            if column is None
            else sieved(column, field.type, formats)
        )
        made.append(found)
        if column is not None and rows:
            for row, text in zip(rows, column.take(rows).to_pylist(), strict=True):
                bad.setdefault(row, []).append(_misfit(field, text, formats))
    for row, reasons in _lacking(made, schema).items():
        bad.setdefault(row, reasons)
    passed(size)
    table = without_rows(pa.Table.from_arrays(made, names=schema.names), bad)
    return pa.Table.from_arrays(table.columns, schema=schema), bad


def without_rows(table: pa.Table, rows: Collection[int]) -> pa.Table:
    """Return a table less some of its rows, by their numbers."""
    if not rows:
        return table
    kept = [True] * table.num_rows
    for row in rows:
        kept[row] = False
    return table.filter(pa.array(kept, pa.bool_()))


def _lacking(columns: Sequence[Column], schema: pa.Schema) -> Mapping[int, list[str]]:
    """Return for rows without a required value which columns these are."""
    bad: dict[int, list[str]] = {}
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            for row in pc.indices_nonzero(pc.is_null(column)).to_pylist():
                bad.setdefault(row, []).append(f"column {field.name}: {REQUIRED}")
    return bad


def check_nulls(columns: Sequence[Column], schema: pa.Schema) -> None:
    """Raise Rejected if a required column has nulls."""
    bad: list[Bad] = []
    more = False
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            rows = pc.indices_nonzero(pc.is_null(column))
            more = more or len(rows) > _COUNTED
            text = f"column {field.name}: {REQUIRED}"
            bad += [Bad(row, text) for row in rows[:_COUNTED].to_pylist()]
    if bad:
        raise Rejected(bad, more=more)


def infer(column: Column, formats: Formats) -> pa.DataType:
    """Return the narrowest of bool, int64, float64, date, timestamp and string that fits all."""
    if column.null_count == len(column):
        return pa.string()
    for candidate in _CANDIDATES:
        try:
            with noting(None):
                typed(column, candidate, formats)
        except Misfit:
            continue
        return candidate
    return pa.string()


def _misfit(field: pa.Field, text: str, formats: Formats) -> str:
    return f"column {field.name}: {quoted(text)} is not {expected(field.type, formats)}"
