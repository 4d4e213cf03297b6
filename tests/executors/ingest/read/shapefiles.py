"""Shapefiles as GDAL makes them, packed as people pack them."""

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio

__all__ = ["pack", "parts", "point", "polygon", "repacked", "zipped"]

NAMES = (".shp", ".shx", ".dbf", ".cpg", ".prj")


def point(x: float, y: float) -> bytes:
    return struct.pack("<BI2d", 1, 1, x, y)


def polygon(*rings: Sequence[tuple[float, float]]) -> bytes:
    made = struct.pack("<BII", 1, 3, len(rings))
    for ring in rings:
        made += struct.pack("<I", len(ring))
        made += b"".join(struct.pack("<2d", *position) for position in ring)
    return made


def parts(
    folder: Path,
    columns: Mapping[str, Any],
    shapes: Sequence[bytes | None],
    *,
    kind: str = "Point",
    encoding: str = "UTF-8",
) -> dict[str, bytes]:
    """Return the files of a shapefile by suffix."""
    folder.mkdir()
    table = pa.table({**columns, "shape": pa.array(shapes, pa.binary())})
    pyogrio.write_arrow(
        table,
        folder / "made.shp",
        driver="ESRI Shapefile",
        geometry_name="shape",
        geometry_type=kind,
        crs="EPSG:4326",
        encoding=encoding,
    )
    return {suffix: (folder / f"made{suffix}").read_bytes() for suffix in NAMES}


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def pack(made: Mapping[str, bytes], stem: str = "made") -> bytes:
    """Return an archive with the files of one shapefile."""
    return zipped({f"{stem}{suffix}": data for suffix, data in made.items()})


def repacked(made: Mapping[str, bytes], **changed: bytes | None) -> bytes:
    """Return an archive with some files replaced or, with None, left out: `shp`, `dbf`, ..."""
    files = {**made, **{f".{suffix}": data for suffix, data in changed.items()}}
    return pack({suffix: data for suffix, data in files.items() if data is not None})
