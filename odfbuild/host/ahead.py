"""Work ahead: a few items of a sequence are worked on by threads before their results are used."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    threads: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Yield what a function returns for each item, in order, at most so many of them ahead.

    Raises the error of the first item that failed.
    """
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(threads.submit(function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
