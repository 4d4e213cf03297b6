"""Retries of downloads: the bytes that were stored so far, their version, and the next attempts.

    <folder>/fetched-data.csv            a complete download
    <folder>/fetched-data.csv.part       an incomplete one
    <folder>/fetched-data.csv.part.json  its note: source, version, size and hash
    <folder>/version.json                the last version that was fetched, with a checksum

An incomplete download is continued, also by a later run, only if the source still has its version
and its bytes match the hash in the note.  One without a known version is discarded.  All of these
files may be deleted.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Final, TypeVar

from odfbuild.executors.ingest.fetch.request import FetchError, Request, UnreachableError
from odfbuild.executors.process import interrupt
from odfbuild.host.files import open_regular, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import sha3_256
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.values import dataclass

_IN_A_ROW: Final = 3
_IN_ALL: Final = 20
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0

T = TypeVar("T")


class TransientError(Exception):
    """A temporary failure: the error to raise in the end, and the pause in seconds demanded."""

    def __init__(self, final: UnreachableError, seconds: float = 0.0) -> None:
        super().__init__(final.what)
        self.final = final
        self.seconds = seconds


def retry(
    attempt: Callable[[], T],
    stored: Callable[[], int],
    pause: Callable[[float], None] | None = None,
) -> T:
    """Return the result of the first attempt that does not fail with a TransientError.

    A failed attempt is repeated up to three times, or twenty if each leaves more bytes `stored`
    than the one before.  It is not repeated if the server demands a pause longer than a minute.
    Raises StoppedError when the run is stopped.
    """
    fruitless = 0
    for _ in range(_IN_ALL):
        before = stored()
        try:
            return attempt()
        except TransientError as failure:
            fruitless = 0 if stored() > before else fruitless + 1
            if fruitless > _IN_A_ROW:
                raise failure.final from None
            if failure.seconds > _LONGEST_PAUSE:
                raise _pause_too_long(failure) from None
            backoff = _FIRST_PAUSE * 2 ** max(fruitless - 1, 0)
            (pause or interrupt.pause)(min(max(failure.seconds, backoff), _LONGEST_PAUSE))
    try:
        return attempt()
    except TransientError as failure:
        raise failure.final from None


def _pause_too_long(failure: TransientError) -> UnreachableError:
    error = failure.final
    error.fix = f"the server asks to wait {failure.seconds:g} seconds: run the same command then"
    return error


_VERSION: Final = "version.json"
_KEPT: Final = frozenset({_VERSION, "container.json"})
_LONGEST_NAME: Final = 80
_NOTED: Final = 16 << 20  # bytes after which the note is written again
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a file, as the server sends it."""

    etag: str | None
    last_modified: str | None


