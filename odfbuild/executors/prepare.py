"""Prepare what was fetched: decompress gzip and zip, streamed and bounded.

Steps are applied in turn, each on the result of the one before.  In a zip archive `subPath` names
one entry, exactly or by a glob pattern; without it the first file is taken, as the reference
does.  Damaged, encrypted or explosive archives are refused by name, before any row is read.
"""

import fnmatch
import gzip
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from odfbuild.errors import EngineError
from odfbuild.odf.events import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe

__all__ = ["DamagedArchiveError", "UnsupportedPrepareError", "prepare"]

_BLOCK: Final = 1 << 20
_LARGEST: Final = 256 << 30
_RATIO: Final = 250
_RATIO_FROM: Final = 256 << 20
_SHOWN: Final = 5


class DamagedArchiveError(EngineError):
    """A compressed file is broken, encrypted, explosive, or does not hold what is asked for."""

    code = "damaged-archive"


class UnsupportedPrepareError(EngineError):
    """A prepare step of a kind that this version does not run."""

    code = "unsupported-prepare"


def prepare(
    steps: Sequence[PrepStep], path: Path, staging: Path, *, name: str | None = None
) -> Path:
    """Return the file after all steps, in `staging`; without steps the given one.

    `name` is how messages call the file.  Raises DamagedArchiveError, UnsupportedPrepareError.
    """
    shown = name or path.name
    for step in steps:
        match step:
            case PrepStepDecompress(format=CompressionFormat.GZIP):
                blocks = _gunzip(path, shown)
            case PrepStepDecompress(sub_path=wanted):
                blocks = _unzip(path, wanted, shown)
            case PrepStepPipe():
                raise _no_pipes()
        path = _write(blocks, path, staging, shown)
    return path


def _write(blocks: Iterator[bytes], packed: Path, staging: Path, name: str) -> Path:
    """Write the unpacked blocks to a new file of the staging folder, within limits."""
    size = packed.stat().st_size
    written = 0
    with tempfile.NamedTemporaryFile(dir=staging, prefix="unpacked-", delete=False) as out:
        try:
            for block in blocks:
                written += len(block)
                _check_size(written, size, name)
                out.write(block)
        except BaseException:
            Path(out.name).unlink()
            raise
    return Path(out.name)


def _check_size(unpacked: int, packed: int, name: str) -> None:
    if unpacked > _LARGEST or (unpacked > _RATIO_FROM and unpacked > _RATIO * packed):
        raise DamagedArchiveError(
            what=f"{name} holds more than {unpacked >> 20} MiB in {packed} bytes",
            why=f"over {_LARGEST >> 30} GiB, or over {_RATIO} times the size: "
            "this looks like a decompression bomb",
            fix="if it is none, unpack it yourself and name the unpacked file in `fetch`",
        )


def _gunzip(path: Path, name: str) -> Iterator[bytes]:
    """Yield the bytes of all gzip members; zero padding may follow the last one."""
    if path.stat().st_size == 0:
        raise _damaged(name, "gzip", "the file is empty")
    try:
        with gzip.open(path) as source:
            yield from _blocks(source)
    except EOFError:
        raise _damaged(name, "gzip", "it ends too early: the file was cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(name, "gzip", str(error)) from None


def _unzip(path: Path, wanted: str | None, name: str) -> Iterator[bytes]:
    """Yield the bytes of the one entry that is asked for."""
    try:
        with zipfile.ZipFile(path) as archive:
            entry = _entry(archive, wanted, name)
            _check_size(entry.file_size, path.stat().st_size, name)
            with archive.open(entry) as source:
                yield from _blocks(source)
    except NotImplementedError as error:
        raise _damaged(name, "zip", f"it is packed in a way that is not known: {error}") from None
    except EOFError:
        raise _damaged(name, "zip", "it ends too early: the file was cut off") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError) as error:
        raise _damaged(name, "zip", str(error)) from None


def _blocks(source: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block


def _entry(archive: zipfile.ZipFile, wanted: str | None, name: str) -> zipfile.ZipInfo:
    files = [entry for entry in archive.infolist() if not entry.is_dir()]
    found = files[:1] if wanted is None else _wanted(files, wanted)
    if len(found) != 1:
        raise _choice(found, files, wanted, name)
    entry = found[0]
    if entry.flag_bits & 1:
        raise _damaged(name, "zip", f"the entry {entry.filename} is encrypted")
    if entry.filename.startswith("/") or ".." in entry.filename.split("/"):
        raise _damaged(name, "zip", f"the entry name {entry.filename} leaves the archive")
    return entry


def _wanted(files: list[zipfile.ZipInfo], wanted: str) -> list[zipfile.ZipInfo]:
    exact = [entry for entry in files if entry.filename == wanted]
    return exact[:1] or [e for e in files if fnmatch.fnmatchcase(e.filename, wanted)]


def _choice(
    found: list[zipfile.ZipInfo], files: list[zipfile.ZipInfo], wanted: str | None, name: str
) -> DamagedArchiveError:
    if not files:
        return _damaged(name, "zip", "it holds no file")
    listed = [entry.filename for entry in found or files]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return DamagedArchiveError(
        what=f"{len(found)} entries of {name} match `subPath: {wanted}`"
        if found
        else f"no entry of {name} matches `subPath: {wanted}`",
        why=("they are " if found else "it holds ") + ", ".join(listed[:_SHOWN]) + more,
        fix="name exactly one of them in `subPath`",
    )


def _damaged(name: str, kind: str, why: str) -> DamagedArchiveError:
    return DamagedArchiveError(
        what=f"{name} is not a whole {kind} file",
        why=why,
        fix=f"fetch it again; if it never was {kind}, correct `prepare`",
    )


def _no_pipes() -> UnsupportedPrepareError:
    return UnsupportedPrepareError(
        what="`prepare` steps of kind Pipe are not run",
        why="a pipe runs any program of the machine; this version only decompresses",
        fix="do the same work in `preprocess`, or prepare the file before it is fetched",
    )
