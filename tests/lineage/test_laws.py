"""Laws of lineage, held against a naive second opinion."""

from collections.abc import Mapping
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
)
from odfbuild.lineage.relations import LineageRelations
from tests.lineage.graphs import (
    SOURCES,
    Links,
    acyclic,
    has_cycle,
    homes,
    links,
    naive_tree,
    node,
    pairs,
    related,
    relations_of,
    snapshot,
    walk,
)

directions = st.sampled_from(LineageDirection)
numbers = st.integers(0, 7)
Homes = Mapping[UUID, str]


@given(links)
def test_exactly_what_has_no_cycle_is_accepted_at_once(found: Links) -> None:
    try:
        held = LineageRelations(relations=relations_of(found))
    except InconsistentLineageException as error:
        assert has_cycle(found)
        cycle = [each.int - 1 for each in error.cycle]
        assert all(pair in found for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    else:
        assert not has_cycle(found)
        assert pairs(held.relations) == found


@given(links)
def test_one_by_one_everything_goes_in_that_closes_no_cycle(found: Links) -> None:
    held = LineageRelations()
    expected: Links = {}
    for pair, classifier in found.items():
        before = snapshot(held)
        (relation,) = relations_of({pair: classifier})
        try:
            held.merge_new_lineage_relation(relation)
        except InconsistentLineageException:
            assert has_cycle([*expected, pair])
            assert snapshot(held) == before
        else:
            expected[pair] = classifier
            assert not has_cycle(expected)
    assert pairs(held.relations) == expected
    assert snapshot(held) == snapshot(LineageRelations(relations=relations_of(expected)))


@given(links, links, st.lists(links, max_size=3))
def test_merging_in_portions_ends_where_merging_at_once_does(
    first: Links, second: Links, more: list[Links]
) -> None:
    held = LineageRelations()
    whole: dict[tuple[int, int], str] = {}
    for portion in (first, second, *more):
        kept = {pair: whole.get(pair, classifier) for pair, classifier in portion.items()}
        try:
            held.merge(LineageRelations(relations=relations_of(kept)))
        except InconsistentLineageException:
            assert has_cycle([*whole, *kept])
        else:
            whole |= kept
            assert not has_cycle(whole)
    assert pairs(held.relations) == whole


@given(acyclic(), homes)
def test_merging_is_idempotent(found: Links, known: Homes) -> None:
    held = LineageRelations(relations=relations_of(found), homes=known)
    before = snapshot(held)
    held.merge(LineageRelations(clone=held))
    assert snapshot(held) == before


@given(acyclic(), st.randoms(use_true_random=False), homes, homes)
def test_merging_commutes_where_nothing_conflicts(
    found: Links, random: Random, known: Homes, other: Homes
) -> None:
    sides: tuple[Links, Links] = ({}, {})
    for pair, classifier in found.items():
        for side in random.choice([sides[:1], sides[1:], sides]):
            side[pair] = classifier
    agreed = {**other, **known}
    one = LineageRelations(relations=relations_of(sides[0]), homes=known)
    two = LineageRelations(relations=relations_of(sides[1]), homes={k: agreed[k] for k in other})
    forth, back = LineageRelations(clone=one), LineageRelations(clone=two)
    forth.merge(two)
    back.merge(one)
    assert pairs(forth.relations) == pairs(back.relations) == found
    assert dict(forth.homes) == dict(back.homes) == agreed


@given(acyclic(), numbers, directions)
def test_extraction_is_that_of_the_definition(
    found: Links, root: int, direction: LineageDirection
) -> None:
    held = LineageRelations(relations=relations_of(found))
    one = held.extract_tree(node(root), direction)
    expected = naive_tree(found, root, direction)
    assert one == expected
    kept = [each.children is None for each, _ in walk(one)]
    assert kept == [each.children is None for each, _ in walk(expected)]
    assert {each.int - 1 for each in one.child_datasets()} == related(found, root, direction)


@given(acyclic(), numbers, directions, homes)
def test_what_is_extracted_merges_back_to_the_same_tree(
    found: Links, root: int, direction: LineageDirection, known: Homes
) -> None:
    held = LineageRelations(relations=relations_of(found), homes=known)
    one = held.extract_tree(node(root), direction)
    again = LineageRelations(one)
    assert again.extract_tree(node(root), direction) == one
    assert pairs(again.relations).items() <= found.items()
    assert LineageTree.deserialise(one.serialise()).serialise() == one.serialise()


@given(acyclic(), numbers, directions, st.integers(1, 4))
def test_a_tree_merged_to_some_depth_gives_the_relations_that_near(
    found: Links, root: int, direction: LineageDirection, depth: int
) -> None:
    one = naive_tree(found, root, direction)
    near = {
        (parent.dataset_id, child.dataset_id)
        for parent, at in walk(one)
        if at < depth
        for below in (parent.children or {}).values()
        for child in below
    }
    held = LineageRelations(one, max_depth=depth)
    ends = {
        (r.derived_id, r.source_id) if direction is SOURCES else (r.source_id, r.derived_id)
        for r in held.relations
    }
    assert ends == near


@given(links, links, homes, homes, st.booleans())
def test_a_difference_applied_gives_the_union(
    mine: Links, theirs: Links, known: Homes, other: Homes, allowed: bool
) -> None:
    if has_cycle(mine) or has_cycle(theirs):
        return
    one = LineageRelations(relations=relations_of(mine), homes=known)
    two = LineageRelations(relations=relations_of(theirs), homes=other)
    before = snapshot(one), snapshot(two)
    conflict = any(theirs.get(pair, c) != c for pair, c in mine.items()) or any(
        other.get(dataset, home) != home for dataset, home in known.items()
    )
    try:
        added, changed, housed, moved = one.relations_diff(two, allow_updates=allowed)
    except InconsistentLineageException:
        assert has_cycle([*mine, *theirs]) or (conflict and not allowed)
        return
    finally:
        assert (snapshot(one), snapshot(two)) == before
    assert not has_cycle([*mine, *theirs])
    assert allowed or not (conflict or changed or moved)
    applied = {**pairs(two.relations), **_numbered(added), **_numbered(changed)}
    assert applied == {**theirs, **mine}
    assert {**other, **housed, **moved} == {**other, **known}
    assert not added.keys() & two.by_derived.keys()
    assert all(pair not in theirs for pair in _numbered(added))
    assert all(theirs[pair] != c for pair, c in _numbered(changed).items())
    assert all(dataset not in other for dataset in housed)
    assert all(other[dataset] != home for dataset, home in moved.items())


@st.composite
def trees(draw: st.DrawFn) -> LineageTree:
    """Any trees of one direction: with children not known, none, and some, at any depth."""
    direction = draw(directions)
    leaves = st.builds(
        LineageTree, st.just(direction), numbers.map(node), st.sampled_from([None, {}])
    )
    return draw(
        st.recursive(
            leaves,
            lambda below: st.builds(
                LineageTree,
                st.just(direction),
                numbers.map(node),
                st.dictionaries(st.sampled_from("ab"), st.lists(below, max_size=3), max_size=2),
                st.none() | st.just("here"),
            ),
            max_leaves=8,
        )
    )


def shape(found: LineageTree) -> list[object]:
    """Return what a tree is, children that are not known told from none: equality does not."""
    return [
        (
            each.dataset_id,
            each.direction,
            each.home,
            each.children is None,
            set(each.children or ()),
        )
        for each, _ in walk(found)
    ]


@given(trees())
def test_serialisation_keeps_every_node_as_it_is(found: LineageTree) -> None:
    assert LineageTree.deserialise(found.serialise()) == found
    again = LineageTree.deserialise(found.serialise(complete=True))
    assert again == found
    assert shape(again) == shape(found)


def _numbered(found: Mapping[LineageIDPair, str]) -> Links:
    return pairs(LineageRelation(c, each.source_id, each.derived_id) for each, c in found.items())
