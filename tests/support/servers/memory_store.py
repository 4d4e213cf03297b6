"""An object store in memory that keeps conditions, and one that fails at a request of choice."""

import hashlib
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odfbuild.errors import StateError
from odfbuild.state.chain.objects import as_hash, check_bytes
from odfbuild.state.remote.client import (
    UNCHANGED,
    CountBytes,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
)
from odfbuild.state.remote.errors import BrokenSourceError, UnreachableRepositoryError, missing_file

__all__ = ["Cut", "FailingClient", "InterruptedClient", "MemoryClient", "lost"]

TRIES = 5


@dataclass
class MemoryClient(ObjectClient):
    """Objects of one store; several clients may share its `objects`."""

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    place: str = "memory://store/"
    store: str = "memory://store"
    clock: Callable[[], float] = lambda: 1_000_000.0
    lock: threading.RLock = field(default_factory=threading.RLock)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def get(self, key: str, most: int) -> bytes | None:
        found = self.look(key, most, None)
        return found.data if isinstance(found, TaggedBytes) else None

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        self._ask("GET", key)
        with self.lock:
            found = self.objects.get(key)
        if found is None:
            return None
        if len(found[0]) > most:
            raise BrokenSourceError(
                what=f"{self.place}{key} has {len(found[0]):,} bytes",
                why=f"such an object has {most:,} at most",
                fix="ask the owner of that copy",
            )
        tag = _tag(found[0])
        return UNCHANGED if tag == known else TaggedBytes(found[0], tag)

    @contextmanager
    def open(self, key: str, start: int) -> Iterator[Iterator[bytes]]:
        data = self.get(key, 1 << 40)
        if data is None:
            raise missing_file(self.place, key)
        stream = io.BytesIO(data[start:])
        yield iter(lambda: stream.read(1 << 16), b"")

    def facts(self, key: str) -> StoredObject | None:
        self._ask("HEAD", key)
        with self.lock:
            found = self.objects.get(key)
        return None if found is None else StoredObject(key, len(found[0]), found[1], _tag(found[0]))

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        self._ask("PUT", key)
        with self.lock:
            found = self.objects.get(key)
            if mode == "create" and found is not None:
                raise FileExistsError(key)
            if isinstance(mode, dict) and (found is None or _tag(found[0]) != mode["e_tag"]):
                raise FileExistsError(key)
            self.objects[key] = data, self.clock()
        return _tag(data)

    def put_file(
        self, key: str, path: Path, moved: CountBytes = lambda _: None, *, overwrite: bool = False
    ) -> bool:
        data = path.read_bytes()
        named = as_hash(key.rpartition("/")[2])
        if named is not None:
            check_bytes(named, data, str(path))
        try:
            self.put(key, data, "overwrite" if overwrite else "create")
        except FileExistsError:
            return False
        moved(len(data))
        return True

    def copy(self, url: str, key: str) -> bool:
        self._ask("COPY", key)
        with self.lock:
            found = self.objects.get(url.removeprefix(self.place))
            if found is not None:
                self.objects[key] = found[0], self.clock()
        return found is not None

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> bytes | None:
        failed: UnreachableRepositoryError | None = None
        for _ in range(TRIES):
            found = self.look(key, 64 << 10, None)
            actual = found.data or None if isinstance(found, TaggedBytes) else None
            if actual == (new or None) or not may(actual):
                return actual
            try:
                tag = found.tag if isinstance(found, TaggedBytes) else None
                self.put(key, new, "create" if found is None else {"e_tag": tag})
            except FileExistsError:
                failed = None
            except UnreachableRepositoryError as error:
                failed = error
            else:
                return new or None
        raise failed or AssertionError(f"{key} could not be set")

    def delete(self, key: str) -> None:
        self._ask("DELETE", key)
        with self.lock:
            self.objects.pop(key, None)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        self._ask("LIST", prefix)
        with self.lock:
            found = sorted(self.objects.items())
        for key, (data, touched) in found:
            if key.startswith(prefix):
                yield StoredObject(key, len(data), touched, _tag(data))

    def below(self, prefix: str) -> list[str]:
        self._ask("LIST", prefix)
        with self.lock:
            keys = [key.removeprefix(prefix) for key in self.objects if key.startswith(prefix)]
        return sorted({key.partition("/")[0] for key in keys if "/" in key})

    def _ask(self, method: str, key: str) -> None:
        with self.lock:
            self.asked.append((method, key))


class Cut(Exception):
    """The machine stops at a request."""


def lost(key: str) -> StateError:
    return UnreachableRepositoryError(what=f"{key}: no answer", why="it was lost", fix="try again")


class FailingClient(MemoryClient):
    """Another client of a store, whose request of some number goes wrong.

    `how` is "before" or "after" (one request is not carried out, or its answer is lost), "stop"
    or "stopped" (the machine ends before or after it), or "taken" (a condition is said not to
    hold, though it does).
    """

    def __init__(self, of: MemoryClient, at: int, how: str) -> None:
        super().__init__(of.objects, of.place, of.store, of.clock, of.lock, of.asked)
        self.at = at
        self.how = how
        self.count = 0
        self.is_over = False

    def _goes_wrong(self) -> bool:
        with self.lock:
            if self.is_over:
                raise Cut
            self.count += 1
            return self.count - 1 == self.at

    def _now(self, key: str, *, conditional: bool = False) -> bool:
        """Tell whether an answer is to be lost; raise what goes wrong before."""
        if not self._goes_wrong():
            return False
        match self.how:
            case "before":
                raise lost(key)
            case "stop":
                self.is_over = True
                raise Cut
            case "taken" if conditional:
                raise FileExistsError(key)
            case "after" | "stopped":
                return True
        return False

    def _after(self, key: str) -> None:
        if self.how == "stopped":
            self.is_over = True
            raise Cut
        raise lost(key)

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        is_lost = self._now(key)
        found = super().look(key, most, known)
        if is_lost:
            self._after(key)
        return found

    def facts(self, key: str) -> StoredObject | None:
        is_lost = self._now(key)
        found = super().facts(key)
        if is_lost:
            self._after(key)
        return found

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        is_lost = self._now(key, conditional=mode != "overwrite")
        found = super().put(key, data, mode)
        if is_lost:
            self._after(key)
        return found

    def delete(self, key: str) -> None:
        is_lost = self._now(key)
        super().delete(key)
        if is_lost:
            self._after(key)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        is_lost = self._now(prefix)
        found = list(super().listed(prefix))
        if is_lost:
            self._after(prefix)
        return iter(found)

    def below(self, prefix: str) -> list[str]:
        is_lost = self._now(prefix)
        found = super().below(prefix)
        if is_lost:
            self._after(prefix)
        return found


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class InterruptedClient(MemoryClient):
    """A client in which something else happens before its n-th request."""

    def __init__(self, of: MemoryClient, at: int, then: Callable[[], None]) -> None:
        super().__init__(of.objects, of.place, of.store, of.clock, of.lock, [])
        self.at = at
        self.then: Callable[[], None] | None = then

    def _ask(self, method: str, key: str) -> None:
        super()._ask(method, key)
        if len(self.asked) - 1 == self.at and self.then is not None:
            then, self.then = self.then, None
            then()
