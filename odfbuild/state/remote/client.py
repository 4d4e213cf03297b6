"""Protocol of a client of object stores, and several requests at a time."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from odfbuild.values import dataclass

PARALLEL: Final = 64
_FEW: Final = 2

T = TypeVar("T")
R = TypeVar("R")
CountBytes: TypeAlias = Callable[[int], None]
"""Is called with the number of bytes that were moved since it was called last."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a store lists it; `touched` is when it was written, by the store's clock."""

    key: str
    size: int
    touched: float
    tag: str | None

    def was_written_since(self, listed: "StoredObject") -> bool:
        """Tell whether an object was written again after it was listed.

        The clock of the store may have been set back meanwhile.  A list may give parts of seconds
        where the metadata of an object gives full ones.
        """
        return self.touched > listed.touched or self.touched < listed.touched - 1


@dataclass(frozen=True, slots=True)
class TaggedBytes:
    """What an object holds, and its ETag."""

    data: bytes
    tag: str | None


ListObjects: TypeAlias = Callable[[str], Iterator[StoredObject]]
"""Yields the objects below a prefix that ends with a slash."""


class Unchanged:
    """An object is what it was when its ETag was seen."""


UNCHANGED: Final = Unchanged()


class ObjectClient(Protocol):
    """Objects below a prefix of a store, by their keys."""

    place: str
    store: str

    def get(self, key: str, most: int) -> bytes | None:
        """Return an object of at most so many bytes, None if there is none."""

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        """Return an object and its ETag, None if there is none; UNCHANGED if it is the known."""

    def open(self, key: str, start: int) -> AbstractContextManager[Iterator[bytes]]:
        """Open an object from a byte on, in pieces; raises BrokenSourceError if there is none."""

    def facts(self, key: str) -> StoredObject | None:
        """Return what a store says of an object, None if there is none."""

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        """Have an object, and return its ETag; mode is "create", or {"e_tag": ...} of the one that
        is replaced.

        Raises FileExistsError when the condition does not hold, or may not have held.
        """

    def put_file(
        self, key: str, path: Path, moved: CountBytes = lambda _: None, *, overwrite: bool = False
    ) -> bool:
        """Have an object that is named by its hash; tell whether it was written now.

        One that is there has the same bytes; with `overwrite` it is written all the same.  Raises
        CorruptObjectError of a file with other bytes than its name says, and nothing is written.
        """

    def copy(self, url: str, key: str) -> bool:
        """Have what another object is; tell whether the store made the copy by itself.

        It does within one bucket, up to a size of its own.
        """

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> bytes | None:
        """Replace a small object if what it holds `may` be replaced; return what it holds then.

        An object of no byte is as none.  What is returned is `new` if it was set: by this request,
        whose first answer may have been lost, or by another who set the same.
        """

    def delete(self, key: str) -> None:
        """Take an object away, if there is one."""

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a prefix that ends with a slash."""

    def below(self, prefix: str) -> list[str]:
        """Return the names right below a prefix that have something below them."""


def side_by_side(
    items: Collection[T], work: Callable[[T], R], *, parallel: int = PARALLEL
) -> Sequence[R]:
    """Return what the work makes of each item, in their order, several at a time.

    The caller works too.  All calls of a process, also those that a work makes, share `PARALLEL`
    threads: a call takes those that are free, also while it goes on.  What one raises ends all; of
    several errors that of the first item is raised.
    """
    if len(items) < _FEW:
        return [work(each) for each in items]
    return _SideBySide(tuple(items), work, parallel).run()


_FREE: Final = BoundedSemaphore(PARALLEL - 1)  # threads beside the one that calls


class _SideBySide(Generic[T, R]):
    """The items of one call, each taken by the thread that is free first."""

    def __init__(self, items: Sequence[T], work: Callable[[T], R], parallel: int) -> None:
        self._items = items
        self._work = work
        self._parallel = parallel
        self._next = 0
        self._done: dict[int, R] = {}
        self._failed: dict[int, BaseException] = {}
        self._lock = Lock()
        self._helpers: list[Thread] = []

    def run(self) -> Sequence[R]:
        try:
            while (index := self._taken()) is not None:
                self._call_help()
                self._do(index)
        finally:
            with self._lock:
                self._next = len(self._items)
            for each in self._helpers:
                each.join()
        if self._failed:
            raise self._failed[min(self._failed)]
        return [self._done[index] for index in range(len(self._items))]

    def _call_help(self) -> None:
        """Start as many threads as are free, and have something to do."""
        while self._next < len(self._items) and len(self._helpers) < self._parallel - 1:
            if not _FREE.acquire(blocking=False):
                return
            helper = Thread(target=self._help, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system gives no more
                _FREE.release()
                return
            self._helpers.append(helper)

    def _help(self) -> None:
        try:
            while (index := self._taken()) is not None:
                self._do(index)
        finally:
            _FREE.release()

    def _taken(self) -> int | None:
        with self._lock:
            index = self._next
            if self._failed or index >= len(self._items):
                return None
            self._next += 1
            return index

    def _do(self, index: int) -> None:
        try:
            self._done[index] = self._work(self._items[index])
        except BaseException as error:
            self._failed[index] = error
