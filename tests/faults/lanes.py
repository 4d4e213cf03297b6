"""Lanes: processes side by side, each of which works on the next number as soon as it is free."""

import multiprocessing
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

__all__ = ["on_lanes"]

Result = TypeVar("Result")
Lane = Callable[[int, Iterator[int]], Iterator[Result]]


def on_lanes(
    count: int, numbers: Iterable[int], lane: Lane[Result]
) -> Iterator[tuple[int, Result | str]]:
    """Yield each number with what a lane made of it, as they come; a text where a lane ended.

    `lane` is called with its own number, in a process of its own, and yields one result a number.
    """
    left = deque(numbers)
    context = multiprocessing.get_context("fork")
    at_work: dict[Connection, int] = {}
    processes = []
    for own in range(min(count, len(left))):
        here, there = context.Pipe()
        process = context.Process(target=_be, args=(there, own, lane))
        process.start()
        there.close()  # so that the end of the process is seen
        processes.append(process)
        at_work[here] = left.popleft()
        here.send(at_work[here])
    try:
        while at_work:
            ready = wait(list(at_work))
            for here in [each for each in at_work if each in ready]:
                number = at_work.pop(here)
                found, has_ended = _received(here)
                if not has_ended:
                    if left:
                        at_work[here] = left.popleft()
                    here.send(at_work.get(here))
                yield number, found
    finally:  # who has heard enough waits for those at work
        for here in at_work:
            if not _received(here)[1]:
                here.send(None)
        for process in processes:
            process.join()
    for number in left:
        yield number, "no lane is left"


def _received(here: Connection) -> tuple[Any, bool]:
    """Return what a lane made of its number, and whether it has ended."""
    try:
        found, has_ended = here.recv()
    except EOFError:
        return "its lane ended without a word", True
    return found, has_ended


def _be(there: Connection, own: int, lane: Lane[Result]) -> None:
    """Work on what comes; an error is the last that is heard."""
    try:
        for result in lane(own, iter(there.recv, None)):
            there.send((result, False))
    except Exception:
        there.send((traceback.format_exc(), True))
