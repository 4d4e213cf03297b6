"""Preparation of inputs: decompressed and piped through commands, streamed and bounded.

All members, streams or frames of a file are read, as the programs of these names do; what follows
the last one may be zeros, nothing else.  In a zip archive `subPath` names one entry, exactly or
by a glob pattern; without it the first file is taken, as the reference does.  Nothing is ever
written under a name that an archive holds.  A file that is damaged, cut off or encrypted is
refused by name; how much may come out is for the caller to limit.

The command is a list, started without a shell, in the project folder, in a process group of its
own, with a small environment and a scratch home, confined where the system can do that.  It may
take `ODFBUILD_PIPE_TIMEOUT` seconds (600 if that is not set); what it says on standard error is
kept, within bounds, and shown if it fails.

Steps are applied in turn, each on the result of the one before.  The specification knows gzip and
zip; bzip2, xz and zstd are spelled as the Pipe step that unpacks them everywhere, `[xz, -dc]`, and
are unpacked here without the program.  What grows without measure is refused before it fills
the disk.
"""

import bz2
import errno
import fnmatch
import gzip
import lzma
import os
import subprocess
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

from odfbuild.errors import Diagnostic, EngineError, Level
from odfbuild.executors.engine.context import OTHER_ENTRIES
from odfbuild.executors.process.limits import seconds
from odfbuild.executors.process.program import (
    last_words,
    printed,
    signal_name,
    started,
    waited,
)
from odfbuild.executors.process.sandbox import confinement, prepared
from odfbuild.executors.process.unpackers import unpacker_of
from odfbuild.host.files import open_regular
from odfbuild.host.permissions import UNLIMITED, Permissions
from odfbuild.odf.events import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_TIMEOUT: Final = "ODFBUILD_PIPE_TIMEOUT"
_DEFAULT: Final = 600.0


