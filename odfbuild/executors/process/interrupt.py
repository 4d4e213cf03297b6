"""Interruption of running work.

Who presses Ctrl-C once has the open slices finished, and no more begun; who presses it again, or
stops the run otherwise, has processes killed, pauses ended and downloads broken off.  Whatever
waits or takes long looks here, and fails with a StoppedError once the run is given up.  From the
third on nothing is broken off any more, as the record of the run is being written: engines are
killed, so that nobody waits for them.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import field
from types import FrameType
from typing import Final, TypeAlias, TypeVar

from odfbuild.errors import EngineError
from odfbuild.values import dataclass

_Result = TypeVar("_Result")

End: TypeAlias = Callable[[subprocess.Popen[bytes]], None]
"""Ends a process, at once and from any thread."""
_HEARING = 0.2  # seconds until a signal is acted on at the latest


class Enough(Exception):
    """A step ends though there may be more for it; what it committed stands."""


class StoppedError(EngineError):
    """A step was stopped, because the run was interrupted."""

    code = "stopped"

    def __init__(
        self,
        what: str = "it was stopped",
        why: str = "the run was stopped",
        fix: str = "run the command again: committed blocks stay",
    ) -> None:
        super().__init__(what, why, fix)


@dataclass(slots=True)
class _Interrupts:
    """The interrupts of what is done now: how many came, and whether the second may break it off.

    `before` is what an interrupt did without us, `ending` is called by the first.
    """

    before: Callable[[int, FrameType | None], object]
    ending: Callable[[], None]
    count: int = 0
    may_break: bool = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Act on a signal, in the main thread between any two of its instructions: no locks."""
        self.count += 1
        if self.count == 1:
            _RUNNING.ending.set()
            self.ending()
        elif self.count == 2:
            if self.may_break:
                self.before(number, frame)
        else:
            kill_engines()


