"""Take a shapefile out of its archive, and check that its parts are whole and belong together.

A shapefile is several files of one name: `.shp` the shapes, `.dbf` the table, `.shx` an index
(made anew where it is missing), `.cpg` the encoding of the table's texts.
"""

import fnmatch
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from odfbuild.executors.prepare import prepare
from odfbuild.executors.readers.problems import InvalidSourceError, counted
from odfbuild.odf.events import CompressionFormat, PrepStepDecompress
from odfbuild.regular_files import open_regular, read_regular

__all__ = ["Parts", "take_parts"]

_NEEDED: Final = (".shp", ".dbf")
_USED: Final = (*_NEEDED, ".shx", ".cpg")
_LISTED: Final = 10
_SHAPES: Final = 9994  # the number that .shp and .shx begin with
_HEADER: Final = 100
_DBF_HEADER: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The files of one shapefile in a folder of their own: `shapes` and its siblings.

    `language` is the mark of the table's encoding, `declared` the text of the `.cpg` file; `entry`
    is how the archive names the shapes.
    """

    entry: str
    shapes: Path
    records: int
    language: int
    declared: str | None


def take_parts(archive: Path, wanted: str | None, folder: Path, name: str) -> Parts:
    """Unpack the shapefile that is asked for into an empty folder.

    `wanted` is an exact name or a glob pattern; None where the archive has only one.  Raises
    InvalidSourceError, DamagedArchiveError.
    """
    names = _names(archive, name)
    entry = _chosen([each for each in names if _is_shapes(each)], wanted, name)
    stem = PurePosixPath(entry).with_suffix("")
    for suffix in _USED:
        part = next((each for each in names if _is_part(each, entry, stem, suffix)), None)
        if part is None and suffix in _NEEDED:
            raise _lacking(name, entry, suffix)
        if part is not None:
            step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=part)
            prepare((step,), archive, folder, name=name).rename(folder / f"layer{suffix}")
    return _checked(folder, entry, name)


def _names(archive: Path, name: str) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as packed:
            return [each for each in packed.namelist() if each and not each.endswith("/")]
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise InvalidSourceError(
            what=f"{name} is not a whole zip archive",
            why=f"a shapefile is several files, read out of one archive; {error}",
            fix="fetch it again; the archive itself is read, so leave Decompress out of `prepare`",
        ) from None


def _is_shapes(entry: str) -> bool:
    """Tell shapes from other files, and from what macOS puts beside them."""
    path = PurePosixPath(entry)
    hidden = "__MACOSX" in path.parts[:1] or path.name.startswith("._")
    return path.suffix.lower() == ".shp" and not hidden


def _chosen(shapes: Sequence[str], wanted: str | None, name: str) -> str:
    if wanted is None:
        found = list(shapes)
    else:
        found = [each for each in shapes if each == wanted] or [
            each for each in shapes if fnmatch.fnmatchcase(each, wanted)
        ]
    if len(found) == 1:
        return found[0]
    if not shapes:
        what, why = f"{name} has no shapefile", "no entry of the archive ends with .shp"
    elif wanted is None:
        what, why = f"{name} has {counted(len(shapes), 'shapefile')}", _listed(shapes)
    elif found:
        what = f"{counted(len(found), 'shapefile')} of {name} match `subPath: {wanted}`"
        why = _listed(found)
    else:
        what, why = f"no shapefile of {name} matches `subPath: {wanted}`", _listed(shapes)
    raise InvalidSourceError(what, why, "name exactly one of its .shp files in `read.subPath`")


def _listed(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return "there is " + ", ".join(entries[:_LISTED]) + more


def _is_part(each: str, entry: str, stem: PurePosixPath, suffix: str) -> bool:
    if suffix == ".shp":
        return each == entry
    path = PurePosixPath(each)
    same_name = path.stem.lower() == stem.name.lower() and path.suffix.lower() == suffix
    return same_name and path.parent == stem.parent


def _lacking(name: str, entry: str, suffix: str) -> InvalidSourceError:
    return InvalidSourceError(
        what=f"{name}: {entry} has no {suffix} file beside it",
        why="the shapes are in the .shp file, their columns in the .dbf file",
        fix="put both into the archive, in the same folder and with the same name",
    )


def _checked(folder: Path, entry: str, name: str) -> Parts:
    """Check the sizes that the headers promise; GDAL would make nulls of what is missing."""
    shapes, table, index = (folder / f"layer{suffix}" for suffix in (".shp", ".dbf", ".shx"))
    _check_shapes(shapes, f"{name}: {entry}")
    records, language = _check_table(table, f"{name}: the .dbf file of {entry}")
    if index.exists():
        _check_shapes(index, f"{name}: the .shx file of {entry}")
        shape_count = (index.stat().st_size - _HEADER) // 8
        if shape_count != records:
            raise _broken(
                f"{name}: {entry} has {counted(shape_count, 'shape')} and {records} records",
                "each shape has one record in the .dbf file",
            )
    declared = folder / "layer.cpg"
    text = read_regular(declared).decode("ascii", "replace") if declared.exists() else None
    return Parts(entry=entry, shapes=shapes, records=records, language=language, declared=text)


def _check_shapes(path: Path, name: str) -> None:
    with open_regular(path) as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or struct.unpack_from(">i", header)[0] != _SHAPES:
        raise _broken(f"{name} is no file of shapes", "it does not begin as such files do")
    size = 2 * struct.unpack_from(">i", header, 24)[0]
    if path.stat().st_size < size:
        raise _broken(f"{name} was cut off", f"of {size} bytes {path.stat().st_size} are there")


def _check_table(path: Path, name: str) -> tuple[int, int]:
    """Return how many records a table has and the mark of its encoding."""
    with open_regular(path) as file:
        header = file.read(_DBF_HEADER)
    if len(header) < _DBF_HEADER:
        raise _broken(f"{name} was cut off", f"it has {len(header)} bytes")
    records, start, width = struct.unpack_from("<IHH", header, 4)
    size = start + records * width
    if start <= _DBF_HEADER or path.stat().st_size < size:
        raise _broken(f"{name} was cut off", f"of {size} bytes {path.stat().st_size} are there")
    return records, header[29]


def _broken(what: str, why: str) -> InvalidSourceError:
    return InvalidSourceError(what, why, "fetch the archive again, or make it anew")
