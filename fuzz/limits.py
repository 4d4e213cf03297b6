"""Hold one input to its limits: a second of the processor or a few, 200 MB of memory."""

import resource
import signal
import time
from collections.abc import Callable
from types import FrameType

__all__ = ["TooLargeError", "TooSlowError", "limited"]

SECONDS = 1.0
MEMORY = 200 << 20
_ROOM = 4 << 30


class TooSlowError(Exception):
    """An input took more time than any of its size may."""


class TooLargeError(Exception):
    """An input took more memory than any of its size may."""


def limited(run: Callable[[bytes], None], seconds: float = SECONDS) -> Callable[[bytes], None]:
    """Return a target that raises TooSlowError or TooLargeError when an input goes too far.

    Memory is what the process grew by, so it is noticed once; a runaway hits the process's limit.
    """
    signal.signal(signal.SIGVTALRM, _too_slow)
    resource.setrlimit(resource.RLIMIT_DATA, (_ROOM, _ROOM))

    def held(data: bytes) -> None:
        before, started = _peak(), time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            run(data)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if time.process_time() - started > seconds:
            raise TooSlowError(f"{time.process_time() - started:.1f} s")
        if _peak() - before > MEMORY:
            raise TooLargeError(f"{(_peak() - before) >> 20} MiB")

    return held


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TooSlowError("more than it may take")
