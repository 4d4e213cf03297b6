"""A client of a store for many readers: what changes there is asked for once in a while.

Heads, names, leases, attestations and lists of these are at most `age` seconds old, and each is
asked for by one reader at a time, with the ETag that it had.  What is written by this process is
seen at once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from odfbuild.host.turns import Turns
from odfbuild.state.remote.client import (
    UNCHANGED,
    CountBytes,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
)
from odfbuild.state.remote.view.outage import Outage
from odfbuild.values import dataclass

NAMES: Final = "names/"
LEASES: Final = "leases/"
PRIVATE: Final = "private/"
RUNS: Final = "runs/"
_LISTS: Final = (NAMES, LEASES, PRIVATE, RUNS)
_PARTS: Final = ("/refs/", "/attestations/")
_OBJECTS: Final = ("/blocks/", "/data/", "/checkpoints/")
_KEPT: Final = 600.0  # seconds for which an object, which never changes, counts as being there
_MOST: Final = 100_000  # what is remembered; that which was not used for longest goes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Noted(Generic[T]):
    value: T
    at: float


class _Notes(Generic[T]):
    """What was seen, by key: that which was not used for longest goes."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, _Noted[T]] = OrderedDict()
        self._lock = Lock()
        self._writes = 0

    def get(self, key: str) -> _Noted[T] | None:
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    @property
    def writes(self) -> int:
        return self._writes

    def put(self, key: str, value: T, at: float, writes: int) -> None:
        """Note what was seen, unless something was written since `writes` were."""
        with self._lock:
            if writes == self._writes:
                self._found[key] = _Noted(value, at)
                self._found.move_to_end(key)
                while len(self._found) > _MOST:
                    self._found.popitem(last=False)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        with self._lock:
            self._writes += 1
            for key in [each for each in self._found if is_meant(each)]:
                del self._found[key]

    def forget_key(self, key: str) -> None:
        with self._lock:
            self._writes += 1
            self._found.pop(key, None)


@dataclass(frozen=True, slots=True)
class SeenObjects:
    """What the clients of one process have seen of a store."""

    objects: _Notes[TaggedBytes | None] = field(default_factory=_Notes)
    facts: _Notes[StoredObject | None] = field(default_factory=_Notes)
    lists: _Notes[tuple[StoredObject, ...]] = field(default_factory=_Notes)
    below: _Notes[tuple[str, ...]] = field(default_factory=_Notes)

    def forget(self, key: str) -> None:
        """Forget an object, and lists that may have it."""
        self.objects.forget_key(key)
        self.facts.forget_key(key)
        self.lists.forget(key.startswith)
        self.below.forget(key.startswith)


class StoreView(ObjectClient):
    """A client that tells what was seen at most `age` seconds ago; with 0 it always asks."""

    def __init__(
        self,
        of: ObjectClient,
        outage: Outage,
        seen: SeenObjects,
        *,
        age: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._of = of
        self._outage = outage
        self._seen = seen
        self._age = age
        self._clock = clock
        self._turns = Turns()
        self._named_at = 0.0
        self.place = of.place
        self.store = of.store

    # reading

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        def ask(before: TaggedBytes | None) -> TaggedBytes | None:
            found = self._of.look(key, most, None if before is None else before.tag)
            return before if isinstance(found, Unchanged) else found

        found = self._recent(self._seen.objects, key, ask)
        if found is not None and found.tag is not None and found.tag == known:
            return UNCHANGED
        return found

    def get(self, key: str, most: int) -> bytes | None:
        if not key.startswith((LEASES, PRIVATE)) and not any(part in key for part in _PARTS):
            with self._outage.asking():
                return self._of.get(key, most)
        found = self.look(key, most, None)
        return found.data if isinstance(found, TaggedBytes) else None

    def facts(self, key: str) -> StoredObject | None:
        found = self._seen.facts.get(key)
        if self._age and found is not None and found.value is not None:
            is_object = any(part in key for part in _OBJECTS)
            if is_object and found.at >= self._clock() - _KEPT:
                return found.value
        return self._recent(self._seen.facts, key, lambda _: self._of.facts(key))

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        if prefix not in _LISTS and not prefix.endswith(_PARTS):
            return self._asked_each(self._of.listed(prefix))
        least = self._named_at if prefix == PRIVATE else 0.0
        found = self._recent(
            self._seen.lists, prefix, lambda _: tuple(self._of.listed(prefix)), least
        )
        return iter(found)

    def _asked_each(self, found: Iterator[StoredObject]) -> Iterator[StoredObject]:
        with self._outage.asking():
            yield from found

    def below(self, prefix: str) -> list[str]:
        return [*self._recent(self._seen.below, prefix, lambda _: tuple(self._of.below(prefix)))]

    @contextmanager
    def open(self, key: str, start: int) -> Iterator[Iterator[bytes]]:
        with self._outage.asking(), self._of.open(key, start) as pieces:
            yield pieces

    def _recent(
        self, notes: "_Notes[T]", key: str, ask: Callable[[T | None], T], least: float = 0.0
    ) -> T:
        """Return what was seen of a key, and not before `least`; ask where it is too old."""

        def is_recent(found: _Noted[T] | None) -> bool:
            return found is not None and found.at >= max(least, self._clock() - self._age)

        found = notes.get(key)
        if self._age and found is not None and is_recent(found):
            return found.value
        with self._turns.of(key):
            found = notes.get(key)
            if self._age and found is not None and is_recent(found):
                return found.value
            at, writes = self._clock(), notes.writes
            with self._outage.asking():
                value = ask(None if found is None else found.value)
            if key.startswith(NAMES):
                self._named_at = self._clock()
            notes.put(key, value, at, writes)
            return value

    # writing

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        with self._changing(key):
            return self._of.put(key, data, mode)

    def put_file(
        self, key: str, path: Path, moved: CountBytes = lambda _: None, *, overwrite: bool = False
    ) -> bool:
        with self._changing(key):
            return self._of.put_file(key, path, moved, overwrite=overwrite)

    def copy(self, url: str, key: str) -> bool:
        with self._changing(key):
            return self._of.copy(url, key)

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> bytes | None:
        with self._changing(key):
            return self._of.swap(key, may, new)

    def delete(self, key: str) -> None:
        with self._changing(key):
            self._of.delete(key)

    @contextmanager
    def _changing(self, key: str) -> Iterator[None]:
        try:
            with self._outage.asking():
                yield
        finally:
            self._seen.forget(key)