@dataclass(slots=True)
class _Running:
    """The process groups that run now, of all threads, and whether they are given up.

    `engines` end by themselves, if they are given the time.  `left_behind` says that threads of a
    run that was given up may still run.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    processes: dict[subprocess.Popen[bytes], End] = field(default_factory=dict)
    engines: set[subprocess.Popen[bytes]] = field(default_factory=set)
    interrupts: _Interrupts | None = None
    left_behind: bool = False

    def forget(self) -> None:
        self.stopped.clear()
        self.ending.clear()
        self.left_behind = False


_RUNNING: Final = _Running()


@contextmanager
def stoppable() -> Iterator[None]:
    """Do something that may be stopped; what comes after it is not."""
    if _RUNNING.left_behind:
        _RUNNING.forget()
    try:
        yield
    finally:
        if not _RUNNING.left_behind:
            _RUNNING.forget()


@contextmanager
def interruptible(ending: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt ask for the end of what is done, and the second do what it did.

    `ending` is called by the first.  The second acts only where `breakable` allows it, and no later
    one breaks anything off; with an end in order, KeyboardInterrupt is raised at the end of the
    block.  Only the main thread hears of interrupts, and where ^C is ignored it stays so.  Within
    another such block this one does nothing.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or _RUNNING.interrupts is not None:
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    is_heeded = callable(before)
    mine = _Interrupts(before if callable(before) else signal.default_int_handler, ending)
    _RUNNING.interrupts = mine
    try:
        if is_heeded:
            signal.signal(signal.SIGINT, mine.receive)
        yield
    finally:
        _RUNNING.interrupts = None
        if is_heeded:
            signal.signal(signal.SIGINT, before)
        _RUNNING.ending.clear()
    if mine.count:
        raise KeyboardInterrupt


@contextmanager
def cancelled_by_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Have what the main thread waits for cancelled, in another thread, when ^C is pressed.

    Who waits for an engine in another process may wait on in spite of an interrupt, for its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if number == signal.SIGINT and before is signal.SIG_IGN:
            return
        if not pressed:
            pressed = True
            threading.Thread(target=cancel, daemon=True).start()
        if callable(before):
            before(number, frame)
        else:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield
    except Exception as error:
        if pressed:  # what failed is what was cancelled
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt(number: int, frame: FrameType | None) -> bool:
    """Take another signal for an interrupt of what is interruptible; False if nothing is."""
    if _RUNNING.interrupts is None:
        return False
    _RUNNING.interrupts.receive(number, frame)
    return True


def breakable(*, may_break: bool) -> None:
    """Say whether the second interrupt may be raised as an exception from here on.

    Raises KeyboardInterrupt if it may and has come.
    """
    interrupts = _RUNNING.interrupts
    if interrupts is not None:
        interrupts.may_break = may_break
        if may_break and interrupts.count > 1:
            raise KeyboardInterrupt


@contextmanager
def broken_off_by_second() -> Iterator[None]:
    """Let the second interrupt break off what is done within a block, as an exception."""
    try:
        breakable(may_break=True)
        yield
    finally:
        breakable(may_break=False)


def hurries() -> bool:
    """Say whether an end was asked for so often that nothing slow may be waited for."""
    interrupts = _RUNNING.interrupts
    return interrupts is not None and interrupts.count > 2


def leave_behind() -> None:
    """Keep what runs stopped when the block of `stoppable` is over: some of it could not end."""
    _RUNNING.left_behind = True


def kill_in_haste(process: subprocess.Popen[bytes]) -> None:
    """Have an engine killed once nothing slow may be waited for, until it is ended in order."""
    _RUNNING.engines.add(process)
    if hurries():
        process.kill()


def kill_engines() -> None:
    """Kill the engines that run, also from the handler of a signal: no locks."""
    for process in tuple(_RUNNING.engines):
        with suppress(OSError):
            process.kill()


def ended_in_order(process: subprocess.Popen[bytes]) -> None:
    """Forget an engine, which has ended."""
    _RUNNING.engines.discard(process)


def is_ending() -> bool:
    """Say whether no more is to be begun."""
    return _RUNNING.ending.is_set()


def is_stopped() -> bool:
    """Say whether all that is done is given up."""
    return _RUNNING.stopped.is_set()


def stop() -> None:
    """Give up all that is being done, in whatever thread: its steps then fail."""
    with _RUNNING.lock:
        _RUNNING.stopped.set()
        for process, end in _RUNNING.processes.items():
            end(process)


def go_on() -> None:
    """Say that there is more to do.  Raises StoppedError if that was given up."""
    if _RUNNING.stopped.is_set():
        raise StoppedError


def pause(seconds: float) -> None:
    """Wait; raises StoppedError as soon as that was given up."""
    if _RUNNING.stopped.wait(seconds):
        raise StoppedError


def first_finished(futures: Collection[Future[_Result]]) -> set[Future[_Result]]:
    """Wait until some of these are finished, and return them.  Signals are acted on meanwhile.

    One that comes just before a wait begins, or to another thread, does not end that wait, and
    Python acts on it afterwards: so no wait is long.
    """
    finished: set[Future[_Result]] = set()
    while not finished:
        finished, _ = wait(futures, timeout=_HEARING, return_when=FIRST_COMPLETED)
    return finished


def result_of(future: Future[_Result]) -> _Result:
    """Wait for a result as `first_finished` does, and return it, or raise what was raised."""
    first_finished((future,))
    return future.result()


def poll(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process, None while it runs."""
    with _RUNNING.lock:  # from here on its number may be that of another process
        return process.poll()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process that was not waited for yet."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def killable(process: subprocess.Popen[bytes], end: End = kill_group) -> Iterator[None]:
    """Let a process, the leader of its group, run for the length of a block, unless stopped.

    `end` is how it is stopped, at once; what is left of its group after the block is killed.
    """
    with _RUNNING.lock:
        _RUNNING.processes[process] = end
        if _RUNNING.stopped.is_set():
            end(process)
    try:
        yield
    finally:
        with _RUNNING.lock:
            _RUNNING.processes.pop(process, None)
            kill_group(process)
