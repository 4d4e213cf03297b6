"""Minimum pace of others: the rate at which they have to send, and the time to begin an answer."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

LEAST_RATE: Final = 1 << 10  # bytes a second
WINDOW: Final = 60.0  # seconds over which it is measured


class SlowError(TimeoutError):
    """Less came in a window than the least rate gives."""


class Deadline:
    """A time by which an answer has to begin, or it is given up; counted from `start`.

    An answer that comes piece by piece keeps every limit of silence, and may never begin.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds = seconds
        self._give_up = give_up
        self._over = threading.Event()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    @property
    def is_over(self) -> bool:
        """Tell whether the answer was given up."""
        return self._over.is_set()

    @property
    def reason(self) -> str:
        """Return why it was given up, for messages."""
        return f"its answer did not begin in {self.seconds:g} seconds"

    def start(self) -> None:
        """Begin to count; once."""
        self._timer.start()

    def cancel(self) -> None:
        """Stop counting: the answer began, or failed."""
        self._timer.cancel()

    def _end(self) -> None:
        self._over.set()
        self._give_up()


def paced(pieces: Iterable[bytes], clock: Callable[[], float] = time.monotonic) -> Iterator[bytes]:
    """Yield pieces as they come.  Raises SlowError; time that the caller takes does not count."""
    waited, came = 0.0, 0
    arriving = iter(pieces)
    while True:
        before = clock()
        piece = next(arriving, None)
        if piece is None:
            return
        waited += clock() - before
        came += len(piece)
        if waited >= WINDOW:
            if came < LEAST_RATE * WINDOW:
                raise SlowError(f"{came:,} bytes came in {waited:.0f} seconds")
            waited, came = 0.0, 0
        yield piece
