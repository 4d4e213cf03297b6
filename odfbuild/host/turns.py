"""Turns: of several threads that do the same, one does it at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Turns:
    """A lock for each key that somebody has, or waits for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken: dict[str, tuple[Lock, int]] = {}

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Have the turn of a key, waiting for it."""
        with self._lock:
            lock, count = self._taken.get(key) or (Lock(), 0)
            self._taken[key] = lock, count + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                count = self._taken.pop(key)[1] - 1
                if count:
                    self._taken[key] = lock, count
