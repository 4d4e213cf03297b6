"""End or give up what is being done.

Who presses Ctrl-C once has the open slices finished, and no more begun; who presses it again, or
stops the run otherwise, has processes killed, pauses ended and downloads broken off.  Whatever
waits or takes long looks here, and fails with a StoppedError once the run is given up.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from odfbuild.errors import EngineError

__all__ = [
    "StoppedError",
    "go_on",
    "interruptible",
    "is_ending",
    "killable",
    "pause",
    "poll",
    "stop",
    "stoppable",
]


class StoppedError(EngineError):
    """A step was broken off, because the run was given up."""

    code = "stopped"

    def __init__(
        self,
        what: str = "it was broken off",
        why: str = "the run was given up",
        fix: str = "run the same command again: what was committed stays",
    ) -> None:
        super().__init__(what, why, fix)


@dataclass(slots=True)
class _Running:
    """The process groups that run now, of all threads, and whether they are given up."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)


_RUNNING: Final = _Running()


@contextmanager
def stoppable() -> Iterator[None]:
    """Do something that may be stopped; what comes after it is not."""
    try:
        yield
    finally:
        _RUNNING.stopped.clear()
        _RUNNING.ending.clear()


@contextmanager
def interruptible(ending: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt ask for the end of what is done, and the second do what it did.

    `ending` is called by the first.  Only the main thread hears of interrupts, and where they are
    ignored they stay so.
    """
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or not callable(before):
        yield
        return

    def first(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        _RUNNING.ending.set()
        ending()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_ending() -> bool:
    """Say whether no more is to be begun."""
    return _RUNNING.ending.is_set()


def stop() -> None:
    """Give up all that is being done, in whatever thread: its steps then fail."""
    with _RUNNING.lock:
        _RUNNING.stopped.set()
        for process in _RUNNING.processes:
            _kill(process)


def go_on() -> None:
    """Say that there is more to do.  Raises StoppedError if that was given up."""
    if _RUNNING.stopped.is_set():
        raise StoppedError


def pause(seconds: float) -> None:
    """Wait; raises StoppedError as soon as that was given up."""
    if _RUNNING.stopped.wait(seconds):
        raise StoppedError


@contextmanager
def killable(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a process, the leader of its group, run for the length of a block, unless stopped."""
    with _RUNNING.lock:
        _RUNNING.processes.add(process)
        if _RUNNING.stopped.is_set():
            _kill(process)
    try:
        yield
    finally:
        with _RUNNING.lock:
            _RUNNING.processes.discard(process)
            _kill(process)


def poll(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process, None while it runs."""
    with _RUNNING.lock:  # from here on its number may be that of another process
        return process.poll()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process that was not waited for yet."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
