"""Where boxes stand and edges bend, from left to right.  Pure; lengths in pixels.

Within its layer a point comes as near to the mean of its neighbours as the order and the distances
between points allow: the least squares, found by pooling neighbours that want to be too close.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from odfbuild.cli.page.crossings import ordered
from odfbuild.cli.page.layers import Arc, Layered, layered

__all__ = ["Arrangement", "Layout", "Size", "laid_out", "rising"]

_BETWEEN = 140
_APART = 26
_BEND_APART = 12
_PASSES = 10
_STRAIGHT = 4.0

_Near = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a box is."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The upper left corners of boxes, the bends of edges, and the room that all of them take.

    A bend is two points: an edge goes straight through the width of its layer.
    """

    corners: tuple[tuple[int, int], ...]
    bends: tuple[tuple[tuple[int, int], ...], ...]
    size: Size


class Arrangement:
    """Nodes and edges in their layers and order; boxes of any sizes can be laid out by it.

    Raises graphlib.CycleError.
    """

    def __init__(self, nodes: int, edges: Sequence[Arc]) -> None:
        self.graph = layered(nodes, edges)
        self.layers = ordered(self.graph)


def laid_out(sizes: Sequence[Size], arrangement: Arrangement) -> Layout:
    """Return the places of boxes of these sizes, and of edges."""
    graph, layers = arrangement.graph, arrangement.layers
    left, widths, end = _columns(sizes, graph, layers)
    height = [each.height for each in sizes] + [0] * (len(graph.level) - len(sizes))
    top = _tops(graph, layers, height)
    bends = tuple(
        tuple(
            (x, top[bend])
            for bend in way
            for x in (left[graph.level[bend]], left[graph.level[bend]] + widths[graph.level[bend]])
        )
        for way in graph.ways
    )
    corners = tuple((left[graph.level[node]], top[node]) for node in range(graph.nodes))
    bottom = max((top[each] + height[each] for each in range(len(height))), default=0)
    return Layout(corners, bends, Size(end, bottom))


def _columns(
    sizes: Sequence[Size], graph: Layered, layers: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], int]:
    """Return where layers begin, how wide they are, and where the last one ends."""
    left: list[int] = []
    widths: list[int] = []
    at = 0
    for layer in layers:
        width = max((sizes[each].width for each in layer if each < graph.nodes), default=0)
        left.append(at)
        widths.append(width)
        at += width + _BETWEEN
    return left, widths, max(at - _BETWEEN, 0)


def _tops(graph: Layered, layers: Sequence[Sequence[int]], height: Sequence[int]) -> list[int]:
    """Return the upper edges of all points; the least is 0."""
    before: list[list[int]] = [[] for _ in graph.level]
    after: list[list[int]] = [[] for _ in graph.level]
    for source, target in graph.steps:
        before[target].append(source)
        after[source].append(target)
    both = [[*a, *b] for a, b in zip(before, after, strict=True)]
    middle = _stacked(layers, height)
    for number in range(_PASSES):
        near = both if number >= _PASSES - 2 else (after if number % 2 else before)
        for layer in reversed(layers) if number % 2 else layers:
            _settle(layer, near, middle, height, graph.nodes)
    tops = [round(at - high / 2) for at, high in zip(middle, height, strict=True)]
    least = min(tops, default=0)
    return [each - least for each in tops]


def _stacked(layers: Sequence[Sequence[int]], height: Sequence[int]) -> list[float]:
    """Return the middles of points when each layer is as close as can be, around 0."""
    middle = [0.0] * len(height)
    for layer in layers:
        offsets = _offsets(layer, height)
        shift = offsets[-1] / 2 if offsets else 0.0
        for point, offset in zip(layer, offsets, strict=True):
            middle[point] = offset - shift
    return middle


def _offsets(layer: Sequence[int], height: Sequence[int]) -> list[float]:
    """Return how far each middle is at least below that of the first point."""
    found = [0.0] if layer else []
    for above, below in pairwise(layer):
        apart = _APART if height[above] and height[below] else _BEND_APART
        found.append(found[-1] + (height[above] + height[below]) / 2 + apart)
    return found


def _settle(
    layer: Sequence[int], near: _Near, middle: list[float], height: Sequence[int], nodes: int
) -> None:
    """Move the points of a layer towards their neighbours."""
    offsets = _offsets(layer, height)
    wishes: list[float] = []
    weights: list[float] = []
    for point, offset in zip(layer, offsets, strict=True):
        told = [(middle[each], _pull(point, each, nodes)) for each in near[point]]
        weight = sum(pull for _, pull in told)
        wish = sum(at * pull for at, pull in told) / weight if told else middle[point]
        wishes.append(wish - offset)
        weights.append(weight if told else 0.1)
    for point, offset, at in zip(layer, offsets, rising(wishes, weights), strict=True):
        middle[point] = at + offset


def _pull(point: int, other: int, nodes: int) -> float:
    return _STRAIGHT if point >= nodes and other >= nodes else 1.0


def rising(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the sequence that never falls and is nearest to the wishes (least squares)."""
    pools: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        pool = (wish, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            at, heavy, count = pools.pop()
            total = heavy + pool[1]
            pool = ((at * heavy + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    return [at for at, _, count in pools for _ in range(count)]
