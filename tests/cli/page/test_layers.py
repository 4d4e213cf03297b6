"""Layers: what leads to a dataset is left of it."""

from graphlib import CycleError
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given

from odfbuild.cli.page.layout import layered, levels
from tests.cli.page.graphs import Arcs, acyclic


def longest(graph: "nx.DiGraph[int]", node: int) -> int:
    return nx.dag_longest_path_length(graph.subgraph(nx.ancestors(graph, node) | {node}))


@given(acyclic())
def test_a_node_is_as_far_right_as_the_longest_way_to_it(arcs: Arcs) -> None:
    count, edges = arcs
    graph: nx.DiGraph[int] = nx.DiGraph(edges)
    graph.add_nodes_from(range(count))
    level = levels(count, edges)
    for node in graph:
        if graph.in_degree(node):
            assert level[node] == longest(graph, node)


@given(acyclic())
def test_what_comes_from_nothing_is_next_to_its_nearest_reader(arcs: Arcs) -> None:
    count, edges = arcs
    level = levels(count, edges)
    for node in set(range(count)) - {target for _, target in edges}:
        readers = [level[target] for source, target in edges if source == node]
        assert level[node] == min(readers, default=1) - 1


@given(acyclic())
def test_every_edge_goes_through_each_layer_between(arcs: Arcs) -> None:
    count, edges = arcs
    found = layered(count, edges)
    for (source, target), way in zip(edges, found.ways, strict=True):
        stops = [source, *way, target]
        first = found.level[source]
        assert [found.level[each] for each in stops] == list(range(first, first + len(stops)))
        assert set(pairwise(stops)) <= set(found.steps)
        assert all(each >= count for each in way)


def test_edges_from_one_node_share_their_bends() -> None:
    found = layered(5, [(0, 1), (1, 2), (2, 3), (2, 4), (0, 3), (0, 4)])
    assert found.ways[4] == found.ways[5]
    assert len(found.level) == 7


def test_a_cycle_is_refused() -> None:
    with pytest.raises(CycleError):
        levels(2, [(0, 1), (1, 0)])
