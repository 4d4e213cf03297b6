"""Layers of a graph from left to right, and the way of its edges through them.  Pure.

A node stands right of all that leads to it; one that nothing leads to stands as near as it can to
what it leads to.  An edge over several layers has a bend in each layer between; edges from one
node share their bends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

__all__ = ["Arc", "Layered", "layered", "levels"]

Arc = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layered:
    """Points in layers, nodes first and then bends, and steps between neighbouring layers.

    `ways` has for each edge the bends that it goes through.
    """

    nodes: int
    level: tuple[int, ...]
    steps: tuple[Arc, ...]
    ways: tuple[tuple[int, ...], ...]

    def layers(self) -> list[list[int]]:
        """Return the points of each layer, in the order of their numbers."""
        found: list[list[int]] = [[] for _ in range(max(self.level, default=-1) + 1)]
        for point, level in enumerate(self.level):
            found[level].append(point)
        return found


def levels(nodes: int, edges: Sequence[Arc]) -> list[int]:
    """Return the layer of each node.  Raises graphlib.CycleError."""
    before: list[list[int]] = [[] for _ in range(nodes)]
    after: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    level = [0] * nodes
    for node in TopologicalSorter(dict(enumerate(before))).static_order():
        level[node] = max((level[each] + 1 for each in before[node]), default=0)
    for node in range(nodes):
        if after[node] and not before[node]:
            level[node] = min(level[each] for each in after[node]) - 1
    return level


def layered(nodes: int, edges: Sequence[Arc]) -> Layered:
    """Return nodes and bends in their layers.  Raises graphlib.CycleError."""
    level = levels(nodes, edges)
    bends: dict[Arc, int] = {}
    steps: dict[Arc, None] = {}
    ways: list[tuple[int, ...]] = []
    for source, target in edges:
        way: list[int] = []
        for between in range(level[source] + 1, level[target]):
            if (source, between) not in bends:
                bends[source, between] = len(level)
                level.append(between)
            way.append(bends[source, between])
        stops = (source, *way, target)
        steps |= dict.fromkeys(pairwise(stops))
        ways.append(tuple(way))
    return Layered(nodes, tuple(level), tuple(steps), tuple(ways))
