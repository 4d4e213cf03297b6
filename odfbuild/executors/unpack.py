"""Unpack one compressed file as a stream of blocks: gzip, zip, bzip2, xz, zstd.

All members, streams or frames of a file are read, as the programs of these names do; what follows
the last one may be zeros, nothing else.  In a zip archive `subPath` names one entry, exactly or
by a glob pattern; without it the first file is taken, as the reference does.  Nothing is ever
written under a name that an archive holds.  A file that is damaged, cut off or encrypted is
refused by name; how much may come out is for the caller to limit.
"""

import bz2
import fnmatch
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Protocol

from odfbuild.errors import EngineError
from odfbuild.regular_files import open_regular

__all__ = ["DamagedArchiveError", "bunzip", "gunzip", "unxz", "unzip", "unzstd"]

_BLOCK: Final = 1 << 20
_SHOWN: Final = 5
_CUT_OFF: Final = "it ends too early: the file was cut off"
_TOO_MUCH: Final = "unpacking it would need more memory than there is"
_ENCRYPTED: Final = 1
_MEMORY: Final = 1 << 30  # what the most thorough settings of xz need is a tenth of it


class DamagedArchiveError(EngineError):
    """A compressed file is broken, encrypted, explosive, or does not hold what is asked for."""

    code = "damaged-archive"


class _Decompressor(Protocol):
    """What the decompressors of bz2 and lzma have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def gunzip(path: Path, name: str) -> Iterator[bytes]:
    """Yield the bytes of all gzip members.  Raises DamagedArchiveError."""
    _not_empty(path, name, "gzip")
    try:
        with gzip.open(path) as source:
            yield from _blocks(source)
    except EOFError:
        raise _damaged(name, "gzip", _CUT_OFF) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(name, "gzip", str(error)) from None


def bunzip(path: Path, name: str) -> Iterator[bytes]:
    """Yield the bytes of all bzip2 streams.  Raises DamagedArchiveError."""
    return _streams(path, name, "bzip2", bz2.BZ2Decompressor)


def unxz(path: Path, name: str) -> Iterator[bytes]:
    """Yield the bytes of all xz streams, or of one of the older lzma format."""
    return _streams(path, name, "xz", lambda: lzma.LZMADecompressor(memlimit=_MEMORY))


def unzstd(path: Path, name: str) -> Iterator[bytes]:
    """Yield the bytes of all zstd frames.  Raises DamagedArchiveError."""
    import pyarrow as pa

    _not_empty(path, name, "zstd")
    try:
        with pa.OSFile(str(path)) as packed, pa.CompressedInputStream(packed, "zstd") as source:
            yield from _blocks(source)
    except OSError as error:
        cut_off = "Truncated" in str(error)
        raise _damaged(name, "zstd", _CUT_OFF if cut_off else str(error)) from None


def unzip(path: Path, wanted: str | None, name: str) -> Iterator[bytes]:
    """Yield the bytes of the one entry that is asked for.  Raises DamagedArchiveError."""
    try:
        with zipfile.ZipFile(path) as archive:
            entry = _entry(archive, wanted, name)
            with archive.open(entry) as source:
                yield from _blocks(source)
    except NotImplementedError as error:
        raise _damaged(name, "zip", f"it is packed in a way that is not known: {error}") from None
    except EOFError:
        raise _damaged(name, "zip", _CUT_OFF) from None
    except MemoryError:
        raise _damaged(name, "zip", _TOO_MUCH) from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError) as error:
        raise _damaged(name, "zip", str(error)) from None


def _blocks(source: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block


def _streams(path: Path, name: str, kind: str, new: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """Yield the bytes of streams that follow each other.

    The readers of the standard library take what is no stream any more for the end of the file,
    so a damaged second stream would be lost without a word.
    """
    _not_empty(path, name, kind)
    try:
        with open_regular(path) as source:
            rest = source.read(_BLOCK)
            while rest:
                current = new()
                while not current.eof:
                    if current.needs_input and not rest:
                        raise _damaged(name, kind, _CUT_OFF)
                    yield current.decompress(rest, _BLOCK)
                    rest = source.read(_BLOCK) if current.needs_input else b""
                rest = _after(current.unused_data, source)
    except (lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise _damaged(name, kind, str(error)) from None


def _after(rest: bytes, source: IO[bytes]) -> bytes:
    """Return what follows a stream, without padding; empty at the end of the file."""
    rest = rest.lstrip(b"\0")
    while not rest and (block := source.read(_BLOCK)):
        rest = block.lstrip(b"\0")
    return rest


def _not_empty(path: Path, name: str, kind: str) -> None:
    if path.stat().st_size == 0:
        raise _damaged(name, kind, "the file is empty")


def _entry(archive: zipfile.ZipFile, wanted: str | None, name: str) -> zipfile.ZipInfo:
    files = [e for e in archive.infolist() if e.filename and not e.filename.endswith("/")]
    found = files[:1] if wanted is None else _wanted(files, wanted)
    if len(found) != 1:
        raise _choice(found, files, wanted, name)
    entry = found[0]
    if entry.flag_bits & _ENCRYPTED:
        raise _unfit(name, f"the entry {entry.filename} is encrypted", "no password can be given")
    if entry.filename.startswith("/") or ".." in entry.filename.split("/"):
        why = "nothing is written under such a name, but an honest archive has none"
        raise _unfit(name, f"the entry name {entry.filename} leaves the archive", why)
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


def _unfit(name: str, what: str, why: str) -> DamagedArchiveError:
    return DamagedArchiveError(
        what=f"{name}: {what}",
        why=why,
        fix="name another entry in `subPath`, or unpack it yourself and fetch the unpacked file",
    )


def _damaged(name: str, kind: str, why: str) -> DamagedArchiveError:
    return DamagedArchiveError(
        what=f"{name} is not a whole {kind} file",
        why=why,
        fix=f"fetch it again; if it never was {kind}, correct `prepare`",
    )
