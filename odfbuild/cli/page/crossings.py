"""The order of points within their layers, such that few edges cross.  Pure.

Points go to the mean of their neighbours, layer by layer, to the right and back; the best order
that was met counts.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence

from odfbuild.cli.page.layers import Arc, Layered

__all__ = ["count_crossings", "ordered"]

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
    layers: Sequence[Sequence[int]], near: Sequence[Sequence[int]], *, backwards: bool
) -> list[list[int]]:
    """Return the layers after one sweep: each in the order of the means of its neighbours."""
    at: dict[int, float] = {}
    found: list[list[int]] = []
    for layer in reversed(layers) if backwards else layers:
        own = {point: _share(number, layer) for number, point in enumerate(layer)}
        wish = {
            point: sum(at[each] for each in near[point]) / len(near[point])
            if near[point]
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