class PartialDownload:
    """An open file of one download: its `size` so far, in bytes, and the `version` it is of."""

    def __init__(self, path: Path, file: IO[bytes], source: str) -> None:
        self._path = path
        self._note = path.with_name(path.name + ".json")
        self._file = file
        self._source = source
        self._hash = self._initial_hash(None)
        self._noted_size = 0
        self.size = 0
        self.version = self._version_to_resume()
        if self.version is None:
            self.restart(None)

    def restart(self, version: str | None) -> None:
        """Discard the stored bytes; further ones are of this version, None if it has no name."""
        self._file.truncate(0)
        self._hash = self._initial_hash(version)
        self.size = self._noted_size = 0
        self.version = version
        self._note.unlink(missing_ok=True)

    def write(self, block: bytes) -> None:
        """Store more bytes."""
        self._file.write(block)
        self._hash.update(block)
        self.size += len(block)
        if self.version is not None and self.size - self._noted_size >= _NOTED:
            self._write_note()

    def finish(self) -> Path:
        """Rename the complete download to its final name; return its path."""
        self._file.flush()
        self._note.unlink(missing_ok=True)
        return self._path.rename(self._path.with_suffix(""))

    def leave(self) -> None:
        """Keep the download if it can be continued, else delete it."""
        if self.version is None or not self.size:
            self._path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)
        else:
            self._write_note()

    def _write_note(self) -> None:
        """Write the note: source, version, size and hash of the download."""
        self._file.flush()
        note = {
            "source": self._source,
            "version": self.version,
            "size": self.size,
            "hash": self._hash.hexdigest(),
        }
        pending = self._note.with_name(self._note.name + ".pending")
        pending.write_text(json.dumps(note), "utf-8")
        pending.replace(self._note)
        self._noted_size = self.size

    def _version_to_resume(self) -> str | None:
        """Return the version in the note of this source; cut the file to the size in the note.

        None if there is no valid note, or the bytes do not match its hash.
        """
        with suppress(OSError, ValueError, TypeError, KeyError):
            note = parse_json(read_regular(self._note))
            version, size = note["version"], note["size"]
            if note["source"] != self._source or not isinstance(version, str) or size <= 0:
                return None
            found = self._hash_of(version, size)
            if found.hexdigest() == note["hash"]:
                self._file.truncate(size)
                self._hash, self.size, self._noted_size = found, size, size
                return version
        return None

    def _initial_hash(self, version: str | None) -> blake2b:
        """Return the hash of a download before its first byte: of its source and version."""
        return blake2b(json.dumps([self._source, version]).encode())

    def _hash_of(self, version: str, size: int) -> blake2b:
        """Return the hash of at most `size` bytes of the file."""
        found, left = self._initial_hash(version), size
        with open_regular(self._path) as file:
            while left > 0 and (block := file.read(min(_CHUNK, left))):
                found.update(block)
                left -= len(block)
        return found


@contextmanager
def opened_part(request: Request, folder: Path) -> Iterator[PartialDownload]:
    """Open the download of a request, with the bytes that an earlier attempt left.

    Raises FetchError, also if the block cannot store its bytes.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, file = _lock_part(folder, _name_of(request))
        with file:
            part = PartialDownload(path, file, _digest(request))
            try:
                yield part
            except BaseException:
                part.leave()
                raise
            if path.exists():  # nothing was new
                part.leave()
    except OSError as error:
        raise FetchError(
            what=f"{request.name} cannot be stored",
            why=error.strerror or str(error),
            fix="make room on the disk of the workspace, then run the command again",
        ) from error


def store_version(folder: Path, url: str, version: Version) -> None:
    """Store the version of a file that was fetched last."""
    note = {"etag": version.etag, "last_modified": version.last_modified}
    with suppress(OSError):
        (folder / _VERSION).write_text(with_check_sum(json.dumps(note), url), "utf-8")


def stored_version(folder: Path, url: str) -> Version:
    """Return the version of a file that was fetched last, as far as it is known."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        note = parse_json(checked_text(read_regular(folder / _VERSION), url) or "")
        found = (note["etag"], note["last_modified"])
        if all(each is None or isinstance(each, str) for each in found):
            return Version(*found)
    return Version(None, None)


def sweep(folder: Path) -> None:
    """Delete the files of downloads, except the notes on the last one."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():  # of a container, by a run that was killed
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in _KEPT:
                path.unlink(missing_ok=True)


def _lock_part(folder: Path, name: str) -> tuple[Path, IO[bytes]]:
    """Open a part that no other process is writing, under another name if need be."""
    for path in (folder / f"{name}.part", folder / f"{name}-{secrets.token_hex(4)}.part"):
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(path, file):  # the process before may have finished it just now
                return path, file
        except BlockingIOError:
            pass
        file.close()
    raise BlockingIOError(0, "another process is fetching the same source")


def _is_current(path: Path, file: IO[bytes]) -> bool:
    """Return whether an open file is still the one at that path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _name_of(request: Request) -> str:
    """Name a download after its source, without anything that may be secret."""
    last = request.name.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    return "fetched-" + (re.sub(r"[^A-Za-z0-9._-]+", "_", last)[-_LONGEST_NAME:] or "data")


def _digest(request: Request) -> str:
    text = json.dumps([request.url, sorted(request.headers)])
    return str(sha3_256(text.encode("utf-8", "surrogateescape")))
