"""SIGTERM and SIGHUP end a command as ^C does: the first in order, the second at once."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HEEDED = (signal.SIGTERM, signal.SIGHUP)
_OF_RUNS = "odfbuild.executors.process.interrupt"  # not imported for this: most commands do without
_LAST: list[signal.Signals] = []


@contextmanager
def ending_signals(*, for_good: bool = False) -> Iterator[None]:
    """Take signals to end for ^C; one that is ignored, as under nohup, stays so.

    Afterwards they do what they did before, unless this was `for_good`.
    """
    _LAST.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, *_HEEDED)}
    for each in _HEEDED:
        if before[each] is signal.SIG_DFL:
            signal.signal(each, _interrupt)
    try:
        yield
    finally:
        if not for_good:
            for each, handler in before.items():
                signal.signal(each, handler)


def heed_no_more() -> None:
    """Let signals to end do nothing, as the command is ending; only in the main thread."""
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, *_HEEDED):
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, lambda *_: None)


def ended_by() -> signal.Signals:
    """Return the signal that ended the command."""
    return _LAST[-1] if _LAST else signal.SIGINT


def _interrupt(number: int, frame: FrameType | None) -> None:
    _LAST.append(signal.Signals(number))
    interrupt = signal.getsignal(signal.SIGINT)
    if callable(interrupt):
        interrupt(number, frame)
        return
    runs = sys.modules.get(_OF_RUNS)  # ^C is ignored, as in a script's background
    if runs is None or not runs.interrupt(number, frame):
        raise KeyboardInterrupt
