"""Collections of relations, case by case."""

from collections.abc import Callable

import pytest

from odfbuild.lineage.model import InconsistentLineageException, LineageIDPair, LineageRelation
from odfbuild.lineage.relations import LineageRelations
from tests.lineage.graphs import (
    DERIVED,
    SOURCES,
    chain_of,
    deep_tree,
    node,
    pairs,
    relation,
    snapshot,
    tree,
)

DIAMOND = [relation(0, 1), relation(0, 2), relation(1, 3), relation(2, 3)]


def test_a_new_collection_is_empty() -> None:
    empty = LineageRelations()
    assert snapshot(empty) == ([], {}, {}, set(), {})


def test_relations_are_indexed_both_ways() -> None:
    held = LineageRelations(relations=[relation(0, 1, "a"), relation(0, 2, "b")])
    assert held.by_derived == {node(0): {node(1): "a", node(2): "b"}}
    assert held.by_source == {node(1): {node(0): "a"}, node(2): {node(0): "b"}}
    assert held.dataset_ids == {node(0), node(1), node(2)}
    assert held.relations == [relation(0, 1, "a"), relation(0, 2, "b")]


def test_what_only_has_a_home_is_in_no_relation() -> None:
    held = LineageRelations(tree(0, home="here"), homes={node(1): "there"})
    assert held.homes == {node(0): "here", node(1): "there"}
    assert held.dataset_ids == set()


def test_parts_are_merged_in_the_order_of_the_proposal() -> None:
    held = LineageRelations(
        tree(0, {"t": [tree(1)]}),
        relations=[relation(0, 3, "r")],
        clone=LineageRelations(relations=[relation(0, 2, "k")]),
    )
    assert [each.classifier for each in held.relations] == ["t", "k", "r"]


def test_a_clone_is_independent() -> None:
    first = LineageRelations(relations=DIAMOND, homes={node(0): "h"})
    before = snapshot(first)
    second = LineageRelations(clone=first)
    assert snapshot(second) == before
    second.merge_new_lineage_relation(relation(3, 4))
    second.merge_new_lineage_relation(relation(0, 4))
    second.merge_new_home(node(4), "h")
    assert snapshot(first) == before


def test_the_same_again_changes_nothing() -> None:
    held = LineageRelations(relations=DIAMOND, homes={node(0): "h", node(1): ""})
    before = snapshot(held)
    held.merge_new_lineage_relation(DIAMOND[0])
    held.merge_new_home(node(0), "h")
    held.merge_new_home(node(1), "")
    held.merge(held)
    assert snapshot(held) == before


Refused = Callable[[LineageRelations], None]


def cases() -> list[tuple[str, Refused, str]]:
    return [
        ("home", lambda r: r.merge_new_home(node(0), "other"), "inconsistent homes"),
        ("empty home", lambda r: r.merge_new_home(node(1), "other"), "inconsistent homes"),
        (
            "classifier",
            lambda r: r.merge_new_lineage_relation(relation(0, 1, "other")),
            "inconsistent classifiers",
        ),
        ("self", lambda r: r.merge_new_lineage_relation(relation(9, 9)), "acyclic"),
        ("known self", lambda r: r.merge_new_lineage_relation(relation(0, 0)), "acyclic"),
        ("cycle of two", lambda r: r.merge_new_lineage_relation(relation(1, 0)), "acyclic"),
        ("cycle of three", lambda r: r.merge_new_lineage_relation(relation(3, 0)), "acyclic"),
        (
            "second of a collection",
            lambda r: r.merge(LineageRelations(relations=[relation(5, 6), relation(3, 0)])),
            "acyclic",
        ),
        (
            "home after relations",
            lambda r: r.merge(LineageRelations(relations=[relation(5, 6)], homes={node(0): "x"})),
            "inconsistent homes",
        ),
        (
            "tree",
            lambda r: r.merge_tree(tree(5, {"a": [tree(6)], "c": [tree(0, home="x")]})),
            "inconsistent homes",
        ),
        (
            "cycle with what is here",
            lambda r: r.merge_tree(tree(3, {"a": [tree(4, {"a": [tree(0)]})]})),
            "acyclic",
        ),
    ]


@pytest.mark.parametrize(("change", "text"), [c[1:] for c in cases()], ids=[c[0] for c in cases()])
def test_what_contradicts_is_refused_and_leaves_no_trace(change: Refused, text: str) -> None:
    held = LineageRelations(relations=DIAMOND, homes={node(0): "h", node(1): ""})
    before = snapshot(held)
    with pytest.raises(InconsistentLineageException, match=text):
        change(held)
    assert snapshot(held) == before
    held.merge_new_lineage_relation(relation(3, 7))
    held.merge_tree(tree(0, {"c": [tree(8)]}))
    assert len(held.relations) == len(DIAMOND) + 2


