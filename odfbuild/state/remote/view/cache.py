"""A cache of objects of one process that reads for long: it never exceeds its limit.

    <cache folder of the user>/served/<digest of the store>/<number>/    laid out as objects/

The process has its folder alone, so it may take away any file that nobody reads just now: such are
pinned.  Others on this machine take another number.
"""

import fcntl
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Final

from odfbuild.errors import StateError
from odfbuild.odf.identity import Multihash
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.errors import BrokenSourceError

_FOLDERS: Final = 1_000  # of one store on a machine


class CacheFullError(StateError):
    """Files that are to be read at once do not fit into the cache."""

    code = "cache-full"


class PinnedCache(ObjectCache):
    """The cache in a folder of this process; what is pinned stays."""

    def __init__(self, folder: Path, limit: int) -> None:
        super().__init__(folder, limit)
        self._guard = RLock()
        self._pins: Counter[str] = Counter()
        self._promised: dict[str, int] = {}
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0

    @classmethod
    def taken(cls, base: Path, place: str, limit: int) -> "PinnedCache":
        """Return the cache of this process for a store, in the first folder that nobody has."""
        within = base / "served" / sha256(place.encode()).hexdigest()[:32]
        for number in range(_FOLDERS):
            found = cls(within / str(number), limit)
            if found._take():
                return found
        raise CacheFullError(
            what=f"{within} has {_FOLDERS:,} caches that are in use",
            why="each server has one of its own",
            fix="end servers of this workspace on this machine",
        )

    def _take(self) -> bool:
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        opened = os.open(self._folder / "lock", flags, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            return False
        self._lock = opened
        for _, size, path in sorted(self._uses()):
            if path.name.startswith("."):  # a file that was never in its place
                path.unlink(missing_ok=True)
            else:
                self._sizes[path.name] = size
                self._total += size
        self._shrink(None)
        return True

    @property
    def folder(self) -> Path:
        """Return where the objects are."""
        return self._folder

    @contextmanager
    def pinned(self, files: Mapping[Multihash, int]) -> Iterator[None]:
        """Keep files of known sizes, be they here or brought meanwhile.

        Raises CacheFullError where they and other pinned ones exceed the limit.
        """
        names = {str(hash): size for hash, size in files.items()}
        with self._guard:
            more = sum(size for name, size in names.items() if not self._pins[name])
            kept = sum(self._promised.values())
            if kept + more > self._limit:
                raise CacheFullError(
                    what=f"files of {more:,} bytes do not fit into the cache of {self._limit:,} "
                    f"bytes, of which {kept:,} are being read",
                    why="files in a store are read from a cache on this machine",
                    fix="try again later, read less at once, or set ODFBUILD_CACHE_SIZE",
                )
            for name, size in names.items():
                self._pins[name] += 1
                self._promised[name] = size
            self._shrink(None)
        try:
            yield
        finally:
            with self._guard:
                for name in names:
                    self._pins[name] -= 1
                    if not self._pins[name]:
                        del self._pins[name], self._promised[name]
                self._shrink(None)

    def bring(self, hash: Multihash, pieces: Iterable[bytes], place: str) -> Path:
        most = self._promised.get(str(hash), self._limit)
        return super().bring(hash, _at_most(most, pieces, hash, place), place)

    def drop(self, hash: Multihash) -> None:
        with self._guard:
            super().drop(hash)
            self._total -= self._sizes.pop(str(hash), 0)

    def tidy(self) -> int:
        return 0

    def _begin(self) -> None:
        """The folder was taken at the start."""

    def _note_use(self, hash: Multihash) -> None:
        super()._note_use(hash)
        name = str(hash)
        with self._guard, suppress(FileNotFoundError):
            size = self.place(hash).stat().st_size
            self._total += size - self._sizes.pop(name, 0)
            self._sizes[name] = size
            self._shrink(name)

    def _shrink(self, kept: str | None) -> None:
        """Take away what was not used for longest, until there is room for what is pinned."""
        awaited = sum(size for name, size in self._promised.items() if name not in self._sizes)
        if self._total + awaited <= self._limit:
            return
        for name in [each for each in self._sizes if each != kept and not self._pins[each]]:
            size = self._sizes.pop(name)
            (self._files / name[-2:] / name).unlink(missing_ok=True)
            (self._used / name).unlink(missing_ok=True)
            self._total -= size
            if self._total + awaited <= self._limit:
                return


class ReadyObjects(ObjectCache):
    """The objects in the cache of another process, which keeps them while this one reads them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0)

    def put_block(self, hash: Multihash, data: bytes) -> None:
        """Leave the cache as it is."""

    def drop(self, hash: Multihash) -> None:
        """Leave the cache as it is."""

    def _begin(self) -> None:
        """The other process has it."""

    def _note_use(self, hash: Multihash) -> None:
        """The other process knows."""


def _at_most(most: int, pieces: Iterable[bytes], hash: Multihash, place: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise BrokenSourceError(
                what=f"{hash} in {place} has more than {most:,} bytes",
                why="its chain, or the store itself, says that it has fewer, or it exceeds the "
                "cache",
                fix="verify the dataset: odfbuild verify",
            )
        yield piece
