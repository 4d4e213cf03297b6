"""Graphs for pages: drawn by hypothesis, or made from a seed."""

import random

from hypothesis import strategies as st

from odfbuild.cli.page.graph import Box, DatasetOrigin, Edge, Graph, GraphColumn

__all__ = ["Arcs", "acyclic", "made_up"]

Arcs = tuple[int, list[tuple[int, int]]]


@st.composite
def acyclic(draw: st.DrawFn, most: int = 14) -> Arcs:
    """Draw a number of nodes and edges between them that close no cycle, in any numbering."""
    count = draw(st.integers(1, most))
    names = draw(st.permutations(range(count)))
    pairs = [(names[a], names[b]) for b in range(count) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return count, chosen


def made_up(count: int, depth: int, columns: int, seed: int = 1) -> Graph:
    """Make a graph of many datasets, each of up to three others; the middle one is asked for."""
    luck = random.Random(seed)
    level = sorted(0 if n < count / 5 else luck.randrange(1, depth) for n in range(count))
    names = [f"acme.team{n % 7}.dataset-{n}" for n in range(count)]
    boxes: list[Box] = []
    edges: list[Edge] = []
    for n in range(count):
        before = [each for each in range(max(0, n - 60), n) if level[each] < level[n]]
        inputs = luck.sample(before, min(len(before), luck.randrange(1, 4))) if level[n] else []
        edges += [Edge(each, n, f"in{each % 5}") for each in inputs]
        own = tuple(
            GraphColumn(
                f"column_{k}",
                tuple((names[each], f"column_{luck.randrange(columns)}") for each in inputs[:1])
                if k % 3
                else (),
            )
            for k in range(columns)
        )
        rows = tuple((names[each], "column_0") for each in inputs[:1])
        boxes.append(Box(name=names[n], made=DatasetOrigin(own, rows), asked_for=n == count // 2))
    return Graph(title="Made up", about="as made up", boxes=boxes, edges=edges)