def test_the_whole_cycle_is_named() -> None:
    held = LineageRelations(relations=chain_of(5))
    with pytest.raises(InconsistentLineageException) as caught:
        held.merge_new_lineage_relation(relation(0, 5))
    assert list(caught.value.cycle) == [node(n) for n in (5, 4, 3, 2, 1, 0)]
    assert str(node(3)) in str(caught.value)


def test_a_cycle_within_many_new_relations_is_named() -> None:
    ring = [*chain_of(40), relation(0, 40)]
    with pytest.raises(InconsistentLineageException) as caught:
        LineageRelations(relations=ring)
    cycle = list(caught.value.cycle)
    assert sorted(cycle) == [node(n) for n in range(41)]
    known = {(each.derived_id, each.source_id) for each in ring}
    assert all(pair in known for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_a_chain_of_any_length_works_in_any_order_and_way() -> None:
    length = 100_000
    held = LineageRelations(relations=chain_of(length))
    one = held.extract_tree(node(length))
    assert one == deep_tree(length)
    assert pairs(LineageRelations(one).relations) == pairs(held.relations)
    with pytest.raises(InconsistentLineageException, match=r"99993 more"):
        held.merge_new_lineage_relation(relation(0, length))


@pytest.mark.parametrize("order", [1, -1])
def test_a_long_chain_can_be_made_link_by_link(order: int) -> None:
    held = LineageRelations()
    for each in chain_of(20_000)[::order]:
        held.merge_new_lineage_relation(each)
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        held.merge_new_lineage_relation(relation(0, 20_000))
    assert len(held.relations) == 20_000


def test_two_halves_of_a_long_chain_can_be_joined() -> None:
    links = chain_of(2_000)
    held = LineageRelations(relations=[*links[1_001:], *links[:1_000]])
    held.merge_new_lineage_relation(links[1_000])
    with pytest.raises(InconsistentLineageException) as caught:
        held.merge_new_lineage_relation(relation(0, 2_000))
    assert len(caught.value.cycle) == 2_001


def test_a_tree_gives_relations_by_its_direction() -> None:
    down = LineageRelations(tree(0, {"a": [tree(1)]}))
    up = LineageRelations(tree(0, {"a": [tree(1, direction=DERIVED)]}, direction=DERIVED))
    assert down.relations == [LineageRelation("a", source_id=node(1), derived_id=node(0))]
    assert up.relations == [LineageRelation("a", source_id=node(0), derived_id=node(1))]


@pytest.mark.parametrize(
    ("depth", "count", "known"),
    [(0, 3, "12"), (1, 1, ""), (2, 2, "1"), (3, 3, "12"), (-1, 3, "12")],
)
def test_depth_counts_relations_and_homes_of_nodes_visited(
    depth: int, count: int, known: str
) -> None:
    one = tree(0, {"a": [tree(1, {"b": [tree(2, {"c": [tree(3)]}, home="2")]}, home="1")]})
    held = LineageRelations(one, max_depth=depth)
    assert len(held.relations) == count
    assert set(held.homes.values()) == set(known)


def test_the_children_of_a_dataset_stand_in_one_place() -> None:
    full = tree(9, {"x": [tree(8)]})
    for other in (tree(9), tree(9, {})):
        for both in ([full, other], [other, full]):
            assert len(LineageRelations(tree(0, {"a": both})).relations) == 2
    for twin in (tree(9, {"x": [tree(8)]}), tree(9, {"x": []}), tree(9, {"y": [tree(7)]})):
        with pytest.raises(InconsistentLineageException, match="Duplicate"):
            LineageRelations(tree(0, {"a": [full], "b": [tree(1, {"c": [twin]})]}))


def test_copies_below_the_depth_limit_are_not_looked_at() -> None:
    twins = tree(
        0,
        {"a": [tree(1, {"b": [tree(9, {"x": [tree(8)]})]}), tree(2, {"b": [tree(9, {"x": []})]})]},
    )
    assert len(LineageRelations(twins, max_depth=2).relations) == 4
    with pytest.raises(InconsistentLineageException, match="Duplicate"):
        LineageRelations(twins, max_depth=3)


def test_nodes_given_count_as_met() -> None:
    full = tree(9, {"x": [tree(8)]})
    with pytest.raises(InconsistentLineageException, match="Duplicate"):
        LineageRelations().merge_tree(tree(0, {"a": [full]}), nodes={node(9): full})


@pytest.mark.parametrize("depth", [0, 1])
def test_mixed_directions_are_refused_at_any_depth(depth: int) -> None:
    mixed = tree(0, {"a": [tree(1, {"b": [tree(2, direction=DERIVED)]})]})
    with pytest.raises(InconsistentLineageException, match="both derived and source"):
        LineageRelations(mixed, max_depth=depth)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_cycle_in_a_tree_is_refused_also_below_the_depth_limit(depth: int) -> None:
    looping = tree(0, {"a": [tree(1, {"b": [tree(2, {"c": [tree(1)]})]})]})
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        LineageRelations(looping, max_depth=depth)


def test_a_cycle_split_over_two_branches_is_refused() -> None:
    split = tree(0, {"a": [tree(1, {"b": [tree(2)]}), tree(2, {"b": [tree(1)]})]})
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        LineageRelations(split)


def test_a_tree_that_holds_itself_is_refused() -> None:
    one = tree(0)
    one.children = {"c": [one]}
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        LineageRelations(one)


def test_one_child_has_one_classifier() -> None:
    assert len(LineageRelations(tree(0, {"a": [tree(1), tree(1)]})).relations) == 1
    with pytest.raises(InconsistentLineageException, match="inconsistent classifiers"):
        LineageRelations(tree(0, {"a": [tree(1)], "b": [tree(1)]}))


def test_extraction_gives_children_to_the_first_copy_only() -> None:
    held = LineageRelations(relations=DIAMOND, homes={node(3): "h"})
    one = held.extract_tree(node(0))
    assert one == tree(
        0, {"c": [tree(1, {"c": [tree(3, home="h")]}), tree(2, {"c": [tree(3, home="h")]})]}
    )
    (first, second) = (one.children or {})["c"]
    assert [(each.children or {})["c"][0].children for each in (first, second)] == [{}, None]
    up = held.extract_tree(node(3), DERIVED)
    assert up.direction is DERIVED
    assert up.child_datasets() == {node(0), node(1), node(2)}


def test_extraction_of_an_unknown_dataset_is_a_lone_node() -> None:
    lone = LineageRelations(homes={node(0): "h"}).extract_tree(node(0))
    assert (lone.children, lone.home, lone.direction) == ({}, "h", SOURCES)


def test_extraction_minds_what_was_met_before() -> None:
    held = LineageRelations(relations=DIAMOND)
    met = {node(3)}
    one = held.extract_tree(node(0), so_far=met)
    assert met == {node(n) for n in range(4)}
    found = one.find_subtree(node(3))
    assert found is not None
    assert found.children is None
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        held.extract_tree(node(1), parents={node(3)})


def test_eo3_lineage_is_merged_where_there_is_any() -> None:
    held = LineageRelations()
    held.merge_from_eo3_doc({"id": str(node(0))}, home_derived="d")
    held.merge_from_eo3(node(0), {})
    assert snapshot(held) == snapshot(LineageRelations())
    held.merge_from_eo3(node(0), {"ard": [str(node(1))]}, home="h", home_derived="d")
    held.merge_from_eo3_doc({"id": str(node(2)), "lineage": {"ard": [node(1)]}})
    assert held.relations == [relation(0, 1, "ard"), relation(2, 1, "ard")]
    assert held.homes == {node(0): "d", node(1): "h"}


def test_the_difference_to_nothing_is_everything_as_a_copy() -> None:
    held = LineageRelations(relations=DIAMOND, homes={node(0): "h"})
    relations, _, homes, _ = held.relations_diff()
    relations.clear()
    homes.clear()
    assert len(held.relations) == 4
    assert held.homes == {node(0): "h"}
    assert held.relations_diff() == held.relations_diff(LineageRelations())


def test_a_difference_says_what_to_add_and_what_to_update() -> None:
    mine = LineageRelations(
        relations=[relation(0, 1, "new"), relation(0, 2)], homes={node(0): "new", node(1): "h"}
    )
    other = LineageRelations(
        relations=[relation(0, 1, "old"), relation(5, 6)], homes={node(0): "old", node(5): "h"}
    )
    assert mine.relations_diff(other, allow_updates=True) == (
        {LineageIDPair(node(0), node(2)): "c"},
        {LineageIDPair(node(0), node(1)): "new"},
        {node(1): "h"},
        {node(0): "new"},
    )


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        (LineageRelations(relations=[relation(0, 1, "other")]), "inconsistent classifiers"),
        (LineageRelations(homes={node(0): "other"}), "inconsistent homes"),
    ],
)
def test_a_difference_that_needs_updates_has_to_be_allowed(
    mine: LineageRelations, text: str
) -> None:
    other = LineageRelations(relations=DIAMOND, homes={node(0): "h"})
    with pytest.raises(InconsistentLineageException, match=text):
        mine.relations_diff(other)
    added, changed, homes, moved = mine.relations_diff(other, allow_updates=True)
    assert (added, homes) == ({}, {})
    assert len(changed) + len(moved) == 1


@pytest.mark.parametrize("allowed", [False, True])
def test_a_difference_that_closes_a_cycle_is_refused(allowed: bool) -> None:
    mine = LineageRelations(relations=[relation(0, 1), relation(2, 3)])
    other = LineageRelations(relations=[relation(1, 2), relation(3, 0)])
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        mine.relations_diff(other, allow_updates=allowed)
    assert (len(mine.relations), len(other.relations)) == (2, 2)
