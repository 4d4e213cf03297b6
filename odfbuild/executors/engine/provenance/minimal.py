"""Minimal causes: the least of many things that still bring something about.  Pure.

What is found brings it about alone, and no single thing can be taken out of it.  There may be
others like it, as two rows that have the greatest value: of those the first is found.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from odfbuild.values import dataclass

Candidates: TypeAlias = tuple[int, ...]
"""Numbers of things, in order."""

Holds: TypeAlias = Callable[[Sequence[Candidates]], Sequence[bool]]
"""Tells of each of some selections whether it brings about what is asked for."""

_FEW: Final = 64  # things up to which each is tried at once, and not first in bundles


@dataclass(frozen=True, slots=True)
class Least:
    """Things that bring something about; `sure` says that none of them could be left out."""

    things: Candidates
    sure: bool


def least(count: int, holds: Holds, *, most: int) -> Least:
    """Return the least of so many things, all of which together hold.

    At most `most` selections are tried; then what is left by then is returned, as not sure.
    """
    search = _MinimalSearch(tuple(range(count)), holds, most)
    try:
        search.run()
    except _SpentError:
        return Least(search.kept, sure=False)
    return Least(search.kept, sure=True)


class _SpentError(Exception):
    """No more selections may be tried."""


class _MinimalSearch:
    """The things that are left so far, and what was tried."""

    def __init__(self, things: Candidates, holds: Holds, most: int) -> None:
        self.kept = things
        self._holds = holds
        self._left = most
        self._known: dict[Candidates, bool] = {}

    def run(self) -> None:
        size = len(self.kept) // 2 if len(self.kept) > _FEW else 1
        while size > 1:
            self._shed(size)
            size = min(size // 4, max(1, len(self.kept) // 2))
        before = None
        while before != self.kept:
            before = self.kept
            self._shed(1)

    def _shed(self, size: int) -> None:
        """Leave out bundles of so many things, as far as that can be done."""
        bundles = list(_bundles(self.kept, size))
        answers = self._ask([_without(self.kept, each) for each in bundles])
        loose = [each for each, holds in zip(bundles, answers, strict=True) if holds]
        self._drop(loose[::-1])

    def _drop(self, bundles: Sequence[Candidates]) -> None:
        """Leave out as many of some bundles as can be, the first of them first."""
        if not bundles:
            return
        rest = _without(self.kept, *bundles)
        if self._ask([rest])[0]:
            self.kept = rest
        elif len(bundles) > 1:
            half = len(bundles) // 2
            self._drop(bundles[:half])
            self._drop(bundles[half:])

    def _ask(self, selections: Sequence[Candidates]) -> list[bool]:
        new = list(dict.fromkeys(each for each in selections if each not in self._known))
        if len(new) > self._left:
            raise _SpentError
        self._left -= len(new)
        if new:
            self._known.update(zip(new, self._holds(new), strict=True))
        return [self._known[each] for each in selections]


def _bundles(things: Candidates, size: int) -> Iterator[Candidates]:
    return (things[at : at + size] for at in range(0, len(things), size))


def _without(things: Candidates, *bundles: Candidates) -> Candidates:
    gone = frozenset().union(*bundles)
    return tuple(each for each in things if each not in gone)
