"""Immutable objects named by the hash of their bytes: blocks, data slices, checkpoints.

A folder of objects has one file an object, named by the hash text (ODF 0.34.1, "Dataset Layout").
Names starting with a dot are unfinished.
"""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from odfbuild.errors import StateError
from odfbuild.host.files import NO_FILE, open_regular, read_regular, why_irregular
from odfbuild.odf.identity import InvalidMultihashError, Multicodec, Multihash
from odfbuild.state.files.disk import Disk, move, pending, read_file
from odfbuild.values import dataclass

LARGEST_BLOCK = 64 << 20  # bytes
_HASHES = {"sha256": hashlib.sha256, "sha3_256": hashlib.sha3_256}


class MissingObjectError(StateError):
    """An object that a chain names is missing."""

    code = "missing-object"

    def __init__(self, missing: Multihash, place: str) -> None:
        super().__init__(
            what=f"{missing} is missing from {place}",
            why="all files that a chain names are stored with it",
            fix="pull the dataset again, or restore the file from a copy",
        )
        self.missing = missing


class CorruptObjectError(StateError):
    """The hash of an object's bytes differs from its name."""

    code = "corrupt-object"

    def __init__(self, named: Multihash, actual: Multihash, place: str) -> None:
        super().__init__(
            what=f"the bytes of {named} in {place} hash to {actual}",
            why="an object is named by the hash of its bytes, so they were changed or damaged",
            fix="delete the file and pull the dataset again, or restore it from a copy",
        )
        self.named = named
        self.actual = actual


class UnreadableObjectError(StateError):
    """The file of an object cannot be read."""

    code = "unreadable-object"

    def __init__(self, path: str | Path, said: str) -> None:
        super().__init__(
            what=f"{path} cannot be read: {said}",
            why="a block, data slice or checkpoint must be a regular file that the system can "
            "open, not a link, folder or device",
            fix="check its access rights, or delete it and restore it from a copy; a data slice "
            "of a derivative dataset: odfbuild rebuild NAME --restore",
        )


