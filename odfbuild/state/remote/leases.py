"""Leases in an object store: who works on what, so that others wait instead of doing the same work.

    leases/<name>      who has it, since when, and a mark that each renewal changes

A lease is created, renewed every third of its period, and stolen once the store's clock says that
it was not renewed for two periods: clocks of machines do not matter.  Nothing rests on it but time.
That of a process of this machine that has ended is known by the lock that both had there, and is
not waited for.  One that was renewed at a time which is still to come, as the store's clock was set
back, is written again by who finds it, so that two periods count from then.  An object that is no
note of ours is a lease of nobody in particular.
"""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import eq
from typing import Final

from odfbuild.errors import StateError
from odfbuild.host.json_text import parse_json
from odfbuild.state.lease import LOCK
from odfbuild.state.remote.client import ObjectClient, StoredObject, TaggedBytes, side_by_side
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.values import dataclass

PREFIX: Final = "leases/"
PERIOD: Final = 60.0  # seconds
CLOCK: Final = "leases/.clock"
LARGEST: Final = 4_096  # bytes
_INACCURACY: Final = 5.0  # seconds by which the times of two objects of a store may be wrong


@dataclass(frozen=True, slots=True)
class LeaseNote:
    """Who has a lease, as they wrote it, and how many seconds ago they renewed it.

    That is negative if the clock of the store was set back since.
    """

    name: str
    holder: Mapping[str, object]
    age: float

    @property
    def is_stale(self) -> bool:
        return self.age > 2 * PERIOD

    @property
    def is_of_later(self) -> bool:
        """Tell whether it was renewed at a time that is still to come."""
        return self.age < -_INACCURACY

    def has_ended(self, successor: Mapping[str, object]) -> bool:
        """Tell whether who has it has ended, as somebody else has its `LOCK` now."""
        lock = successor.get(LOCK)
        return lock is not None and self.holder.get(LOCK) == lock

    @property
    def renewed(self) -> str:
        """Return when it was renewed, in words."""
        if self.is_of_later:
            return f"before the clock of the store was set back by {-self.age:.0f} s or more"
        return f"{max(0.0, self.age):.0f} s ago"


def now_of(client: ObjectClient, key: str = CLOCK) -> float:
    """Return the time by the clock of a store, in seconds since 1970; needs leave to write.

    That is when the object `key` was written, which is written now.
    """
    client.put(key, b"")
    found = client.facts(key)
    if found is None:
        raise StateError(
            what=f"{client.place}{key} was written, but does not exist",
            why="the clock of a store is read from the metadata of an object",
            fix="try again; if it persists, the store is not reliable",
        )
    return found.touched


