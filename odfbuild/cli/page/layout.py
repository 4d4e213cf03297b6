"""The places of boxes and edges on a page, from left to right.  Pure; lengths in pixels.

Within its layer a point comes as near to the mean of its neighbours as the order and the distances
between points allow: the least squares, found by pooling neighbours that want to be too close.

A node stands right of all that leads to it; one that nothing leads to stands as near as it can to
what it leads to.  An edge over several layers has a bend in each layer between; edges from one
node share their bends.

Points go to the mean of their neighbours, layer by layer, to the right and back; the best order
that was met counts.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from odfbuild.cli.page.graph import Box, Graph, Ref
from odfbuild.values import dataclass

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


_SWEEPS = 12


def ordered(graph: Layered) -> list[list[int]]:
    """Return the layers, the points of each from top to bottom."""
    before: list[list[int]] = [[] for _ in graph.level]
    after: list[list[int]] = [[] for _ in graph.level]
    for source, target in graph.steps:
        before[target].append(source)
        after[source].append(target)
    layers = _first(graph, before, after)
    best, fewest = layers, count_crossings(layers, graph.steps)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        layers = _swept(layers, after if sweep % 2 else before, backwards=bool(sweep % 2))
        crossings = count_crossings(layers, graph.steps)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _first(
    graph: Layered, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the layers as a walk meets their points, so that what belongs together is near."""
    met: dict[int, None] = {}
    for start in range(graph.nodes):
        pending = [start]
        while pending:
            point = pending.pop()
            if point not in met:
                met[point] = None
                pending += [*reversed(after[point]), *reversed(before[point])]
    found: list[list[int]] = [[] for _ in graph.layers()]
    for point in met:
        found[graph.level[point]].append(point)
    return found


def _swept(
    layers: Sequence[Sequence[int]], neighbours: Sequence[Sequence[int]], *, backwards: bool
) -> list[list[int]]:
    """Return the layers after one sweep: each in the order of the means of its neighbours."""
    at: dict[int, float] = {}
    found: list[list[int]] = []
    for layer in reversed(layers) if backwards else layers:
        own = {point: _share(number, layer) for number, point in enumerate(layer)}
        wish = {
            point: sum(at[each] for each in neighbours[point]) / len(neighbours[point])
            if neighbours[point]
            else own[point]
            for point in layer
        }
        new = sorted(layer, key=lambda point: (wish[point], own[point]))
        at |= {point: _share(number, new) for number, point in enumerate(new)}
        found.append(new)
    return found[::-1] if backwards else found


def _share(number: int, layer: Sequence[int]) -> float:
    return (number + 0.5) / len(layer)


def count_crossings(layers: Sequence[Sequence[int]], steps: Sequence[Arc]) -> int:
    """Return how many pairs of steps between the same two layers cross."""
    at = {point: number for layer in layers for number, point in enumerate(layer)}
    level = {point: number for number, layer in enumerate(layers) for point in layer}
    between: list[list[Arc]] = [[] for _ in layers]
    for source, target in steps:
        between[level[source]].append((at[source], at[target]))
    crossings = 0
    for arcs in between:
        ends: list[int] = []
        for _, end in sorted(arcs):
            crossings += len(ends) - bisect_right(ends, end)
            insort(ends, end)
    return crossings


VALUE, ROWS, UNKNOWN = 0, 1, 2
ALL_COLUMNS = -1


class Link(NamedTuple):
    """A column that another one is made of, each by dataset and column; WHOLE is all of them.

    `use` is VALUE; ROWS where it decides on the rows of the other; UNKNOWN where that it is used
    cannot be ruled out.
    """

    source: int
    source_column: int
    derived: int
    derived_column: int
    use: int