class PipeError(EngineError):
    """The command of a Pipe step failed; `said` is its standard error, shortened."""

    code = "pipe"

    def __init__(self, what: str, why: str, fix: str, said: bytes = b"") -> None:
        super().__init__(what, why, fix)
        self.said = said


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where commands run, the environment that they may see parts of, whether they may run at all,
    and folders that they do not see.
    """

    folder: Path
    env: Mapping[str, str]
    permissions: Permissions = UNLIMITED
    private: tuple[Path, ...] = ()


def pipe(command: Sequence[str], path: Path, name: str, around: Surroundings) -> Iterator[bytes]:
    """Yield what a command makes of a file, in blocks; `name` is how messages call the file.

    Raises PipeNotPermittedError, PipeError when the command cannot be started, fails or takes too
    long, and BadLimitError.  Closing the iterator ends the command.
    """
    around.permissions.check_pipe(command, name)
    around.permissions.check_confined(name, confined=confinement().is_complete)
    limit = seconds(around.env, _TIMEOUT, _DEFAULT, "the time that a Pipe step may take")
    said = bytearray()
    try:
        with open_regular(path) as source, _start(command, source, name, around) as process:
            until = time.monotonic() + limit
            yield from printed(process, said, until)
            code = waited(process, until)
    except TimeoutError:
        raise _too_late(command, name, limit, bytes(said)) from None
    if code != 0:
        raise _failure(command, name, code, bytes(said))


@contextmanager
def _start(
    command: Sequence[str], source: IO[bytes], name: str, around: Surroundings
) -> Iterator[subprocess.Popen[bytes]]:
    with ExitStack() as stack:
        try:
            line, env = stack.enter_context(
                prepared(command, around.folder, around.env, around.permissions, around.private)
            )
            process = stack.enter_context(started(line, source, around.folder, env))
        except (OSError, ValueError) as error:
            raise _not_started(command, name, error) from None
        yield process


def _not_started(command: Sequence[str], name: str, error: Exception) -> PipeError:
    program = command[0]
    missing = isinstance(error, FileNotFoundError)
    split = "write the program and each argument as items of their own: "
    return PipeError(
        what=f"`{_shown(command)}` cannot be run on {name}",
        why=f"there is no program {program!r}" if missing else _reason(error),
        fix=f"{split}[{', '.join(program.split())}]"
        if " " in program
        else f"install {PurePosixPath(program).name}, or correct `command`",
    )


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error)).lower()


def _too_late(command: Sequence[str], name: str, limit: float, said: bytes) -> PipeError:
    return PipeError(
        what=f"`{_shown(command)}` took more than {limit:g} seconds on {name}",
        why=last_words(said),
        fix=f"correct `command`, or give it more time: {_TIMEOUT} is the limit in seconds",
        said=said,
    )


def _failure(command: Sequence[str], name: str, code: int, said: bytes) -> PipeError:
    how = f"with exit code {code}" if code > 0 else f"by the signal {signal_name(-code)}"
    return PipeError(
        what=f"`{_shown(command)}` ended {how} on {name}",
        why=last_words(said),
        fix="correct `command`, or the file that it reads",
        said=said,
    )


def _shown(command: Sequence[str]) -> str:
    text = " ".join(command)
    return excerpt("".join(c if c.isprintable() else "?" for c in text), 63)


_BLOCK: Final = 1 << 20
_SHOWN: Final = 5
_CUT_OFF: Final = "it ends too early: the file was cut off"
_TOO_MUCH: Final = "unpacking it would need more memory than there is"
_ENCRYPTED: Final = 1
_MEMORY: Final = 1 << 30  # what the most thorough settings of xz need is a tenth of it


class DamagedArchiveError(EngineError):
    """A compressed file is damaged, encrypted, expands too much, or lacks the requested entry."""

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
            yield from _chunks(source)
    except EOFError:
        raise _damage_error(name, "gzip", _CUT_OFF) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damage_error(name, "gzip", str(error)) from None


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
            yield from _chunks(source)
    except OSError as error:
        cut_off = "Truncated" in str(error)
        raise _damage_error(name, "zstd", _CUT_OFF if cut_off else str(error)) from None


def unzip(
    path: Path, wanted: str | None, name: str, found: list[Diagnostic] | None = None
) -> Iterator[bytes]:
    """Yield the bytes of the one entry that is asked for, by default the first.

    `found` takes the warning that others were left out.  Raises DamagedArchiveError.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entry = _entry(archive, wanted, name)
            others = _others(archive, entry, wanted)
            if others and found is not None:
                found.append(_left_out(entry, others, name))
            with archive.open(entry) as source:
                yield from _chunks(source)
    except NotImplementedError as error:
        raise _damage_error(
            name, "zip", f"it is packed in a way that is not known: {error}"
        ) from None
    except EOFError:
        raise _damage_error(name, "zip", _CUT_OFF) from None
    except MemoryError:
        raise _damage_error(name, "zip", _TOO_MUCH) from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError) as error:
        raise _damage_error(name, "zip", str(error)) from None


