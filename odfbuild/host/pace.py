"""Minimum pace of others: the rate at which they have to send, and the time to send anything."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

LEAST_RATE: Final = 1 << 10  # bytes a second
WINDOW: Final = 60.0  # seconds over which it is measured


class SlowError(TimeoutError):
    """Less came in a window than the least rate gives."""


class Deadline:
    """A time within which something awaited has to come, or all of it is given up.

    `start` begins to wait, `rest` says that it came; both may be called again and again.  What
    comes byte by byte keeps every limit of silence, and may never be the beginning of an answer, or
    a piece of its body.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds = seconds
        self._give_up = give_up
        self._since: float | None = None
        self._answers = 0
        self._ended = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_over(self) -> bool:
        """Tell whether it was given up."""
        return self._over.is_set()

    @property
    def reason(self) -> str:
        """Return why it was given up, for messages."""
        due = "its answer did not begin" if self._answers == 0 else "no piece of its answer came"
        return f"{due} in {self.seconds:g} seconds"

    def start(self) -> None:
        """Begin to wait."""
        self._since = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def rest(self) -> None:
        """Wait for nothing: it came, and what is done with it has all the time that it needs."""
        self._since = None
        self._answers += 1

    def cancel(self) -> None:
        """End: all came, or it failed."""
        self._ended.set()

    def _watch(self) -> None:
        left = self.seconds
        while not self._ended.wait(left):
            since = self._since
            left = self.seconds if since is None else since + self.seconds - time.monotonic()
            if left <= 0:
                self._over.set()
                self._give_up()
                return


class Pace:
    """How much came in how much time of waiting."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._waited, self._came = 0.0, 0

    def count(self, seconds: float, size: int) -> None:
        """Note bytes that were waited for.  Raises SlowError once a window brought too few."""
        self._waited += seconds
        self._came += size
        if self._waited >= self._window:
            if self._came < LEAST_RATE * self._window:
                raise SlowError(f"{self._came:,} bytes came in {self._waited:.0f} seconds")
            self._waited, self._came = 0.0, 0


def paced(
    pieces: Iterable[bytes],
    clock: Callable[[], float] = time.monotonic,
    deadline: Deadline | None = None,
) -> Iterator[bytes]:
    """Yield pieces as they come, each within the deadline.

    Raises SlowError; time that the caller takes does not count.
    """
    pace, arriving = Pace(), iter(pieces)
    while True:
        before = clock()
        if deadline is not None:
            deadline.start()
        piece = next(arriving, None)
        if deadline is not None:
            deadline.rest()
        if piece is None:
            return
        pace.count(clock() - before, len(piece))
        yield piece