def links(graph: Graph) -> list[Link]:
    """Return the links between the columns that are on the page, each once."""
    numbers = {box.name.lower(): number for number, box in enumerate(graph.boxes)}
    columns = [_numbers(box) for box in graph.boxes]
    inputs: list[list[int]] = [[] for _ in graph.boxes]
    for edge in graph.edges:
        inputs[edge.derived].append(edge.source)
    found = dict.fromkeys(
        each
        for number, box in enumerate(graph.boxes)
        for each in _links_of(number, box, inputs[number], numbers, columns)
    )
    return list(found)


def _numbers(box: Box) -> dict[str, int]:
    made = () if box.made is None else box.made.columns or ()
    return {each.name.lower(): number for number, each in enumerate(made)}


def _links_of(
    number: int,
    box: Box,
    inputs: Sequence[int],
    numbers: Mapping[str, int],
    columns: Sequence[Mapping[str, int]],
) -> Iterator[Link]:
    if box.made is None:
        return
    for place, column in enumerate(box.made.columns or ()):
        for at, which in _refs_on_page(column.sources, numbers, columns):
            yield Link(at, which, number, place, VALUE)
    for at, which in _refs_on_page(box.made.rows or (), numbers, columns):
        yield Link(at, which, number, ALL_COLUMNS, ROWS)
    if box.made.columns is None or box.made.rows is None:
        yield from (Link(each, ALL_COLUMNS, number, ALL_COLUMNS, UNKNOWN) for each in inputs)


def _refs_on_page(
    refs: Sequence[Ref], numbers: Mapping[str, int], columns: Sequence[Mapping[str, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the refs that are on the page; a member of a column is that column."""
    for dataset, column in refs:
        at, name = numbers.get(dataset.lower()), column.lower()
        if at is not None:
            yield at, columns[at].get(name, columns[at].get(name.partition(".")[0], ALL_COLUMNS))


_BETWEEN = 140
_APART = 26
_BEND_APART = 12
_PASSES = 10
_STRAIGHT = 4.0

_Neighbours = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class BoxSize:
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
    size: BoxSize


class Arrangement:
    """Nodes and edges in their layers and order; boxes of any sizes can be laid out by it.

    Raises graphlib.CycleError.
    """

    def __init__(self, nodes: int, edges: Sequence[Arc]) -> None:
        self.graph = layered(nodes, edges)
        self.layers = ordered(self.graph)


def laid_out(sizes: Sequence[BoxSize], arrangement: Arrangement) -> Layout:
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
    return Layout(corners, bends, BoxSize(end, bottom))


def _columns(
    sizes: Sequence[BoxSize], graph: Layered, layers: Sequence[Sequence[int]]
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
    middle = _closest_middles(layers, height)
    for number in range(_PASSES):
        neighbours = both if number >= _PASSES - 2 else (after if number % 2 else before)
        for layer in reversed(layers) if number % 2 else layers:
            _settle(layer, neighbours, middle, height, graph.nodes)
    tops = [round(at - high / 2) for at, high in zip(middle, height, strict=True)]
    least = min(tops, default=0)
    return [each - least for each in tops]


def _closest_middles(layers: Sequence[Sequence[int]], height: Sequence[int]) -> list[float]:
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
    layer: Sequence[int],
    neighbours: _Neighbours,
    middle: list[float],
    height: Sequence[int],
    nodes: int,
) -> None:
    """Move the points of a layer towards their neighbours."""
    offsets = _offsets(layer, height)
    wishes: list[float] = []
    weights: list[float] = []
    for point, offset in zip(layer, offsets, strict=True):
        pulls = [(middle[each], _pull(point, each, nodes)) for each in neighbours[point]]
        weight = sum(pull for _, pull in pulls)
        wish = sum(at * pull for at, pull in pulls) / weight if pulls else middle[point]
        wishes.append(wish - offset)
        weights.append(weight if pulls else 0.1)
    for point, offset, at in zip(layer, offsets, nearest_rising(wishes, weights), strict=True):
        middle[point] = at + offset


def _pull(point: int, other: int, nodes: int) -> float:
    return _STRAIGHT if point >= nodes and other >= nodes else 1.0


def nearest_rising(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
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
