"""Samples of Parquet: columns as the file declares them."""

import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.python_values import python_values
from odfbuild.executors.ingest.sample.model import Sample, SampledColumn, UnsampledError
from odfbuild.odf.schema.arrow import UnknownArrowTypeError, from_arrow
from odfbuild.odf.schema.ddl import DdlError, to_ddl

_ROWS: Final = 20_000


def sample_parquet(data: bytes, name: str, *, whole: bool) -> Sample:
    """Return columns and the first rows; columns of types that DDL lacks are left out."""
    try:
        if not whole:
            raise pa.ArrowInvalid("its columns are described at its end")
        file = pq.ParquetFile(io.BytesIO(data))
        rows = next(file.iter_batches(batch_size=_ROWS), None)
    except (pa.ArrowInvalid, OSError) as error:
        raise UnsampledError(
            what=f"{name} cannot be looked into",
            why=str(error),
            fix="download the whole file, and name it there",
        ) from None
    columns, notes = [], []
    for field in file.schema_arrow:
        kind = _read_type(field.type)
        if kind is None:
            notes.append(f"left out, as no type here holds it: {field.name} ({field.type})")
            continue
        values = (
            [] if rows is None else python_values(rows.column(field.name).cast(kind, safe=False))
        )
        columns.append(SampledColumn(name=field.name, type=kind, values=values))
    return Sample(
        read={"kind": "Parquet"},
        columns=tuple(columns),
        rows=0 if rows is None else rows.num_rows,
        notes=tuple(notes),
    )


def _read_type(kind: Any) -> Any:
    """Return the type that a column is read as, None if there is no word for it."""
    found = _nearest_type(kind)
    try:
        to_ddl(from_arrow(pa.schema([pa.field("column", found)])))
    except (UnknownArrowTypeError, DdlError):
        return None
    return found


def _nearest_type(kind: Any) -> Any:
    """Return the nearest type that read schemas have, which holds all values of another."""
    if pa.types.is_dictionary(kind):
        return _nearest_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_nearest_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_nearest_type(kind.value_type)))
    return _WIDER.get(kind, kind)


_WIDER: Final = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