def unreadable(path: str | Path, error: OSError) -> Exception:
    """Return the damage that an error of reading an object says; the error itself if it is none."""
    if error.errno not in NO_FILE:
        return error
    return UnreadableObjectError(path, error.strerror or str(error))


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """An object as it lies in a store: its bytes, and when it was put there (in seconds)."""

    hash: Multihash
    size: int
    touched: float


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is in an object store: its `url` there, and what opens its bytes, in pieces.

    `path` is where the file is on this machine once it was brought; it is named by its hash.
    `origin` says where the bytes that are opened come from.
    """

    hash: Multihash
    size: int
    path: Path
    url: str
    origin: str
    pieces: Callable[[], AbstractContextManager[Iterator[bytes]]]


class ObjectStore(Protocol):
    """A set of objects by hash; an object never changes.

    One that is elsewhere, not `is_at_hand`, is brought when it is asked for.
    """

    is_at_hand: bool

    def put(self, objects: Mapping[Multihash, bytes | Path]) -> None:
        """Take in bytes, or finished files, which are moved; on return they are there to stay.

        Bytes must hash to their name, or CorruptObjectError; for files that is up to the caller.
        """

    def get(self, hash: Multihash) -> bytes:
        """Return an object, or raise MissingObjectError, CorruptObjectError or
        UnreadableObjectError.
        """

    def has(self, hash: Multihash) -> bool:
        """Say whether an object is there."""

    def size(self, hash: Multihash) -> int | None:
        """Return how many bytes an object has, None if it is not there."""

    def path(self, hash: Multihash) -> Path:
        """Return where other programs can read an object as a file."""

    def bring(self, hashes: Collection[Multihash]) -> None:
        """Have files of objects at hand, several at a time, that will be asked for one by one."""

    def stored(self, hash: Multihash, size: int) -> StoredFile | None:
        """Return where an object of so many bytes is elsewhere, be it there or not; None of a store
        that is at hand.
        """

    def renew(self, hash: Multihash) -> bool:
        """Bring an object again whose file has other bytes; tell whether there was a better one."""

    def list(self) -> Iterator[Multihash]:
        """Yield the hashes of all objects in no order."""

    def entries(self) -> Iterator[ObjectEntry]:
        """Yield all objects with their sizes and ages, in no order."""

    def remove(self, hashes: Sequence[Multihash]) -> None:
        """Take objects away, in this order; those that are gone already are left out."""


class LocalObjects:
    """Objects as files of one folder, which is made with the first of them."""

    is_at_hand = True

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._prefix = f"{folder}{os.sep}"
        self._disk = disk or Disk()

    def put(self, objects: Mapping[Multihash, bytes | Path]) -> None:
        if not objects:
            return
        self._make_folder()
        for name, source in objects.items():
            self._put(name, source)
        self._disk.sync(self._folder)

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            self._disk.make_folder(self._folder)

    def _put(self, name: Multihash, source: bytes | Path) -> None:
        target = self._folder / str(name)
        if target.is_dir():
            raise UnreadableObjectError(target, "is a folder")
        if isinstance(source, Path):
            # a file that was moved here by an attempt that failed later is in its place already
            if source.exists() or not target.exists():
                move(self._disk, source, target)
            return
        check_bytes(name, source, str(self._folder))
        draft = pending(self._folder)
        self._disk.write(draft, source)
        self._disk.rename(draft, target)

    def get(self, hash: Multihash) -> bytes:
        path = f"{self._prefix}{hash}"
        try:
            data = read_file(path)
        except OSError as error:
            raise unreadable(path, error) from error
        if data is None:
            raise MissingObjectError(hash, str(self._folder))
        check_bytes(hash, data, str(self._folder))
        return data

    def has(self, hash: Multihash) -> bool:
        path = self.path(hash)
        return path.is_file() and why_irregular(path) is None

    def size(self, hash: Multihash) -> int | None:
        return self.path(hash).stat().st_size if self.has(hash) else None

    def path(self, hash: Multihash) -> Path:
        return self._folder / str(hash)

    def bring(self, hashes: Collection[Multihash]) -> None:
        pass

    def stored(self, hash: Multihash, size: int) -> StoredFile | None:  # noqa: ARG002
        return None

    def renew(self, hash: Multihash) -> bool:  # noqa: ARG002
        return False

    def list(self) -> Iterator[Multihash]:
        if not self._folder.is_dir():
            return
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if (name := as_hash(entry.name)) is not None:
                    yield name

    def entries(self) -> Iterator[ObjectEntry]:
        for hash in self.list():
            with suppress(FileNotFoundError):
                status = self.path(hash).lstat()
                touched = max(status.st_mtime, status.st_ctime)  # moving a file keeps the first
                yield ObjectEntry(hash, status.st_size, touched)

    def remove(self, hashes: Sequence[Multihash]) -> None:
        for hash in hashes:
            with suppress(FileNotFoundError):
                self._disk.remove(self.path(hash))
        if hashes:
            self._disk.sync(self._folder)


class MemoryObjects:
    """Objects in memory, for tests; `scratch` is where `path` puts copies."""

    is_at_hand = True

    def __init__(self, scratch: Path | None = None) -> None:
        self._objects: dict[Multihash, bytes] = {}
        self._touched: dict[Multihash, float] = {}
        self._scratch = scratch

    def put(self, objects: Mapping[Multihash, bytes | Path]) -> None:
        for name, source in objects.items():
            if isinstance(source, Path):
                self._objects[name] = read_regular(source)
                source.unlink()
            else:
                check_bytes(name, source, "memory")
                self._objects[name] = source
            self._touched[name] = time.time()

    def get(self, hash: Multihash) -> bytes:
        if hash not in self._objects:
            raise MissingObjectError(hash, "memory")
        return self._objects[hash]

    def has(self, hash: Multihash) -> bool:
        return hash in self._objects

    def size(self, hash: Multihash) -> int | None:
        return len(self._objects[hash]) if hash in self._objects else None

    def path(self, hash: Multihash) -> Path:
        if self._scratch is None:
            raise MissingObjectError(hash, "the file system: it is kept in memory")
        place = self._scratch / str(hash)
        place.write_bytes(self.get(hash))
        return place

    def bring(self, hashes: Collection[Multihash]) -> None:
        pass

    def stored(self, hash: Multihash, size: int) -> StoredFile | None:  # noqa: ARG002
        return None

    def renew(self, hash: Multihash) -> bool:  # noqa: ARG002
        return False

    def list(self) -> Iterator[Multihash]:
        yield from tuple(self._objects)

    def entries(self) -> Iterator[ObjectEntry]:
        for hash, data in tuple(self._objects.items()):
            yield ObjectEntry(hash, len(data), self._touched[hash])

    def remove(self, hashes: Sequence[Multihash]) -> None:
        for hash in hashes:
            self._objects.pop(hash, None)


def hash_file(path: Path, code: int = Multicodec.SHA3_256) -> Multihash:
    """Return the physical hash of a file, by default sha3-256."""
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, _algorithm(code)).digest()
    return Multihash(int(code), digest)


def hash_files(files: Sequence[tuple[Multihash, Path]]) -> Iterator[Multihash]:
    """Yield what files hash to, each in the way of the hash beside it, several at a time."""
    if len(files) < 2:
        yield from (hash_file(path, hash.code) for hash, path in files)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as threads:
        yield from threads.map(lambda file: hash_file(file[1], file[0].code), files)


def _algorithm(code: int) -> str:
    return "sha256" if code == Multicodec.SHA2_256 else "sha3_256"


def check_bytes(name: Multihash, data: bytes, place: str) -> None:
    """Raise CorruptObjectError if bytes do not hash to their name."""
    digest = _HASHES[_algorithm(name.code)](data).digest()
    if digest != name.digest:
        raise CorruptObjectError(name, Multihash(name.code, digest), place)


def checked_pieces(name: Multihash, pieces: Iterator[bytes], place: str) -> Iterator[bytes]:
    """Yield bytes, and raise CorruptObjectError after the last if they do not hash to the name."""
    digest = _HASHES[_algorithm(name.code)]()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if digest.digest() != name.digest:
        raise CorruptObjectError(name, Multihash(name.code, digest.digest()), place)


def as_hash(text: str) -> Multihash | None:
    """Return the hash that an object is named by; None of any other name."""
    if not text.startswith("f"):
        return None
    try:
        return Multihash.parse(text)
    except InvalidMultihashError:
        return None
