"""Files of ill will for the readers and for unpacking: what comes out is rows or a refusal.

The first byte of an input chooses the reader and its options, the rest is the file.  Parquet and
shapefiles are read by libraries in C++, which may end the whole process: fuzz/run.py keeps what
did that, and goes on in another one.
"""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read import read
from odfbuild.odf.events import (
    CompressionFormat,
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

__all__ = ["packed", "parquet", "shapefile", "text"]

_PLAIN: Final = ("k STRING", "v INT")
_WIDE: Final = ("d DATE", "t TIMESTAMP", "n DECIMAL(9,2)", "b BOOLEAN NOT NULL", "x DOUBLE")
_DEEP: Final = ("k STRING NOT NULL", "v ARRAY<STRUCT<a: INT, t: TIMESTAMP>>")
_SHAPE: Final = ("name STRING", "v INT", "geometry STRING")
_TEXTS: Final[tuple[ReadStep, ...]] = (
    ReadStepCsv(ddl_schema=_PLAIN),
    ReadStepCsv(header=True, ddl_schema=_PLAIN),
    ReadStepCsv(header=True, infer_schema=True),
    ReadStepCsv(header=True),
    ReadStepCsv(ddl_schema=_WIDE, separator=";", quote="'", escape="", null_value="NA"),
    ReadStepCsv(ddl_schema=_PLAIN, encoding="utf-16"),
    ReadStepCsv(ddl_schema=_WIDE, date_format="dd.MM.yyyy", timestamp_format="%d/%m/%y %H:%M"),
    ReadStepNdJson(),
    ReadStepNdJson(ddl_schema=_PLAIN),
    ReadStepNdJson(ddl_schema=_WIDE),
    ReadStepNdJson(ddl_schema=_DEEP),
    ReadStepJson(),
    ReadStepJson(ddl_schema=_PLAIN),
    ReadStepJson(ddl_schema=_DEEP, sub_path="a.b"),
    ReadStepJson(ddl_schema=_WIDE, encoding="latin-1"),
    ReadStepGeoJson(),
    ReadStepGeoJson(ddl_schema=("v INT", "geometry STRING")),
    ReadStepNdGeoJson(),
    ReadStepNdGeoJson(ddl_schema=("v INT", "geometry STRING")),
)
_TABLES: Final[tuple[ReadStep, ...]] = (
    ReadStepParquet(),
    ReadStepParquet(ddl_schema=_PLAIN),
    ReadStepParquet(ddl_schema=_WIDE),
    ReadStepParquet(ddl_schema=_DEEP),
)
_SHAPES: Final[tuple[ReadStep, ...]] = (
    ReadStepEsriShapefile(),
    ReadStepEsriShapefile(ddl_schema=_SHAPE),
    ReadStepEsriShapefile(sub_path="*.shp"),
)
_PACKINGS: Final[tuple[PrepStep, ...]] = (
    PrepStepDecompress(format=CompressionFormat.GZIP),
    PrepStepDecompress(format=CompressionFormat.ZIP),
    PrepStepDecompress(format=CompressionFormat.ZIP, sub_path="*.csv"),
    PrepStepPipe(command=("bzip2", "-dc")),
    PrepStepPipe(command=("xz", "-dc")),
    PrepStepPipe(command=("zstd", "-dc")),
)


def text(data: bytes) -> None:
    """Read a file of text: CSV, JSON, GeoJSON, with and without a schema."""
    _read(_TEXTS, data)


def parquet(data: bytes) -> None:
    """Read a Parquet file."""
    _read(_TABLES, data)


def shapefile(data: bytes) -> None:
    """Read an archive with a shapefile."""
    _read(_SHAPES, data)


def packed(data: bytes) -> None:
    """Unpack a file."""
    with tempfile.TemporaryDirectory() as name, suppress(OdfBuildError):
        folder = Path(name)
        (folder / "in").write_bytes(data[1:])
        out = prepare([_PACKINGS[data[0] % len(_PACKINGS)]] if data else (), folder / "in", folder)
        assert out.exists()


def _read(steps: Sequence[ReadStep], data: bytes) -> None:
    if not data:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").write_bytes(data[1:])
        with suppress(OdfBuildError):
            found = read(steps[data[0] % len(steps)], folder / "in", staging=folder, name="in")
            if found is not None:
                batches = list(found.batches())
                assert sum(batch.num_rows for batch in batches) == found.rows
                for batch in batches:
                    batch.validate(full=True)
