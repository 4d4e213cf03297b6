"""Read Parquet into the declared columns (ODF 0.34.1, "ReadStep::Parquet").

With a schema, columns are selected by name and cast; one that the file lacks is null.  Without,
all columns are taken as they are, timestamps as milliseconds in UTC.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.frames import Frame, opened_file
from odfbuild.executors.readers.casting import Cast
from odfbuild.executors.readers.drift import Besides, columns_drift
from odfbuild.executors.readers.options import declared_schema, kept_type
from odfbuild.executors.readers.problems import InvalidSourceError
from odfbuild.executors.readers.sink import LARGE, on_disk
from odfbuild.odf.arrow import UnknownArrowTypeError, from_arrow, to_arrow
from odfbuild.odf.events import ReadStepParquet

__all__ = ["read_parquet"]


def read_parquet(
    step: ReadStepParquet, path: Path, *, staging: Path, name: str, besides: Besides
) -> Frame | None:
    """Return the rows of the declared columns; None for an empty file without a schema.

    A large file that needs no change is not copied.  Values have types, so bad ones are refused
    whatever is asked.  Raises InvalidSourceError.
    """
    declared = declared_schema(step)
    if path.stat().st_size == 0:
        return None if declared is None else Frame.of(declared.empty_table())
    try:
        with opened_file(path) as file:
            if declared is not None:
                besides.drift = columns_drift(file.schema_arrow.remove_metadata(), declared)
            return _frame(file, declared, path, staging, name)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidSourceError(
            what=f"{name} is not a whole Parquet file",
            why=str(error).split("\n")[0],
            fix="fetch it again; if it never was Parquet, correct `read.kind`",
        ) from None


def _frame(
    file: pq.ParquetFile, declared: pa.Schema | None, path: Path, staging: Path, name: str
) -> Frame:
    found = file.schema_arrow.remove_metadata()
    schema = _plain(found, name) if declared is None else declared
    wanted = [column for column in schema.names if column in found.names]
    _check_columns(found, schema, name)
    if _size(file, len(wanted)) <= LARGE:
        cells = file.read(columns=wanted)
        return Frame.of(Cast(schema, name).apply(cells))
    if declared is None and schema == found:
        return Frame.at(path, schema=schema)
    cast = Cast(schema, name)
    pieces = (pa.Table.from_batches([batch]) for batch in file.iter_batches(columns=wanted))
    return on_disk((cast.apply(piece) for piece in pieces), schema, staging)


def _plain(found: pa.Schema, name: str) -> pa.Schema:
    """Return the types that datasets hold, all timestamps as milliseconds in UTC."""
    try:
        plain = to_arrow(from_arrow(found))
    except UnknownArrowTypeError as error:
        raise InvalidSourceError(
            what=f"{name}: {error.what}",
            why=error.why,
            fix="declare the columns to read in `read.schema`, without this one",
        ) from None
    instant = pa.timestamp("ms", "UTC")
    times = [
        field.with_type(instant if pa.types.is_timestamp(field.type) else kept_type(field.type))
        for field in plain
    ]
    return pa.schema(times)


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

    Not by asking each column: pyarrow ends the process where the metadata of one are damaged.
    """
    groups = file.metadata.num_row_groups
    whole = sum(file.metadata.row_group(at).total_byte_size for at in range(groups))
    return int(whole * wanted // max(1, len(file.schema_arrow)))
