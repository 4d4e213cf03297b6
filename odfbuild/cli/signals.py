"""SIGTERM and SIGHUP end a command as ^C does: the first in order, the second at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ended_by", "heeding"]

_HEEDED = (signal.SIGTERM, signal.SIGHUP)
_LAST: list[signal.Signals] = []


@contextmanager
def heeding() -> Iterator[None]:
    """Take signals to end for ^C; one that is ignored, as under nohup, stays so."""
    _LAST.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in _HEEDED}
    heeded = [each for each in _HEEDED if before[each] is signal.SIG_DFL]
    for each in heeded:
        signal.signal(each, _interrupt)
    try:
        yield
    finally:
        for each in heeded:
            signal.signal(each, before[each])


def ended_by() -> signal.Signals:
    """Return the signal that ended the command."""
    return _LAST[-1] if _LAST else signal.SIGINT


def _interrupt(number: int, frame: FrameType | None) -> None:
    _LAST.append(signal.Signals(number))
    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt):  # ^C is ignored, as in a script's background
        raise KeyboardInterrupt
    interrupt(number, frame)
