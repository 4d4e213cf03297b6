"""Work on two processors: a part of it in a forked child.

For work whose result is small beside its effort, and that changes nothing: the child's answer is
pickled and read back.  Where there is no second processor, no safe fork or not enough to do, all of
it is done here, and so is the child's part if anything becomes of the child.
"""

import os
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from odfbuild.host.reading_session import reading_session

_T = TypeVar("_T")
_R = TypeVar("_R")

# the child has to pack what it found, this process to unpack it: about a tenth each
_SHARE_HERE = 0.52


def in_halves(
    items: Sequence[_T],
    work: Callable[[Sequence[_T]], _R],
    *,
    pack: Callable[[_R], _R] = lambda made: made,
    least: int,
) -> tuple[_R, ...]:
    """Return what `work` makes of the items: of two parts of them in order, or of all at once.

    `pack` is done to what the child made before it is sent.  Fewer than `least` items are not
    divided.
    """
    if len(items) < least or not _can_fork():
        return (work(items),)
    middle = int(len(items) * _SHARE_HERE)
    here, there = items[:middle], items[middle:]
    answer = in_second_process(lambda: pack(work(there)))
    first = work(here)
    return first, answer()


def in_second_process(work: Callable[[], _R]) -> Callable[[], _R]:
    """Start work in a child, and return what waits for its answer; where that cannot be, does it.

    An error is that of the work when it is done here.
    """
    if not _can_fork():
        return work
    answer = _start(work)

    def awaited() -> _R:
        found = answer()
        return work() if found is None else found[0]

    return awaited


def _can_fork() -> bool:
    """A fork is safe on Linux while there is no other thread, which could hold a lock.

    A session keeps what was read, and a child could not leave it there.
    """
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
        and "pyarrow" not in sys.modules  # it has threads of its own
        and reading_session() is None
        and not os.environ.get("ODFBUILD_NO_FORK")
    )


def _start(work: Callable[[], _R]) -> Callable[[], tuple[_R] | None]:
    """Start the work in a child; what is returned waits for it, None if it came to nothing."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return lambda: None
    if child == 0:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    return lambda: _wait_for(child, reading)


def _answer(work: Callable[[], object], writing: int) -> None:
    """Work, write the answer and end at once: nothing of this process's may be flushed twice."""
    code = 1
    try:
        with os.fdopen(writing, "wb") as out:
            pickle.dump(work(), out, pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)


def _wait_for(child: int, reading: int) -> tuple[Any] | None:
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    return (pickle.loads(data),) if status == 0 else None  # noqa: S301 - our own child's
