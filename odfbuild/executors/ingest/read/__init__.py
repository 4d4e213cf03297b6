"""Readers of prepared files into typed columns: one module per format (ODF 0.34.1, "ReadStep").

Small files become a table in memory.  Large ones become one Parquet file in the staging folder, or
stay in memory as far as the engine takes them so; memory is bounded either way.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.data.fine_times import noting
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.executors.ingest.read.problems import UnsupportedReadError
from odfbuild.odf.events import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfbuild.odf.schema.types import MOST_DIGITS, repeated, too_wide, type_name

if TYPE_CHECKING:
    from odfbuild.executors.data.frames import Frame


def read(
    step: ReadStep, path: Path, *, staging: Path, name: str, notes: ReadNotes | None = None
) -> "Frame | None":
    """Return the rows of a file in the columns and types that the step declares.

    None means that there is nothing to read and no schema that would make it an empty table.
    `name` is the name of the file in messages; `notes` receives what is to be reported, and the bad
    rows if these are put aside.  Raises InvalidSourceError for data that is not what the step
    declares, UnsupportedReadError for what this version does not read.
    """
    if notes is None:
        notes = ReadNotes()
    _refuse_declared(step, name)
    try:
        with noting(notes.fine_times):
            frame = _read(step, path, staging, name, notes)
        if notes.bad_rows is not None:
            notes.bad_rows.finish(0 if frame is None else frame.rows)
    finally:
        if notes.bad_rows is not None:
            notes.bad_rows.close()
    return frame


def _refuse_declared(step: ReadStep, name: str) -> None:
    """Refuse declared types that no engine supports; a chain from elsewhere may have them."""
    for field in () if step.schema is None else step.schema.fields:
        if too_wide(field.type) is not None:
            raise UnsupportedReadError(
                what=f"{name}: the column {field.name} is declared as {type_name(field.type)}",
                why=f"decimals of the engine and of its files have at most {MOST_DIGITS} digits",
                fix=f"declare it with at most {MOST_DIGITS} digits, or as STRING",
            )
        twice = repeated(field.type)
        if twice is not None:
            raise UnsupportedReadError(
                what=f"{name}: the column {field.name} is declared with two fields "
                f"called {twice!r}",
                why="the fields of a struct have different names",
                fix="rename one, or declare the column as STRING",
            )


def _read(step: ReadStep, path: Path, staging: Path, name: str, notes: ReadNotes) -> "Frame | None":
    match step:
        case ReadStepCsv():
            from odfbuild.executors.ingest.read.csv import read_csv

            return read_csv(step, path, staging=staging, name=name, notes=notes)
        case ReadStepNdJson():
            from odfbuild.executors.ingest.read.ndjson import read_ndjson

            return read_ndjson(step, path, staging=staging, name=name, notes=notes)
        case ReadStepJson():
            from odfbuild.executors.ingest.read.json import read_json

            return read_json(step, path, staging=staging, name=name, notes=notes)
        case ReadStepParquet():
            from odfbuild.executors.ingest.read.parquet import read_parquet

            return read_parquet(step, path, staging=staging, name=name, notes=notes)
        case ReadStepGeoJson():
            from odfbuild.executors.ingest.read.geo.geojson import read_geojson

            return read_geojson(step, path, staging=staging, name=name, notes=notes)
        case ReadStepNdGeoJson():
            from odfbuild.executors.ingest.read.geo.geojson import read_ndgeojson

            return read_ndgeojson(step, path, staging=staging, name=name, notes=notes)
        case ReadStepEsriShapefile():
            from odfbuild.executors.ingest.read.geo.shapefile import read_shapefile

            return read_shapefile(step, path, staging=staging, name=name, notes=notes)


def record_lines(step: ReadStep, path: Path, name: str) -> Iterator[int] | None:
    """Yield the line, from 1, on which each record of a file begins that can be read.

    They are those of the rows that `read` returns, and of the bad rows that it puts aside, in
    order.  None for a format without lines.  Raises what `read` raises.
    """
    match step:
        case ReadStepCsv():
            from odfbuild.executors.ingest.read.csv import csv_record_lines

            return csv_record_lines(step, path, name)
        case ReadStepNdJson():
            from odfbuild.executors.ingest.read.ndjson import ndjson_record_lines

            return ndjson_record_lines(step, path, name)
        case ReadStepJson():
            from odfbuild.executors.ingest.read.json import json_record_lines

            return json_record_lines(step, path, name)
        case ReadStepGeoJson() | ReadStepNdGeoJson():
            from odfbuild.executors.ingest.read.geo.geojson import feature_lines

            return feature_lines(step, path, name)
        case _:
            return None


def is_bound_alike(step: ReadStep, path: Path, name: str) -> bool:
    """Tell whether columns bind by name alone as they do otherwise; see `ReadNotes.by_name`."""
    if not isinstance(step, ReadStepCsv):
        return True
    from odfbuild.executors.ingest.read.csv import is_csv_bound_alike

    return is_csv_bound_alike(step, path, name)


def recorded_rows(step: ReadStep, path: Path) -> int | None:
    """Return the number of rows that a file records of itself, None if it does not."""
    if not isinstance(step, ReadStepParquet):
        return None
    from odfbuild.executors.ingest.read.parquet import parquet_rows

    return parquet_rows(path)
