"""Shapefiles, Parquet files and packed files that are broken, or not what they are said to be."""

import bz2
import gzip
import io
import lzma
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bad.case import GOOD, Bad, flow, pipe, zipped
from tests.executors.ingest.read.shapefiles import pack, parts, point, repacked
from tests.executors.ingest.read.shapefiles import zipped as archive_of

__all__ = ["PACKED", "PARQUET_FILES", "SHAPEFILES"]

TEXT = GOOD.encode()
LONG = TEXT + b"".join(b"row%d,%d\n" % (n, n) for n in range(2000))


# --- shapefiles ------------------------------------------------------------------------------


@cache
def made() -> Mapping[str, bytes]:
    """Return the files of a good shapefile by suffix."""
    with tempfile.TemporaryDirectory() as folder:
        columns = {"name": pa.array(["a", "b"]), "v": pa.array([1, 2], pa.int32())}
        return parts(Path(folder) / "made", columns, [point(1, 2), point(3, 4)])


def shape(data: bytes, says: str, fix: str = "", code: str = "invalid-source", **more: Any) -> Bad:
    columns = more.pop("columns", ("name STRING", "v INT", "geometry STRING NOT NULL"))
    read = flow("EsriShapefile", *columns, **more)
    return Bad(code=code, read=read, good=pack(made()), data=data, says=says, fix=fix)


def two() -> bytes:
    return archive_of({f"{s}{k}": d for s in ("one", "two") for k, d in made().items()})


def encrypted(data: bytes) -> bytes:
    """Mark the first entry of an archive as encrypted, in both places where it is said."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


SHAPEFILES = {
    "a shapefile that is not packed": shape(made()[".shp"], "is not a"),
    "an archive without a shapefile": shape(zipped(["a.csv"]), "", "subPath"),
    "an archive of two shapefiles": shape(two(), "", "subPath"),
    "a shapefile that subPath does not find": shape(
        pack(made(), "other"), "", "subPath", subPath="made.shp"
    ),
    "a shapefile without its table": shape(repacked(made(), dbf=None), ".dbf"),
    "a shapefile that was cut off": shape(repacked(made(), shp=made()[".shp"][:-20]), ".shp"),
    "a shapefile whose table was cut off": shape(
        repacked(made(), dbf=made()[".dbf"][:-40]), ".dbf"
    ),
    "a shapefile of another number of shapes": shape(
        repacked(made(), shp=made()[".shp"][:100]), ".shp"
    ),
    "a shapefile that begins with anything": shape(repacked(made(), shp=b"x" * 200), ".shp"),
    "a shapefile archive that was cut off": shape(pack(made())[:-30], "zip archive"),
    "a shapefile archive that leads out": shape(
        pack(made(), "../../made"), "leaves the archive", code="damaged-archive"
    ),
    "a shapefile archive that is encrypted": shape(
        encrypted(pack(made())), "is encrypted", code="damaged-archive"
    ),
    "a shapefile value of another type": Bad(
        code="invalid-source",
        read=flow("EsriShapefile", "name INT"),
        data=pack(made()),
        says="data/2: row 1: column name: 'a' is not an integer",
        fix="correct the type in `read.schema`",
    ),
}


# --- Parquet ---------------------------------------------------------------------------------


def parquet(columns: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


FINE = parquet({"k": ["a"], "v": pa.array([1], pa.int32())})


def table(data: bytes, says: str, fix: str = "", *columns: str) -> Bad:
    read = flow("Parquet", *(columns or ("k STRING", "v INT")))
    return Bad(code="invalid-source", read=read, good=FINE, data=data, says=says, fix=fix)


def flipped(data: bytes, at: int) -> bytes:
    """Change one byte."""
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


PARQUET_FILES = {
    "a text for Parquet": table(TEXT, "data/2 is not"),
    "a Parquet file that was cut off": table(FINE[:-10], "data/2 is not a complete Parquet file"),
    "a Parquet file without its beginning": table(FINE[200:], "data/2"),
    "a Parquet file with a broken footer": table(
        FINE[:-8] + struct.pack("<I", 1 << 30) + b"PAR1", "data/2 is not a complete Parquet file"
    ),
    "a Parquet file with a broken page": table(flipped(FINE, 8), "data/2"),
    "a Parquet column of another type": table(
        parquet({"k": ["a"], "v": ["many"]}),
        "row 1: column v: 'many' is not an integer",
        "preprocess",
    ),
    "a Parquet number that is too large": table(parquet({"k": ["a"], "v": [1 << 40]}), "column v"),
    "a Parquet file without a required column": Bad(
        code="invalid-source",
        read=flow("Parquet", "k STRING", "v INT NOT NULL"),
        good=FINE,
        data=parquet({"k": ["a"]}),
        says="data/2 lacks the required column v",
        fix="correct the file",
    ),
    "a Parquet file without a required value": Bad(
        code="invalid-source",
        read=flow("Parquet", "k STRING", "v INT NOT NULL"),
        good=FINE,
        data=parquet({"k": ["a"], "v": pa.array([None], pa.int32())}),
        says="column v: no value",
        fix="optional",
    ),
    "a Parquet list for a number": table(parquet({"k": ["a"], "v": [[1]]}), "column v"),
}


# --- packed files ----------------------------------------------------------------------------

GZIP = "{kind: Decompress, format: Gzip}"
ZIP = "{kind: Decompress, format: Zip}"


def packed(prepare: str, good: bytes, data: bytes, says: str, fix: str = "fetch it again") -> Bad:
    return Bad(code="damaged-archive", prepare=prepare, good=good, data=data, says=says, fix=fix)


def gz(data: bytes, says: str) -> Bad:
    return packed(GZIP, gzip.compress(TEXT), data, f"data/2 is not a complete gzip file{says}")


def zip_(data: bytes, says: str, fix: str = "fetch it again", path: str = "") -> Bad:
    prepare = f"{{kind: Decompress, format: Zip, subPath: '{path}'}}" if path else ZIP
    return packed(prepare, zipped(["a.csv"]), data, says, fix)


def bomb(prepare: str, small: bytes, data: bytes) -> Bad:
    """Return a file that grows by more than allowed; the border is lowered for the test."""
    return Bad(
        code="damaged-archive",
        prepare=prepare,
        good=small,
        data=data,
        says="this looks like a decompression bomb",
        fix="unpack it yourself",
        patches={"odfbuild.executors.ingest.prepare._RATIO_FROM": 1 << 20},
    )


def stored(method: int) -> bytes:
    """Return an archive that names a method of packing which nobody knows."""
    data = bytearray(zipped(["a.csv"]))
    data[8:10] = struct.pack("<H", method)
    at = data.index(b"PK\x01\x02") + 10
    data[at : at + 2] = struct.pack("<H", method)
    return bytes(data)


def broken_sum() -> bytes:
    """Return an archive whose content does not have the checksum that it names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a.csv", TEXT)
    return out.getvalue().replace(b"a,1", b"a,7")


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


