"""Lanes: processes side by side, each of which works on the next number as soon as it is free."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import TypeVar

__all__ = ["on_lanes"]

Result = TypeVar("Result")
Lane = Callable[[int, Iterator[int]], Iterator[Result]]


def on_lanes(
    count: int, numbers: Iterable[int], lane: Lane[Result]
) -> Iterator[tuple[int, Result | str]]:
    """Yield each number with what a lane made of it, as they come; a text where a lane ended.

    `lane` is called with its own number, in a process of its own, and yields one result a number.
    """
    left = iter(numbers)
    context = multiprocessing.get_context("fork")
    at_work: dict[Connection, int] = {}
    processes = []
    for own in range(count):
        number = next(left, None)
        if number is None:
            break
        here, there = context.Pipe()
        process = context.Process(target=_be, args=(there, own, lane))
        process.start()
        there.close()  # so that the end of the process is seen
        processes.append(process)
        here.send(number)
        at_work[here] = number
    while at_work:
        ready = wait(list(at_work))
        for here in [each for each in at_work if each in ready]:
            number = at_work.pop(here)
            try:
                yield number, here.recv()
            except EOFError:
                yield number, "a lane ended without a word"
                continue
            here.send(following := next(left, None))
            if following is not None:
                at_work[here] = following
    for process in processes:
        process.join()
    for number in left:  # no lane is there any more
        yield number, "no lane is left"


def _be(there: Connection, own: int, lane: Lane[Result]) -> None:
    """Work on what comes; an error is the last that is heard."""
    try:
        for result in lane(own, iter(there.recv, None)):
            there.send(result)
    except Exception:
        there.send(traceback.format_exc())
