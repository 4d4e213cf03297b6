"""Samples: the beginning of a file, and a guess of its format, columns and types.

What is guessed is meant to be looked at by a person; what is not known is left out and said so.
"""

import io
import zipfile
from dataclasses import replace
from typing import Final

from odfbuild.executors.ingest.sample.model import Sample, UnsampledError
from odfbuild.executors.ingest.sample.packed import packing_of

MAX_SAMPLE: Final = 16 * 1024 * 1024
_LINES: Final = (".ndjson", ".jsonl")
_DOCUMENTS: Final = (".json", ".geojson")


def take_sample(data: bytes, name: str, *, whole: bool) -> Sample:
    """Return what the beginning of a file shows; `whole` if it is all of it.

    Raises UnsampledError when nothing can be told.
    """
    packing = packing_of(data)
    if packing is not None:
        inner = packing.beginning(data, MAX_SAMPLE + 1, name)
        complete = whole and len(inner) <= MAX_SAMPLE
        found = _sample(inner[:MAX_SAMPLE], name.removesuffix(packing.suffix), whole=complete)
        return replace(found, prepare=(packing.prepare,))
    if data.startswith(b"PK\x03\x04"):
        return _of_archive(data, name, whole=whole)
    return _sample(data, name, whole=whole)


def _sample(data: bytes, name: str, *, whole: bool) -> Sample:
    lower = name.lower()
    if data.startswith(b"PAR1"):
        from odfbuild.executors.ingest.sample.parquet import sample_parquet

        return sample_parquet(data, name, whole=whole)
    if lower.endswith((*_LINES, *_DOCUMENTS)) or data.lstrip()[:1] in (b"[", b"{"):
        from odfbuild.executors.ingest.sample.json import sample_json

        return sample_json(data, name, whole=whole)
    from odfbuild.executors.ingest.sample.csv import sample_csv

    return sample_csv(data, name, whole=whole)


def _of_archive(data: bytes, name: str, *, whole: bool) -> Sample:
    """Take the first file of an archive; it is named if there are others."""
    try:
        if not whole:
            raise zipfile.BadZipFile("its table of contents is at its end")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [each for each in archive.namelist() if not each.endswith("/")]
            shapes = [each for each in names if each.lower().endswith(".shp")]
            if shapes:
                return _of_shapes(data, name, shapes)
            with archive.open(names[0]) as file:
                inner = file.read(MAX_SAMPLE)
            complete = archive.getinfo(names[0]).file_size <= MAX_SAMPLE
    except (zipfile.BadZipFile, IndexError, RuntimeError, NotImplementedError) as error:
        raise UnsampledError(
            what=f"{name} is an archive that cannot be looked into",
            why=str(error) or "it is empty",
            fix="unpack it, and name the file in it",
        ) from None
    step = {"kind": "Decompress", "format": "Zip"}
    if len(names) > 1:
        step["subPath"] = names[0]
    return replace(_sample(inner, names[0], whole=complete), prepare=(step,))


def _of_shapes(data: bytes, name: str, shapes: list[str]) -> Sample:
    """Take the first shapefile of an archive; it is named if there are others."""
    from odfbuild.executors.ingest.sample.shapefile import sample_shapefile

    found = sample_shapefile(data, name, shapes[0] if len(shapes) > 1 else None)
    if len(shapes) == 1:
        return found
    return replace(found, notes=(f"the archive has {len(shapes)} shapefiles", *found.notes))
