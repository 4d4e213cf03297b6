"""Order within layers: few edges cross."""

from itertools import combinations

from hypothesis import given

from odfbuild.cli.page.layout import Layered, count_crossings, layered, ordered
from tests.cli.page.graphs import Arcs, acyclic, made_up


def by_pairs(layers: list[list[int]], graph: Layered) -> int:
    at = {point: place for layer in layers for place, point in enumerate(layer)}
    return sum(
        (at[a] - at[c]) * (at[b] - at[d]) < 0
        for (a, b), (c, d) in combinations(graph.steps, 2)
        if graph.level[a] == graph.level[c]
    )


@given(acyclic())
def test_crossings_are_counted_as_by_looking_at_every_pair(arcs: Arcs) -> None:
    graph = layered(*arcs)
    for layers in (graph.layers(), ordered(graph)):
        assert count_crossings(layers, graph.steps) == by_pairs(layers, graph)


@given(acyclic())
def test_every_point_keeps_its_layer(arcs: Arcs) -> None:
    graph = layered(*arcs)
    assert [sorted(layer) for layer in ordered(graph)] == graph.layers()


def test_what_need_not_cross_does_not() -> None:
    ladder = layered(8, [(0, 7), (1, 6), (2, 5), (3, 4)])
    assert by_pairs(ordered(ladder), ladder) == 0
    tree = layered(10, [(0, 9), (0, 4), (9, 1), (4, 3), (9, 2), (4, 8), (2, 7), (3, 5), (8, 6)])
    assert by_pairs(ordered(tree), tree) == 0


def test_a_large_graph_crosses_less_than_it_would_in_order_of_numbers() -> None:
    given = made_up(300, 8, 1)
    graph = layered(300, [(each.source, each.derived) for each in given.edges])
    assert by_pairs(ordered(graph), graph) < by_pairs(graph.layers(), graph) / 2
