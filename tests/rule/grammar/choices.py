"""Choices that make a query or a history: drawn by a seed, recorded, and made again, or smaller."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

__all__ = ["Choices", "smaller"]

Item = TypeVar("Item")


class Choices:
    """A source of small numbers; `given` come first, then those of the seed, or 0 without one.

    `taken` records what was chosen: given again, it makes the same.  0 is meant to be the simplest
    choice everywhere, so that a record with smaller numbers, or fewer, makes something simpler.
    """

    def __init__(self, seed: str | None, given: Sequence[int] = ()) -> None:
        self.taken: list[int] = []
        self._given = given
        self._random = None if seed is None else Random(seed)

    def below(self, limit: int) -> int:
        """Return a number from 0 on, below the limit."""
        at = len(self.taken)
        if at < len(self._given):
            number = min(self._given[at], limit - 1)
        else:
            number = 0 if self._random is None else self._random.randrange(limit)
        self.taken.append(number)
        return number

    def chance(self, percent: int) -> bool:
        """Return True so often."""
        return self.below(100) >= 100 - percent

    def one(self, items: Sequence[Item]) -> Item:
        """Return one of some items."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[int, Item]]) -> Item:
        """Return one of some items, each as often as its weight says."""
        number = self.below(sum(weight for weight, _ in items))
        for weight, item in items:
            if number < weight:
                return item
            number -= weight
        raise AssertionError("weights are positive")


def smaller(
    taken: Sequence[int], fails: Callable[[Sequence[int]], bool], most: int = 400
) -> list[int]:
    """Return a record that still fails, with fewer and smaller numbers, after so many tries."""
    best, tries = list(taken), 0
    progress = True
    while progress:
        progress = False
        for candidate in _simpler(best):
            if tries >= most:
                return best
            tries += 1
            if fails(candidate):
                best, progress = list(candidate), True
                break
    return best


def _simpler(taken: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield simpler records, the greatest steps first."""
    size = len(taken)
    length = size
    while length >= 1:
        for start in range(0, size, length):
            yield [*taken[:start], *taken[start + length :]]
        length //= 2
    for length in (16, 4, 1):
        for start in range(0, size, length):
            if any(taken[start : start + length]):
                zeros = [0] * len(taken[start : start + length])
                yield [*taken[:start], *zeros, *taken[start + length :]]
