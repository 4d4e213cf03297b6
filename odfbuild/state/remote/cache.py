"""Objects that were brought from stores: one folder of a user, shared by all workspaces.

    <cache folder of the user>/objects/
        files/<last two digits>/<hash>     data slices and checkpoints
        used/<hash>                        an empty file, touched when the other one was asked for
        blocks/<last two digits>/<hash>    blocks of chains: small, and kept
        lock                               held in common by all processes that use the cache

A file is checked against its hash before it gets its name, a block also whenever it is read.  Once
there are more bytes than the limit, files that were not used for longest go: any where no other
process uses the cache, else those that were not used for a day.  All of it may be deleted while
nobody works.
"""

import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.errors import StateError
from odfbuild.host.files import open_regular
from odfbuild.host.turns import Turns
from odfbuild.host.user_folders import cache_folder
from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.state.chain.objects import CorruptObjectError, check_bytes
from odfbuild.state.files.disk import pending, read_file

LIMIT_VARIABLE: Final = "ODFBUILD_CACHE_SIZE"
_DEFAULT_LIMIT: Final = "20g"
_SIZE: Final = re.compile(r"([0-9]{1,12})([kmgt]?)", re.IGNORECASE | re.ASCII)
_DAY: Final = 86_400.0
_PART_LEFT: Final = 0.9  # of the limit, once files had to go


class CacheSizeError(StateError):
    """The limit of the cache is not a number of bytes."""

    code = "cache-size"


class ObjectCache:
    """Objects by hash in a folder, which is made with the first of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._files = folder / "files"
        self._used = folder / "used"
        self._blocks = folder / "blocks"
        self._limit = limit
        self._mine = Lock()
        self._turns = Turns()
        self._lock: int | None = None

    # blocks

    def block(self, hash: Multihash) -> bytes | None:
        """Return a block, None if there is none whose bytes are right."""
        path = _place(self._blocks, hash)
        with suppress(OSError, CorruptObjectError):
            data = read_file(path)
            if data is not None:
                check_bytes(hash, data, str(path))
                return data
        return None

    def put_block(self, hash: Multihash, data: bytes) -> None:
        """Keep a block that was checked; where nothing can be written none is kept."""
        path = _place(self._blocks, hash)
        with suppress(OSError):
            self._begin()
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            draft = pending(path.parent)
            draft.write_bytes(data)
            draft.replace(path)

    # files

    def turn(self, hash: Multihash) -> AbstractContextManager[None]:
        """Let one thread of this process bring a file, for which others wait."""
        return self._turns.of(str(hash))

    def place(self, hash: Multihash) -> Path:
        """Return where a file is, or would be."""
        return _place(self._files, hash)

    def nowhere(self, hash: Multihash) -> Path:
        """Return where no file ever is."""
        return self._folder / "nowhere" / str(hash)

    def find(self, hash: Multihash) -> Path | None:
        """Return a file, and note that it is used; None if it is not here."""
        path = self.place(hash)
        if not path.is_file() or path.is_symlink():
            return None
        self._begin()
        self._note_use(hash)
        return path

    def move_in(self, hash: Multihash, source: Path) -> Path:
        """Take a file that was checked away from its place, and return where it is now."""
        self._begin()
        path = self.place(hash)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        try:
            source.replace(path)
        except OSError:  # it lies on another disk
            with open_regular(source) as file:
                self.bring(hash, iter(lambda: file.read(1 << 20), b""), str(source))
            source.unlink()
        self._note_use(hash)
        return path

    def bring(self, hash: Multihash, pieces: Iterable[bytes], place: str) -> Path:
        """Write a file, check it, and return where it is.

        Raises CorruptObjectError of bytes, which came from a place, that do not hash to its name.
        """
        self._begin()
        path = self.place(hash)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        draft = pending(path.parent)
        sum = hashlib.sha256() if hash.code == Multicodec.SHA2_256 else hashlib.sha3_256()
        try:
            with draft.open("xb") as file:
                for piece in pieces:
                    sum.update(piece)
                    file.write(piece)
            if sum.digest() != hash.digest:
                raise CorruptObjectError(hash, Multihash(hash.code, sum.digest()), place)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._note_use(hash)
        return path

    def drop(self, hash: Multihash) -> None:
        """Take a file away whose bytes are wrong."""
        self.place(hash).unlink(missing_ok=True)

    def _note_use(self, hash: Multihash) -> None:
        with suppress(OSError):
            self._used.mkdir(0o700, exist_ok=True)
            (self._used / str(hash)).touch()

    # bounds

    def _begin(self) -> None:
        """Say that this process uses the cache, having made room if there is too much in it."""
        with self._mine:
            if self._lock is not None:
                return
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(self._folder / "lock", flags, 0o600)
            self._tidy(self._lock)

    def tidy(self) -> int:
        """Take away what is over the limit, and return how many bytes that were.

        It is for a process that has asked for no file yet.
        """
        with self._mine:
            if self._lock is None and self._folder.is_dir():
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._lock = os.open(self._folder / "lock", flags, 0o600)
            return 0 if self._lock is None else self._tidy(self._lock)

    def close(self) -> None:
        """Let go of the cache: files that were asked for may go."""
        with self._mine:
            if self._lock is not None:
                os.close(self._lock)
            self._lock = None

    def _tidy(self, lock: int) -> int:
        alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        try:
            return self._evict(time.time() + _DAY if alone else time.time() - _DAY)
        finally:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def _evict(self, before: float) -> int:
        """Delete files that were used last before a time, until there are few enough bytes."""
        found = sorted(self._uses())
        total = sum(size for _, size, _ in found)
        if total <= self._limit:
            return 0
        freed = 0
        for used, size, path in found:
            if total - freed <= self._limit * _PART_LEFT:
                break
            if used < before:
                with suppress(OSError):
                    path.unlink()
                    (self._used / path.name).unlink(missing_ok=True)
                    freed += size
        return freed

    def _uses(self) -> Iterable[tuple[float, int, Path]]:
        with suppress(FileNotFoundError):
            for folder in self._files.iterdir():
                for path in folder.iterdir():
                    with suppress(FileNotFoundError):
                        status = path.lstat()
                        used = status.st_mtime
                        with suppress(FileNotFoundError):
                            used = (self._used / path.name).lstat().st_mtime
                        yield used, status.st_size, path


def user_cache(env: Mapping[str, str] = os.environ) -> ObjectCache:
    """Return the cache of the user; for one without a home it is among the temporary files.

    Raises CacheSizeError.
    """
    return ObjectCache(cache_base(env) / "objects", cache_limit(env))


def cache_base(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user for caches of objects."""
    return cache_folder(env) or Path(tempfile.gettempdir()) / f"odfbuild-cache-{os.getuid()}"


def cache_limit(env: Mapping[str, str] = os.environ) -> int:
    """Return how many bytes of files a cache has at most.  Raises CacheSizeError."""
    return _limit(env.get(LIMIT_VARIABLE) or _DEFAULT_LIMIT)


def _limit(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise CacheSizeError(
            what=f"{LIMIT_VARIABLE}={text} is not a number of bytes",
            why="it limits the cache of object stores on this machine",
            fix=f"write it like 500m or {_DEFAULT_LIMIT}, or unset it",
        )
    return int(found[1]) << (10 * " kmgt".index(found[2].lower() or " "))


def _place(folder: Path, hash: Multihash) -> Path:
    name = str(hash)
    return folder / name[-2:] / name