BZIP2, XZ, ZSTD = pipe("bzip2", "-dc"), pipe("xz", "-dc"), pipe("zstd", "-dc")
GZ, BZ, LZ, ZS = gzip.compress(LONG), bz2.compress(LONG), lzma.compress(LONG), zstd(LONG)
ZEROS = bytes(8 << 20)

PACKED = {
    "a gzip file that is none": gz(TEXT, ""),
    "a gzip file that is empty": gz(b"", ""),
    "a gzip file that was cut off": gz(GZ[:-20], ""),
    "a gzip file with a broken checksum": gz(flipped(GZ, len(GZ) - 6), ""),
    "a gzip file with a broken length": gz(flipped(GZ, len(GZ) - 2), ""),
    "a gzip file with something behind it": gz(GZ + b"garbage", ""),
    "a gzip bomb": bomb(GZIP, gzip.compress(TEXT), gzip.compress(ZEROS)),
    "a zip file that is none": zip_(TEXT, "data/2 is not a complete zip file"),
    "a zip file that was cut off": zip_(
        zipped(["a.csv"])[:-30], "data/2 is not a complete zip file"
    ),
    "a zip file with a broken checksum": zip_(broken_sum(), "data/2 is not a complete zip file"),
    "a zip file of nothing": zip_(zipped([]), "it holds no file"),
    "a zip file of a folder": zip_(zipped(["folder/"]), "it holds no file"),
    "a zip file that is encrypted": zip_(
        encrypted(zipped(["a.csv"])), "a.csv is encrypted", "yourself"
    ),
    "a zip file that leads out": zip_(
        zipped(["../../a.csv"]), "../../a.csv leaves the archive", "subPath"
    ),
    "a zip file that leads to the root": zip_(
        zipped(["/a.csv"]), "/a.csv leaves the archive", "subPath"
    ),
    "a zip file that is packed in another way": zip_(stored(99), "a way that is not known"),
    "a zip file without what subPath names": zip_(
        zipped(["b.csv"]), "no entry of data/2 matches `subPath: a.csv`", "subPath", "a.csv"
    ),
    "a zip file with too much of what subPath names": zip_(
        zipped(["a.csv", "b.csv"]), "2 entries of data/2 match `subPath: *.csv`", "one", "*.csv"
    ),
    "a zip bomb": bomb(ZIP, zipped(["a.csv"]), zipped(["a.csv"], "0" * (8 << 20))),
    "a bzip2 file that is none": packed(BZIP2, bz2.compress(TEXT), TEXT, "bzip2 file"),
    "a bzip2 file that was cut off": packed(BZIP2, bz2.compress(TEXT), BZ[:-20], "too early"),
    "a bzip2 file that is broken": packed(BZIP2, bz2.compress(TEXT), flipped(BZ, 40), "bzip2 file"),
    "a bzip2 bomb": bomb(BZIP2, bz2.compress(TEXT), bz2.compress(ZEROS)),
    "an xz file that is none": packed(XZ, lzma.compress(TEXT), TEXT, "xz file"),
    "an xz file that was cut off": packed(XZ, lzma.compress(TEXT), LZ[:-20], "too early"),
    "an xz file that is broken": packed(XZ, lzma.compress(TEXT), flipped(LZ, 60), "xz file"),
    "an xz bomb": bomb(XZ, lzma.compress(TEXT), lzma.compress(ZEROS)),
    "a zstd file that is none": packed(ZSTD, zstd(TEXT), TEXT, "zstd file"),
    "a zstd file that was cut off": packed(ZSTD, zstd(TEXT), ZS[:-20], "too early"),
    "a zstd file that is broken": packed(ZSTD, zstd(TEXT), flipped(ZS, 30), "zstd file"),
    "a zstd bomb": bomb(ZSTD, zstd(TEXT), zstd(ZEROS)),
}