def _chunks(source: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
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
                        raise _damage_error(name, kind, _CUT_OFF)
                    yield current.decompress(rest, _BLOCK)
                    rest = source.read(_BLOCK) if current.needs_input else b""
                rest = _after(current.unused_data, source)
    except (lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise _damage_error(name, kind, str(error)) from None


def _after(rest: bytes, source: IO[bytes]) -> bytes:
    """Return what follows a stream, without padding; empty at the end of the file."""
    rest = rest.lstrip(b"\0")
    while not rest and (block := source.read(_BLOCK)):
        rest = block.lstrip(b"\0")
    return rest


def _not_empty(path: Path, name: str, kind: str) -> None:
    if path.stat().st_size == 0:
        raise _damage_error(name, kind, "the file is empty")


def _entry(archive: zipfile.ZipFile, wanted: str | None, name: str) -> zipfile.ZipInfo:
    files = [e for e in archive.infolist() if e.filename and not e.filename.endswith("/")]
    found = files[:1] if wanted is None else _matching_entries(files, wanted)
    if len(found) != 1:
        raise _choice(found, files, wanted, name)
    entry = found[0]
    if entry.flag_bits & _ENCRYPTED:
        raise _unfit(name, f"the entry {entry.filename} is encrypted", "no password can be given")
    if entry.filename.startswith("/") or ".." in entry.filename.split("/"):
        why = "nothing is written under such a name, but an honest archive has none"
        raise _unfit(name, f"the entry name {entry.filename} leaves the archive", why)
    return entry


def _others(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, wanted: str | None
) -> list[zipfile.ZipInfo]:
    """Return the entries that might have been meant as well: all, or those of the same name."""
    files = [e for e in archive.infolist() if e.filename and not e.filename.endswith("/")]
    names = {entry.filename} if wanted is not None else {e.filename for e in files}
    return [each for each in files if each is not entry and each.filename in names]


def _left_out(entry: zipfile.ZipInfo, others: Sequence[zipfile.ZipInfo], name: str) -> Diagnostic:
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    listed = ", ".join(each.filename for each in others[:_SHOWN])
    return Diagnostic(
        code=OTHER_ENTRIES,
        what=f"of {len(others) + 1} entries of {name} only the first was read, {entry.filename}; "
        f"left out: {listed}{more}",
        why="an archive gives one entry, by default the first, as in the reference",
        fix="name the entry in `subPath` of `Decompress`; where all are to be read, unpack the "
        "archive and fetch the files",
        span=None,
        level=Level.WARNING,
    )


def _matching_entries(files: list[zipfile.ZipInfo], wanted: str) -> list[zipfile.ZipInfo]:
    exact = [entry for entry in files if entry.filename == wanted]
    return exact[:1] or [e for e in files if fnmatch.fnmatchcase(e.filename, wanted)]


def _choice(
    found: list[zipfile.ZipInfo], files: list[zipfile.ZipInfo], wanted: str | None, name: str
) -> DamagedArchiveError:
    if not files:
        return _damage_error(name, "zip", "it holds no file")
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


def _damage_error(name: str, kind: str, why: str) -> DamagedArchiveError:
    return DamagedArchiveError(
        what=f"{name} is not a complete {kind} file",
        why=why,
        fix=f"fetch it again; if it never was {kind}, correct `prepare`",
    )


_LARGEST: Final = 256 << 30
_RATIO: Final = 250
_RATIO_FROM: Final = 256 << 20
_UNPACK: Final = {"bzip2": bunzip, "xz": unxz, "zstd": unzstd}


def prepare(
    steps: Sequence[PrepStep],
    path: Path,
    staging: Path,
    *,
    name: str | None = None,
    around: Surroundings | None = None,
    found: list[Diagnostic] | None = None,
    most: int | None = None,
) -> Path:
    """Return the file after all steps, in `staging`; without steps the given one.

    `name` is how messages call the file; `around` is where commands run, by default here; `found`
    takes warnings; `most` limits the size after a step, in bytes.  Raises DamagedArchiveError,
    PipeError and BadLimitError, and OSError if there is more.
    """
    shown = name or path.name
    given = path
    for step in steps:
        place = around or Surroundings(Path.cwd(), os.environ)
        blocks = _blocks(step, path, shown, place, found)
        before, path = path, _write(blocks, path, staging, shown, most)
        if before != given:
            before.unlink()
    return path


def _blocks(
    step: PrepStep, path: Path, name: str, around: Surroundings, found: list[Diagnostic] | None
) -> Iterator[bytes]:
    match step:
        case PrepStepDecompress(format=CompressionFormat.GZIP):
            return gunzip(path, name)
        case PrepStepDecompress(sub_path=wanted):
            return unzip(path, wanted, name, found)
        case PrepStepPipe(command=command):
            kind = unpacker_of(command)
            return pipe(command, path, name, around) if kind is None else _UNPACK[kind](path, name)


def _write(
    blocks: Iterator[bytes], packed: Path, staging: Path, name: str, most: int | None
) -> Path:
    """Write blocks to a new file of the staging folder, within limits."""
    size = packed.stat().st_size
    written = 0
    with tempfile.NamedTemporaryFile(dir=staging, prefix="unpacked-", delete=False) as out:
        try:
            with closing(_closable(blocks)) as each:
                for block in each:
                    written += len(block)
                    _check_size(written, size, name)
                    if most is not None and written > most:
                        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                    out.write(block)
        except BaseException:
            Path(out.name).unlink()
            raise
    return Path(out.name)


def _closable(blocks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Make one that can be closed of any iterator."""
    yield from blocks


def _check_size(unpacked: int, packed: int, name: str) -> None:
    if unpacked > _LARGEST or (unpacked > _RATIO_FROM and unpacked > _RATIO * packed):
        raise DamagedArchiveError(
            what=f"{name} gives more than {unpacked >> 20} MiB out of {packed} bytes",
            why=f"over {_LARGEST >> 30} GiB, or over {_RATIO} times the size: "
            "this looks like a decompression bomb",
            fix="if it is none, unpack it yourself and name the unpacked file in `fetch`",
        )
