"""Media types of pushed data: their names, and how a source of another format reads them.

A push source says how its data is read.  Data of another format is read by that format's own step,
with the schema that the source declares and no other of its options: these are about its format.
"""

import csv
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from odfbuild.errors import EngineError
from odfbuild.host.files import open_regular
from odfbuild.odf.events import (
    CompressionFormat,
    DataSchema,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.texts.suggest import did_you_mean


class UnknownFormatError(EngineError):
    """The format or media type of a push is not supported."""

    code = "unknown-format"


class PushFormat(StrEnum):
    """The formats that data may be pushed in."""

    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    NDJSON = "ndjson"
    GEOJSON = "geojson"
    NDGEOJSON = "ndgeojson"
    PARQUET = "parquet"
    SHAPEFILE = "esrishapefile"


_MEDIA_TYPES: Final = {
    "text/csv": PushFormat.CSV,
    "application/csv": PushFormat.CSV,
    "text/tab-separated-values": PushFormat.TSV,
    "application/json": PushFormat.JSON,
    "application/x-ndjson": PushFormat.NDJSON,
    "application/ndjson": PushFormat.NDJSON,
    "application/jsonl": PushFormat.NDJSON,
    "application/geo+json": PushFormat.GEOJSON,
    "application/geo+json-seq": PushFormat.NDGEOJSON,
    "application/x-ndgeojson": PushFormat.NDGEOJSON,
    "application/vnd.apache.parquet": PushFormat.PARQUET,
    "application/parquet": PushFormat.PARQUET,
    "application/vnd.shp": PushFormat.SHAPEFILE,
}
_EXTENSIONS: Final = {
    ".csv": PushFormat.CSV,
    ".tsv": PushFormat.TSV,
    ".json": PushFormat.JSON,
    ".ndjson": PushFormat.NDJSON,
    ".jsonl": PushFormat.NDJSON,
    ".geojson": PushFormat.GEOJSON,
    ".ndgeojson": PushFormat.NDGEOJSON,
    ".geojsonl": PushFormat.NDGEOJSON,
    ".parquet": PushFormat.PARQUET,
}
_UNPACKING: Final[dict[str, PrepStep]] = {
    ".gz": PrepStepDecompress(format=CompressionFormat.GZIP),
    ".bz2": PrepStepPipe(command=("bzip2", "-dc")),
    ".xz": PrepStepPipe(command=("xz", "-dc")),
    ".zst": PrepStepPipe(command=("zstd", "-dc")),
}
_STEPS: Final[dict[PushFormat, type]] = {
    PushFormat.CSV: ReadStepCsv,
    PushFormat.TSV: ReadStepCsv,
    PushFormat.JSON: ReadStepJson,
    PushFormat.NDJSON: ReadStepNdJson,
    PushFormat.GEOJSON: ReadStepGeoJson,
    PushFormat.NDGEOJSON: ReadStepNdGeoJson,
    PushFormat.PARQUET: ReadStepParquet,
    PushFormat.SHAPEFILE: ReadStepEsriShapefile,
}
_LINE: Final = 1 << 16


def parse_format(text: str) -> PushFormat:
    """Read the name of a format, or a media type with or without parameters.

    Raises UnknownFormatError.
    """
    word = text.partition(";")[0].strip().lower()
    if word in _MEDIA_TYPES:
        return _MEDIA_TYPES[word]
    try:
        return PushFormat(word)
    except ValueError:
        known = [*PushFormat, *_MEDIA_TYPES]
        raise UnknownFormatError(
            what=f"{text!r} is no format that data can be pushed in",
            why=f"known are {', '.join(PushFormat)}, and their media types, such as text/csv",
            fix=did_you_mean(word, known) or "use one of these, or leave it to the push source",
        ) from None


def unpacking(name: str) -> tuple[PrepStep, ...]:
    """Return the steps that unpack a file, which is what the end of its name says."""
    step = _UNPACKING.get(Path(name).suffix.lower())
    return () if step is None else (step,)


def format_of_file(name: str, read: ReadStep) -> PushFormat | None:
    """Return the format that the end of a file's name says; None leaves it to the source.

    A `.json` file is what a source of GeoJSON reads: features are written to such files, too.
    """
    path = Path(name)
    if path.suffix.lower() in _UNPACKING:
        path = path.with_suffix("")
    found = _EXTENSIONS.get(path.suffix.lower())
    if found is PushFormat.JSON and isinstance(read, ReadStepGeoJson):
        return None
    return found


def read_as(read: ReadStep, format: PushFormat | None, path: Path) -> ReadStep:
    """Return how a file of this format is read; as the source says where that is its format."""
    if format is None or _is_of(read, format):
        return read
    ddl, schema = read.ddl_schema, read.schema
    match format:
        case PushFormat.CSV | PushFormat.TSV:
            separator = "\t" if format is PushFormat.TSV else ","
            header = _has_header(path, separator, _columns(ddl, schema))
            return ReadStepCsv(ddl_schema=ddl, separator=separator, header=header, schema=schema)
        case PushFormat.JSON:
            return ReadStepJson(ddl_schema=ddl, schema=schema)
        case PushFormat.NDJSON:
            return ReadStepNdJson(ddl_schema=ddl, schema=schema)
        case PushFormat.GEOJSON:
            return ReadStepGeoJson(ddl_schema=ddl, schema=schema)
        case PushFormat.NDGEOJSON:
            return ReadStepNdGeoJson(ddl_schema=ddl, schema=schema)
        case PushFormat.PARQUET:
            return ReadStepParquet(ddl_schema=ddl, schema=schema)
        case PushFormat.SHAPEFILE:
            return ReadStepEsriShapefile(ddl_schema=ddl, schema=schema)
        case _:
            assert_never(format)


def _is_of(read: ReadStep, format: PushFormat) -> bool:
    if not isinstance(read, _STEPS[format]):
        return False
    return format is not PushFormat.TSV or (
        isinstance(read, ReadStepCsv) and read.separator == "\t"
    )


def _columns(ddl: Sequence[str] | None, schema: DataSchema | None) -> frozenset[str]:
    declared = parse_ddl(ddl) if ddl else schema
    return frozenset() if declared is None else frozenset(each.name for each in declared.fields)


def _has_header(path: Path, separator: str, columns: frozenset[str]) -> bool:
    """Say whether the first line names the columns: all of them, or no others."""
    if not columns:
        return True
    with open_regular(path) as file:
        line = file.readline(_LINE).decode("utf-8-sig", "replace")
    try:
        first = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return False
    names = {each.strip() for each in first}
    return bool(names) and (names <= columns or names >= columns)
