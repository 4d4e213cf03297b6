"""Limits for slow peers: a minimum rate, and a deadline for each piece of an answer."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

LEAST_RATE: Final = 1 << 10  # bytes per second
WINDOW: Final = 60.0  # seconds over which it is measured


class SlowError(TimeoutError):
    """Fewer bytes arrived in a window than the minimum rate demands."""


class Deadline:
    """A time limit for each awaited piece of an answer, after which the answer is given up.

    `start` begins to wait, `rest` ends it; both may be called repeatedly.  A limit on silence alone
    would not be enough: an answer sent byte by byte may never have a complete head or piece.
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
        """Whether the answer was given up."""
        return self._over.is_set()

    @property
    def reason(self) -> str:
        """The reason for which the answer was given up, for messages."""
        due = "its answer did not begin" if self._answers == 0 else "no piece of its answer arrived"
        return f"{due} in {self.seconds:g} seconds"

    def start(self) -> None:
        """Begin to wait."""
        self._since = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def rest(self) -> None:
        """Stop waiting: the piece arrived, and its processing has no time limit."""
        self._since = None
        self._answers += 1

    def cancel(self) -> None:
        """End the deadline: the answer is complete, or has failed."""
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
    """The rate at which bytes arrive, by the time of waiting for them."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._waited, self._arrived = 0.0, 0

    def count(self, seconds: float, size: int) -> None:
        """Add bytes and the time of waiting.  Raises SlowError after a window with too few."""
        self._waited += seconds
        self._arrived += size
        if self._waited >= self._window:
            if self._arrived < LEAST_RATE * self._window:
                raise SlowError(f"{self._arrived:,} bytes arrived in {self._waited:.0f} seconds")
            self._waited, self._arrived = 0.0, 0


def paced(
    pieces: Iterable[bytes],
    clock: Callable[[], float] = time.monotonic,
    deadline: Deadline | None = None,
) -> Iterator[bytes]:
    """Yield pieces as they arrive, each within the deadline.

    Raises SlowError; the time that the caller takes for a piece does not count.
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