class BucketLeases:
    """The leases of a workspace; those of this process are renewed by a thread until released."""

    def __init__(
        self,
        client: ObjectClient,
        *,
        period: float = PERIOD,
        pause: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._client = client
        self._period = period
        self._pause = pause
        self._mine: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, name: str, holder: Mapping[str, object]) -> bool:
        """Take a lease, or one that nobody renews; tell whether it is ours now.

        With `LOCK` in `holder` the caller has that lock: another one with it has ended.
        """
        data = _note(holder)
        key = PREFIX + name

        if not self._set(key, None, data):
            seen = self._text(key)
            note = self.note(name)
            ended = note is not None and note.has_ended(holder)
            if note is not None and note.is_of_later and not ended:
                self.write_again(name)
            if note is None or seen is None or not (note.is_stale or ended):
                return False
            if len(seen) > LARGEST:
                self._client.put(key, b"")
            if not self._set(key, seen, data):
                return False
        with self._lock:
            self._mine[name] = data
            if self._thread is None:
                self._over.clear()
                self._thread = threading.Thread(target=self._renew_all, daemon=True)
                self._thread.start()
        return True

    def note(self, name: str) -> LeaseNote | None:
        """Return who has a lease; None if nobody does."""
        key = PREFIX + name
        facts = self._client.facts(key)
        data = None if facts is None or not facts.size else self._text(key)
        if facts is None or not data:
            return None
        return LeaseNote(name, _holder(data), now_of(self._client) - facts.touched)

    def notes(self) -> tuple[LeaseNote, ...]:
        """Return all leases that there are, be they renewed or not."""
        there = [e for e in self._client.listed(PREFIX) if e.size and e.key != CLOCK]
        if not there:
            return ()
        now = now_of(self._client)

        def note(of: StoredObject) -> LeaseNote | None:
            data = self._text(of.key)
            name, age = of.key.removeprefix(PREFIX), now - of.touched
            return LeaseNote(name, _holder(data), age) if data else None

        return tuple(each for each in side_by_side(there, note) if each is not None)

    def held(self) -> Mapping[str, float]:
        """Return the names of all leases, and when each was renewed by the clock of the store.

        Some may be stale: to find that out, one has to write to the store.
        """
        found = (e for e in self._client.listed(PREFIX) if e.size and e.key != CLOCK)
        return {each.key.removeprefix(PREFIX): each.touched for each in found}

    def holds(self, name: str) -> bool:
        """Tell whether a lease is still ours; who was stopped for long has lost it."""
        with self._lock:
            data = self._mine.get(name)
        return data is not None and self._client.get(PREFIX + name, LARGEST) == data

    def say(self, holder: Mapping[str, object], *names: str) -> None:
        """Write another note into leases of ours, which keep their `LOCK`."""
        side_by_side(names, lambda name: self._say(name, holder))

    def _say(self, name: str, holder: Mapping[str, object]) -> None:
        with self._lock:
            before = _holder(self._mine.get(name, b""))
        kept = {LOCK: before[LOCK]} if LOCK in before else {}
        self._replace(name, _note({**holder, **kept}))

    def release(self, *names: str) -> None:
        """Let go of leases."""
        side_by_side(names, self._release)
        with self._lock:
            if not self._mine and self._thread is not None:
                self._over.set()
                self._thread = None

    def _release(self, name: str) -> None:
        with self._lock:
            data = self._mine.pop(name, None)
        if data is not None:
            with suppress(StateError):  # it is stale in a while
                self._client.swap(PREFIX + name, partial(eq, data), b"")

    def free(self, name: str) -> bool:
        """Take a lease away, whoever has it; tell whether there was one."""
        found = self._text(PREFIX + name)
        if not found:
            return False
        if len(found) > LARGEST:
            self._client.put(PREFIX + name, b"")
            return True
        return self._client.swap(PREFIX + name, lambda now: now == found, b"") is None

    def write_again(self, name: str) -> None:
        """Have a lease count from now, unless its holder renews it meanwhile."""
        key = PREFIX + name
        try:
            found = self._client.look(key, LARGEST, None)
        except BrokenSourceError:
            self._client.put(key, _note({}))
            return
        if isinstance(found, TaggedBytes) and found.data and found.tag is not None:
            with suppress(FileExistsError):
                self._client.put(key, found.data, {"e_tag": found.tag})

    def _text(self, key: str) -> bytes | None:
        """Return what a lease holds, None if there is none; of a larger object, a longer text."""
        try:
            return self._client.get(key, LARGEST)
        except BrokenSourceError:
            return b" " * (LARGEST + 1)

    def _set(self, key: str, seen: bytes | None, data: bytes) -> bool:
        """Set a lease that is free, or that is as it was seen; tell whether it is ours now."""
        try:
            return self._client.swap(key, lambda found: found in (None, seen), data) == data
        except BrokenSourceError:
            return False

    def _renew_all(self) -> None:
        over = self._over
        while not self._pause(over, self._period / 3):
            with self._lock:
                mine = dict(self._mine)
            side_by_side(mine.items(), self._renew)

    def _renew(self, lease: tuple[str, bytes]) -> None:
        name, data = lease
        with suppress(StateError):  # the next one may get through
            self._replace(name, _note(_holder(data)))

    def _replace(self, name: str, new: bytes) -> None:
        with self._lock:
            old = self._mine.get(name)
        if old is None:
            return
        if self._client.swap(PREFIX + name, lambda found: found == old, new) == new:
            with self._lock:
                if self._mine.get(name) == old:
                    self._mine[name] = new


def _note(holder: Mapping[str, object]) -> bytes:
    given = {name: value for name, value in holder.items() if name != "mark"}
    return json.dumps({**given, "mark": secrets.token_hex(8)}).encode()


def _holder(data: bytes) -> Mapping[str, object]:
    with suppress(ValueError):
        found = parse_json(data)
        if isinstance(found, dict):
            return found
    return {}
