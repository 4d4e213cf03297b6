"""Parquet into the columns of a schema (ODF 0.34.1, "ReadStep::Parquet").

With a schema, columns are selected by name and cast; one that the file lacks is null.  Without,
all columns are taken as they are, timestamps as milliseconds in UTC.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.checks.leaves import first_without_utf8, leaf_types
from odfbuild.executors.data.conformance import null_column
from odfbuild.executors.data.fine_times import note_cut, noting_column, passed
from odfbuild.executors.data.frames import Frame, opened_file
from odfbuild.executors.ingest.read.notes import ReadNotes, columns_drift
from odfbuild.executors.ingest.read.options import LARGE, collected
from odfbuild.executors.ingest.read.problems import REQUIRED, InvalidSourceError, Rejected, quoted
from odfbuild.executors.ingest.read.values import (
    Column,
    Formats,
    Misfit,
    check_nulls,
    expected,
    failing,
    is_readable,
    typed,
)
from odfbuild.odf.events import DataType, ReadStepParquet
from odfbuild.odf.hashing import storage_type
from odfbuild.odf.schema.arrow import (
    UnknownArrowTypeError,
    declared_schema,
    from_arrow,
    kept_type,
    to_arrow,
)
from odfbuild.odf.schema.types import MOST_DIGITS, repeated, too_wide, type_name

_TEXTS: Final = "texts in Parquet and Arrow are UTF-8: other programs could not read the row"


class ColumnCast:
    """Casts pieces of one file to the types of the schema; counts rows for messages."""

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
            return null_column(cells.num_rows, field.type)
        column = cells.column(field.name)
        noting_column(field.name, cells.num_rows)
        if _is_text(storage_type(column.type)) and field.type != pa.binary():
            self._check_texts(column, field.name)
        try:
            made = _as(column, field.type)
            made.validate()  # some casts of Arrow give invalid arrays, as of views of nulls
        except Misfit:
            row, text = failing(column.cast(pa.string()), field.type, Formats(), 1)[0]
            wanted = expected(field.type, Formats())
            raise self._misfit(
                row, f"column {field.name}: {quoted(text)} is not {wanted}"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            text = (
                f"column {field.name}: {column.type} cannot be converted to {field.type}: {error}"
            )
            raise self._misfit(None, text) from None
        self._check_texts(made, field.name)
        return made

    def _check_texts(self, made: Column, name: str) -> None:
        first = 0
        for chunk in made.chunks if isinstance(made, pa.ChunkedArray) else (made,):
            if (row := first_without_utf8(chunk)) is not None:
                raise InvalidSourceError(
                    what=f"{self._name}: row {self._row + first + row}: column {name}: a text that "
                    "is not UTF-8",
                    why=_TEXTS,
                    fix="correct the file, or declare the column BINARY in `read.schema` and "
                    "decode it in `preprocess`",
                )
            first += len(chunk)

    def _misfit(self, row: int | None, text: str) -> InvalidSourceError:
        place = "" if row is None else f" row {self._row + row}:"
        return InvalidSourceError(
            what=f"{self._name}:{place} {text}",
            why="every value must be of the type of its column",
            fix="correct the file, or make the column optional"
            if text.endswith(REQUIRED)
            else "correct the type in `read.schema`, or declare one there that its values fit, "
            "such as STRING, and convert the column in `preprocess`",
        )


def _as(column: Column, target: pa.DataType) -> Column:
    """Cast without loss, but times to a coarser unit rounded down; texts by the rules of text."""
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
        return _floored_times(column, target)
    return column.cast(target)


def _floored_times(column: Column, target: pa.DataType) -> Column:
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


def read_parquet(
    step: ReadStepParquet, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return the rows of the declared columns; None for an empty file without a schema.

    A large file that needs no change is not copied.  Bad values are refused even with `bad_rows:
    divert`.  Raises InvalidSourceError.
    """
    declared = declared_schema(step)
    if path.stat().st_size == 0:
        return None if declared is None else Frame.of(declared.empty_table())
    try:
        with opened_file(path) as file:
            if declared is not None:
                notes.drift = columns_drift(file.schema_arrow.remove_metadata(), declared)
            return _frame(file, declared, path, staging, name, notes.held)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidSourceError(
            what=f"{name} is not a complete Parquet file",
            why=str(error).split("\n")[0],
            fix="fetch it again; if it is not Parquet, correct `read.kind`",
        ) from None


def parquet_rows(path: Path) -> int | None:
    """Return the number of rows of a file by its footer; None if it cannot be opened."""
    try:
        with opened_file(path) as file:
            return int(file.metadata.num_rows)
    except (pa.ArrowException, OSError):
        return None


def check_footer(step: ReadStepParquet, path: Path, name: str) -> pa.Schema | None:
    """Return the columns that a file would be read as, by its footer.

    None for an empty file, and for one that cannot be opened: reading it reports why.  Raises
    InvalidSourceError as `read_parquet` does for columns, without reading rows.
    """
    declared = declared_schema(step)
    if path.stat().st_size == 0:
        return None
    try:
        with opened_file(path) as file:
            found = file.schema_arrow.remove_metadata()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    schema = _schema_to_read(found, declared, name)
    wanted = [column for column in schema.names if column in found.names]
    nothing = pa.Table.from_arrays([pa.nulls(0, found.field(n).type) for n in wanted], names=wanted)
    return ColumnCast(schema, name).apply(nothing).schema


def _schema_to_read(found: pa.Schema, declared: pa.Schema | None, name: str) -> pa.Schema:
    """Return the schema to read a file by."""
    schema = _plain(found, name) if declared is None else declared
    _check_columns(found, schema, name)
    return schema


