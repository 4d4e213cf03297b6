"""Whether relations form a cycle: of many at once, or as they come one by one.

The graph is given as two mappings that mirror each other: what is above a node (its sources) and
what is below it (what is derived from it).
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from math import isqrt
from typing import Generic, TypeVar

__all__ = ["Levels", "cycle_in", "way_up"]

K = TypeVar("K", bound=Hashable)
Links = Mapping[K, Collection[K]]


def cycle_in(below: Links[K], above_counts: dict[K, int]) -> list[K] | None:
    """Return a cycle, each node above the one before it, or None; linear in nodes and links.

    `above_counts` says how many are above each node that has any, and is used up.
    """
    ready = [node for node in below if node not in above_counts]
    while ready:
        for each in below.get(ready.pop(), ()):
            left = above_counts[each] - 1
            if left:
                above_counts[each] = left
            else:
                del above_counts[each]
                ready.append(each)
    return _cycle_among(below, above_counts) if above_counts else None


def _cycle_among(below: Links[K], stuck: Mapping[K, int]) -> list[K]:
    """Follow links upwards among nodes of which each has one above it that is stuck as well."""
    above = {each: node for node in stuck for each in below.get(node, ()) if each in stuck}
    node = next(iter(above))
    met: dict[K, int] = {}
    while node not in met:
        met[node] = len(met)
        node = above[node]
    return list(met)[met[node] :]


def way_up(above: Links[K], start: K, end: K) -> list[K] | None:
    """Return the nodes from one to another that is above it, both included, or None."""
    came: dict[K, K] = {start: start}
    pending = [start]
    while pending:
        node = pending.pop()
        if node == end:
            return _back(came, start, end)
        for each in above.get(node, ()):
            if each not in came:
                came[each] = node
                pending.append(each)
    return None


def _back(came: Mapping[K, K], start: K, end: K) -> list[K]:
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


class Levels(Generic[K]):
    """Numbers that never fall on a way down, so that most new links are seen to close no cycle.

    A link upwards or within a level is looked into: a short search upwards within the level of its
    upper end, then whatever hangs below its lower end is lifted (Bender, Fineman, Gilbert, Tarjan,
    "A New Approach to Incremental Cycle Detection").  m links cost at most m ** 1.5 steps in all.
    A node that is not numbered has level 0.
    """

    def __init__(self, above: Links[K], below: Links[K]) -> None:
        self._above = above
        self._below = below
        self._levels: dict[K, int] = {}

    def clear(self) -> None:
        """Put everything on level 0, which is right for any graph without cycles."""
        self._levels.clear()

    def closes(self, upper: K, lower: K, size: int) -> bool:
        """Say whether a link that is in the graph by now closes a cycle; `size` counts links."""
        level = self._levels.get
        high = level(upper, 0)
        if upper == lower:
            return True
        if high < level(lower, 0):
            return False
        if not self._below.get(lower):
            self._levels[lower] = high
            return False
        met, whole = self._search(upper, high, isqrt(size) + 1)
        if lower in met:
            return True
        if whole and high == level(lower, 0):
            return False
        return self._lift(lower, high if whole else high + 1, met)

    def _search(self, start: K, level: int, limit: int) -> tuple[set[K], bool]:
        """Return what is above a node on its level, and whether that is all of it."""
        met, pending, steps = {start}, [start], 0
        while pending:
            for each in self._above.get(pending.pop(), ()):
                steps += 1
                if steps > limit:
                    return met, False
                if each not in met and self._levels.get(each, 0) == level:
                    met.add(each)
                    pending.append(each)
        return met, True

    def _lift(self, start: K, level: int, met: Iterable[K]) -> bool:
        """Lift a node and what hangs below it; True if that leads back to a node met before."""
        forbidden = set(met)
        self._levels[start] = level
        pending = [start]
        while pending:
            node = pending.pop()
            for each in self._below.get(node, ()):
                if each in forbidden:
                    return True
                if self._levels.get(each, 0) < level:
                    self._levels[each] = level
                    pending.append(each)
        return False
