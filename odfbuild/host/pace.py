"""The least rate at which others have to send: who sends a byte now and then is not waited for."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

LEAST_RATE: Final = 1 << 10  # bytes a second
WINDOW: Final = 60.0  # seconds over which it is measured


class SlowError(TimeoutError):
    """Less came in a window than the least rate gives."""


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
