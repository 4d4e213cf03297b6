"""Outages of a store: after a few failures requests fail at once for a while, and are not sent.

So who reads does not wait for a store that does not answer, and threads are free.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from odfbuild.state.remote.errors import (
    RefusedByRepositoryError,
    TransferError,
    UnreachableRepositoryError,
)
from odfbuild.state.remote.store.bucket import MissingBucketError

_FAILURES: Final = 3  # one after the other, before requests fail at once
_PAUSE: Final = 2.0  # seconds, after which one request is sent again


class StoreAwayError(TransferError):
    """The store of a workspace does not answer, and is not asked for a moment."""

    code = "store-away"

    def __init__(self) -> None:
        super().__init__(
            what="the store of the workspace does not answer",
            why="requests to it failed a moment ago, so that it is not asked again at once",
            fix="try again later",
        )


OUTAGES: Final = (
    StoreAwayError,
    UnreachableRepositoryError,
    RefusedByRepositoryError,
    MissingBucketError,
)
"""Errors of a store that are of no single object."""


def is_outage(error: BaseException | None) -> bool:
    """Tell whether an error is of the store, and not of one dataset."""
    return isinstance(error, OUTAGES)


class Outage:
    """What is known of the failures of one store, by all who ask it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._failures = 0
        self._next = 0.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Send a request within; raises StoreAwayError where none is sent now."""
        self._begin()
        try:
            yield
        except UnreachableRepositoryError:
            with self._lock:
                self._failures += 1
                self._next = self._clock() + _PAUSE
            raise
        except (RefusedByRepositoryError, MissingBucketError, FileExistsError):
            self._end()  # it answered
            raise
        self._end()

    def _begin(self) -> None:
        with self._lock:
            if self._failures < _FAILURES:
                return
            if self._clock() < self._next:
                raise StoreAwayError
            self._next = self._clock() + _PAUSE  # others wait for what becomes of this one

    def _end(self) -> None:
        with self._lock:
            self._failures = 0
