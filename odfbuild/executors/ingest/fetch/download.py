"""Retries of downloads: the bytes that were stored so far, their version, and the next attempts.

    <folder>/fetched-data.csv            a whole download
    <folder>/fetched-data.csv.part       the beginning of one
    <folder>/fetched-data.csv.part.json  what it is the beginning of
    <folder>/version.json                the last version that was seen, with a checksum

A beginning is continued, also by a later run, only if the source says that it is of the version
that it still has, and as far as its bytes are those that came: the note has a hash of them.  One
whose version cannot be determined is thrown away.  All of it may be deleted.
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
    """A failure that may pass: what to raise in the end, and how long the server asks to wait."""

    def __init__(self, final: UnreachableError, seconds: float = 0.0) -> None:
        super().__init__(final.what)
        self.final = final
        self.seconds = seconds


def persist(
    attempt: Callable[[], T],
    stored: Callable[[], int],
    pause: Callable[[float], None] | None = None,
) -> T:
    """Return what the first attempt gives that does not fail with a TransientError.

    Up to three more tries follow a failure, twenty if each leaves more bytes `stored` than the one
    before.  A server that asks to wait longer than a minute is not asked again.
    Raises StoppedError when the run is given up.
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
                raise _asked_to_wait(failure) from None
            backoff = _FIRST_PAUSE * 2 ** max(fruitless - 1, 0)
            (pause or interrupt.pause)(min(max(failure.seconds, backoff), _LONGEST_PAUSE))
    try:
        return attempt()
    except TransientError as failure:
        raise failure.final from None


def _asked_to_wait(failure: TransientError) -> UnreachableError:
    error = failure.final
    error.fix = f"the server asks to wait {failure.seconds:g} seconds: run the same command then"
    return error


_VERSION: Final = "version.json"
_KEPT: Final = frozenset({_VERSION, "container.json"})
_LONGEST_NAME: Final = 80
_NOTED: Final = 16 << 20  # bytes after which a note says again how far a download is
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """What a server says of the version of a file, both as it says them."""

    etag: str | None
    last_modified: str | None


class PartialDownload:
    """The file of one download, open: its `size` so far, in bytes, and of which `version` it is."""

    def __init__(self, path: Path, file: IO[bytes], source: str) -> None:
        self._path = path
        self._note = path.with_name(path.name + ".json")
        self._file = file
        self._source = source
        self._hash = self._begun(None)
        self._noted_size = 0
        self.size = 0
        self.version = self._continued()
        if self.version is None:
            self.restart(None)

    def restart(self, version: str | None) -> None:
        """Throw away what is stored; what follows is of this version, None if it has no name."""
        self._file.truncate(0)
        self._hash = self._begun(version)
        self.size = self._noted_size = 0
        self.version = version
        self._note.unlink(missing_ok=True)

    def write(self, block: bytes) -> None:
        """Store more bytes."""
        self._file.write(block)
        self._hash.update(block)
        self.size += len(block)
        if self.version is not None and self.size - self._noted_size >= _NOTED:
            self._keep_note()

    def finish(self) -> Path:
        """Give the download its name, and return where it is."""
        self._file.flush()
        self._note.unlink(missing_ok=True)
        return self._path.rename(self._path.with_suffix(""))

    def leave(self) -> None:
        """Keep what may be continued, delete what may not."""
        if self.version is None or not self.size:
            self._path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)
        else:
            self._keep_note()

    def _keep_note(self) -> None:
        """Say how far the download is, of what, and what its bytes hash to."""
        self._file.flush()
        note = {
            "source": self._source,
            "version": self.version,
            "size": self.size,
            "hash": self._hash.hexdigest(),
        }
        near = self._note.with_name(self._note.name + ".pending")
        near.write_text(json.dumps(note), "utf-8")
        near.replace(self._note)
        self._noted_size = self.size

    def _continued(self) -> str | None:
        """Return the version that is noted for this source, with the file as long as the note says.

        None if there is no note that can be read, or the bytes are not those that came.
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

    def _begun(self, version: str | None) -> blake2b:
        """Return the hash of a download before its first byte: it says what is downloaded."""
        return blake2b(json.dumps([self._source, version]).encode())

    def _hash_of(self, version: str, size: int) -> blake2b:
        """Return the hash of so many bytes of the file, of fewer if it has fewer."""
        found, left = self._begun(version), size
        with open_regular(self._path) as file:
            while left > 0 and (block := file.read(min(_CHUNK, left))):
                found.update(block)
                left -= len(block)
        return found


@contextmanager
def opened_part(request: Request, folder: Path) -> Iterator[PartialDownload]:
    """Open the download of a request, with what an earlier try left of it.

    Raises FetchError, also for what the block cannot store.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, file = _locked(folder, _name_of(request))
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


def keep_version(folder: Path, url: str, version: Version) -> None:
    """Remember which version of a file was seen last."""
    note = {"etag": version.etag, "last_modified": version.last_modified}
    with suppress(OSError):
        (folder / _VERSION).write_text(with_check_sum(json.dumps(note), url), "utf-8")


def kept_version(folder: Path, url: str) -> Version:
    """Return which version of a file was seen last, as far as that is known."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        note = parse_json(checked_text(read_regular(folder / _VERSION), url) or "")
        found = (note["etag"], note["last_modified"])
        if all(each is None or isinstance(each, str) for each in found):
            return Version(*found)
    return Version(None, None)


def sweep(folder: Path) -> None:
    """Delete what downloads left, but for notes of the last one."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():  # of a container, by a run that was killed
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in _KEPT:
                path.unlink(missing_ok=True)


def _locked(folder: Path, name: str) -> tuple[Path, IO[bytes]]:
    """Open a part that nobody else is writing, by another name if need be."""
    for path in (folder / f"{name}.part", folder / f"{name}-{secrets.token_hex(4)}.part"):
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, file):  # its last holder may have finished it just now
                return path, file
        except BlockingIOError:
            pass
        file.close()
    raise BlockingIOError(0, "another process is fetching the same source")


def _is_there(path: Path, file: IO[bytes]) -> bool:
    """Say whether an open file is still the one of that name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _name_of(request: Request) -> str:
    """Name a download after its source, without anything that may be secret."""
    last = request.name.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    return "fetched-" + (re.sub(r"[^A-Za-z0-9._-]+", "_", last)[-_LONGEST_NAME:] or "data")


def _digest(request: Request) -> str:
    asked = json.dumps([request.url, sorted(request.headers)])
    return str(sha3_256(asked.encode("utf-8", "surrogateescape")))