def _frame(
    file: pq.ParquetFile,
    declared: pa.Schema | None,
    path: Path,
    staging: Path,
    name: str,
    held: int,
) -> Frame:
    found = file.schema_arrow.remove_metadata()
    schema = _schema_to_read(found, declared, name)
    wanted = [column for column in schema.names if column in found.names]
    if declared is None and schema == found and _size(file, len(wanted)) > LARGE:
        return Frame.at(path, schema=schema)
    try:
        return _cells(file, schema, wanted, staging, name, held)
    except pa.ArrowNotImplementedError as error:
        raise _decode_error(file, wanted, name, error) from None
    except pa.ArrowInvalid as error:
        raise _not_utf8(file, wanted, name) or error from None


def _not_utf8(file: pq.ParquetFile, wanted: list[str], name: str) -> InvalidSourceError | None:
    """Return the error of a dictionary of texts that is not UTF-8, None if there is none.

    Arrow casts a dictionary to the type of its indices, which checks the texts, and names no row.
    """
    for column in wanted:
        of = file.schema_arrow.field(column).type
        if not any(_is_text(leaf) for leaf in leaf_types(of)):
            continue
        try:
            for _ in file.iter_batches(columns=[column]):
                pass
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                return None
            return InvalidSourceError(
                what=f"{name}: column {column}: a text that is not UTF-8",
                why=_TEXTS,
                fix="correct the file, or write it with the column as plain bytes, not as a "
                "dictionary of texts",
            )
    return None


def _cells(
    file: pq.ParquetFile, schema: pa.Schema, wanted: list[str], staging: Path, name: str, held: int
) -> Frame:
    cast = ColumnCast(schema, name)
    if _size(file, len(wanted)) <= LARGE:
        return Frame.of(cast.apply(file.read(columns=wanted)))
    pieces = (pa.Table.from_batches([batch]) for batch in file.iter_batches(columns=wanted))
    return collected((cast.apply(piece) for piece in pieces), schema, staging, held)


def _decode_error(
    file: pq.ParquetFile, wanted: list[str], name: str, error: pa.ArrowException
) -> InvalidSourceError:
    """Return the error of a column whose values cannot be decoded: the first one."""
    place, why = "", error
    for column in wanted:
        try:
            next(file.iter_batches(batch_size=1, columns=[column]), None)
        except pa.ArrowNotImplementedError as first:
            place, why = f" column {column}:", first
            break
    return InvalidSourceError(
        what=f"{name}:{place} its values cannot be decoded",
        why=str(why).split("\n")[0],
        fix="declare the columns to read in `read.schema`, without this one, or write the file "
        "with another type",
    )


def _plain(found: pa.Schema, name: str) -> pa.Schema:
    """Return the columns in types of datasets, all timestamps as milliseconds in UTC."""
    fields = []
    for column in found:
        try:
            plain = from_arrow(pa.schema([column]))
        except UnknownArrowTypeError as error:
            raise InvalidSourceError(
                what=f"{name}: column {column.name}: {error.what}",
                why=error.why,
                fix="declare the columns to read in `read.schema`, without this one",
            ) from None
        wide = too_wide(plain.fields[0].type)
        if wide is not None:
            raise _too_many_digits(name, column, wide)
        twice = repeated(plain.fields[0].type)
        if twice is not None:
            raise InvalidSourceError(
                what=f"{name}: column {column.name}: a struct has two fields called {twice!r}",
                why="the fields of a struct have different names",
                fix="declare the columns to read in `read.schema`, without this one, or write the "
                "file with other names",
            )
        fields += to_arrow(plain)
    instant = pa.timestamp("ms", "UTC")
    times = [
        field.with_type(instant if pa.types.is_timestamp(field.type) else kept_type(field.type))
        for field in fields
    ]
    return pa.schema(times)


def _too_many_digits(name: str, column: pa.Field, wide: DataType) -> InvalidSourceError:
    scale = getattr(wide, "scale", 0)
    nearest = f"DECIMAL({MOST_DIGITS},{min(scale, MOST_DIGITS)})"
    whole = pa.types.is_decimal(column.type)
    return InvalidSourceError(
        what=f"{name}: column {column.name}: {type_name(wide)} has more digits than are stored",
        why=f"the engine and the files that it writes have decimals of at most {MOST_DIGITS} "
        "digits, and digits are not dropped silently",
        fix=f"declare the columns in `read.schema`, this one as {nearest}, which refuses a value "
        "that needs more, or as STRING"
        if whole
        else "declare the columns to read in `read.schema`, without this one, or write the file "
        f"with {nearest}",
    )


def _check_columns(found: pa.Schema, schema: pa.Schema, name: str) -> None:
    for field in schema:
        count = found.names.count(field.name)
        if count > 1 or (count == 0 and not field.nullable):
            raise InvalidSourceError(
                what=f"{name} has {count or 'no'} columns {field.name}"
                if count
                else f"{name} lacks the required column {field.name}",
                why=f"it has {', '.join(found.names)}",
                fix="correct the file, or the names in `read.schema`",
            )


def _size(file: pq.ParquetFile, wanted: int) -> int:
    """Return about how many bytes some of the columns have before compression.

    Not column by column: pyarrow ends the process where the metadata of a column are damaged.
    """
    groups = file.metadata.num_row_groups
    whole = sum(file.metadata.row_group(at).total_byte_size for at in range(groups))
    return int(whole * wanted // max(1, len(file.schema_arrow)))
