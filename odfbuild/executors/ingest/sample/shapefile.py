"""Samples of a shapefile in an archive: columns and rows, as a source would read them."""

import tempfile
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from odfbuild.executors.ingest.read.geo.shapefile import read_shapefile
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.executors.ingest.sample.model import Sample, SampledColumn
from odfbuild.odf.events import ReadStepEsriShapefile

_ROWS: Final = 20_000
_EXACT: Final = 1 << 53


def sample_shapefile(data: bytes, name: str, inside: str | None) -> Sample:
    """Return columns and the first rows of the shapefile `inside`, None if there is only one.

    Raises what reading it raises.
    """
    with tempfile.TemporaryDirectory(prefix="odfbuild-") as folder:
        path = Path(folder) / "sample.zip"
        path.write_bytes(data)
        step = ReadStepEsriShapefile(sub_path=inside)
        frame = read_shapefile(step, path, staging=path.parent, name=name, notes=ReadNotes())
        batches = [] if frame is None else [*islice(frame.batches(_ROWS), 1)]
        rows = pa.Table.from_batches(batches, None if frame is None else frame.schema)
    return Sample(
        read={"kind": "EsriShapefile"} | ({} if inside is None else {"subPath": inside}),
        columns=tuple(_column(field, rows.column(field.name)) for field in rows.schema),
        rows=rows.num_rows,
    )


def _column(field: pa.Field, column: pa.ChunkedArray) -> SampledColumn:
    """Tables of shapefiles know one kind of number only: whole ones are meant as such."""
    values, kind = column.to_pylist(), field.type
    there = [each for each in values if each is not None]
    is_number = pa.types.is_floating(kind) and bool(there)
    if is_number and all(each.is_integer() and abs(each) < _EXACT for each in there):
        kind, values = pa.int64(), [None if each is None else int(each) for each in values]
    return SampledColumn(name=field.name, type=kind, values=values)
