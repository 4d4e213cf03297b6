"""The values of lineage: what trees compare, find, write and read."""

import copy
import json
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any
from uuid import UUID

import pytest

from odfbuild import lineage
from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
)
from tests.lineage.graphs import DERIVED, SOURCES, deep_tree, node, tree

ID, OTHER = str(node(0)), str(node(1))


def test_everything_offered_is_there() -> None:
    assert all(hasattr(lineage, name) for name in lineage.__all__)
    with pytest.raises(AttributeError):
        lineage.nothing_of_the_kind  # noqa: B018


def test_directions_have_the_numbers_and_labels_of_the_proposal() -> None:
    assert [(each.name, each.value, each.label) for each in LineageDirection] == [
        ("SOURCES", 1, "sources"),
        ("DERIVED", 2, "derivations"),
    ]
    assert SOURCES.opposite() is DERIVED
    assert DERIVED.opposite() is SOURCES


def test_an_inconsistency_is_an_exception_and_nothing_more() -> None:
    assert InconsistentLineageException.__bases__ == (Exception,)


def test_relations_and_pairs_can_be_keys_and_do_not_change() -> None:
    relation = LineageRelation("c", node(1), node(0))
    assert relation.ids() == LineageIDPair(node(0), node(1))
    assert {relation: 1, relation.ids(): 2}[LineageRelation("c", node(1), node(0))] == 1
    with pytest.raises(FrozenInstanceError):
        relation.classifier = "d"  # type: ignore[misc]


def test_trees_are_mutable_and_no_keys() -> None:
    one = tree(0)
    assert is_dataclass(one)
    one.children = {"c": [tree(1)]}
    assert one.child_datasets() == {node(1)}
    with pytest.raises(TypeError):
        hash(one)


def test_equality_takes_no_children_for_unknown_ones_and_any_direction() -> None:
    assert tree(0) == tree(0, {})
    assert tree(0) == tree(0, direction=DERIVED)
    assert tree(0) != tree(0, {"x": []})
    assert tree(0) != tree(0, home="here")
    assert tree(0) != tree(1)
    assert tree(0).__eq__(0) is NotImplemented


def test_equality_minds_the_order_of_siblings_and_of_nothing_else() -> None:
    one = tree(0, {"a": [tree(1)], "b": [tree(2), tree(3)]})
    assert one == tree(0, {"b": [tree(2), tree(3)], "a": [tree(1)]})
    assert one != tree(0, {"a": [tree(1)], "b": [tree(3), tree(2)]})


def test_deep_trees_are_compared_shown_and_walked() -> None:
    one, two = deep_tree(100_000), deep_tree(100_000)
    assert one == two
    assert len(one.child_datasets()) == 100_000
    assert one.find_subtree(node(0)) is not None
    assert "sources: 1" in repr(one)
    again = LineageTree.deserialise(one.serialise())
    assert again == one


def test_a_tree_that_holds_itself_is_equal_to_itself_and_cyclic() -> None:
    one, two = tree(0), tree(0)
    one.children, two.children = {"c": [one]}, {"c": [two]}
    assert one == two
    with pytest.raises(InconsistentLineageException, match="acyclic"):
        one.child_datasets()


def test_the_subtree_whose_children_are_known_is_found_first() -> None:
    unknown, none, known = tree(9), tree(9, {}), tree(9, {"x": [tree(8)]})
    assert tree(0, {"a": [unknown, none, known]}).find_subtree(node(9)) is none
    assert tree(0, {"a": [tree(1, {"b": [unknown]}), known]}).find_subtree(node(9)) is known
    assert tree(0, {"a": [tree(1, {"b": [unknown]})]}).find_subtree(node(9)) is unknown
    assert tree(0).find_subtree(node(9)) is None
    text: Any = str(node(0))
    assert tree(0).find_subtree(text) is None


def test_the_root_is_no_child_of_itself() -> None:
    assert tree(0).child_datasets() == set()
    found = tree(0, {"a": [tree(1, {"a": [tree(2)]}), tree(2)]}).child_datasets()
    assert found == {node(1), node(2)}


def test_a_dataset_below_itself_is_named_with_the_whole_way() -> None:
    looping = tree(0, {"a": [tree(1, {"a": [tree(2, {"a": [tree(1)]})]})]})
    with pytest.raises(InconsistentLineageException, match=r"^LineageTrees must be acyclic") as one:
        looping.child_datasets()
    assert one.value.cycle == (node(1), node(2))


@pytest.mark.parametrize("children", [None, {}, {"x": []}, {"x": [None]}, {"x": [{}], "y": [None]}])
@pytest.mark.parametrize("direction", LineageDirection)
def test_serialisation_keeps_unknown_and_no_children_apart(
    children: Any, direction: LineageDirection
) -> None:
    below = children and {
        key: [tree(n + 1, of, direction=direction) for n, of in enumerate(each)]
        for key, each in children.items()
    }
    one = tree(0, below, "here", direction)
    again = LineageTree.deserialise(json.loads(json.dumps(one.serialise(complete=True))))
    assert again == one
    assert again.direction is direction
    assert again.children == one.children
    kept = [each.children for of in (again.children or {}).values() for each in of]
    assert kept == [each.children for of in (one.children or {}).values() for each in of]


def test_the_written_form_is_that_of_the_open_data_cube() -> None:
    one = tree(0, {"a": [tree(1, home="there")]}, "here")
    assert one.serialise() == {
        "id": ID,
        "home": "here",
        "sources": {"a": [{"id": OTHER, "home": "there"}]},
    }
    assert tree(0, {}, direction=DERIVED).serialise() == {"id": ID, "derivations": {}}
    assert tree(0, {}).serialise(specify_direction_if_empty=False) == {"id": ID}
    assert tree(0).serialise() == {"id": ID, "sources": {}}
    for one in (tree(1), tree(1, {})):
        nested = tree(0, {"a": [one]}).serialise()
        assert nested == {"id": ID, "sources": {"a": [{"id": OTHER}]}}
    assert tree(0, {"x": []}).serialise() == {"id": ID, "sources": {"x": []}}


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"sources": {}},
        {"id": ID},
        {"id": ID, "sources": {}, "derivations": {}},
        {"id": "no uuid", "sources": {}},
        {"id": 1, "sources": {}},
        {"id": ID, "sources": {"a": [{"id": OTHER, "derivations": {}}]}},
        {"id": ID, "sources": {"a": [{"id": OTHER, "sources": {}, "derivations": {}}]}},
        {"id": ID, "sources": {"a": [{}]}},
        {"id": ID, "sources": {"a": [OTHER]}},
        {"id": ID, "sources": {"a": {"id": OTHER}}},
        {"id": ID, "sources": {"a": OTHER}},
        {"id": ID, "sources": [OTHER]},
        {"id": ID, "sources": {5: []}},
        {"id": ID, "sources": {}, "home": 1},
        [ID],
    ],
)
def test_a_damaged_tree_is_refused(written: Any) -> None:
    with pytest.raises(ValueError):
        LineageTree.deserialise(written)


def test_a_direction_asked_for_is_the_direction_read() -> None:
    assert LineageTree.deserialise({"id": ID}, DERIVED).direction is DERIVED
    assert LineageTree.deserialise({"id": node(0), "more": 1}, SOURCES).children is None
    with pytest.raises(ValueError):
        LineageTree.deserialise({"id": ID, "sources": {}}, DERIVED)


def test_data_make_a_tree_of_depth_one() -> None:
    one = LineageTree.from_data(node(0), {"a": [node(1), str(node(2))]}, home="h", home_derived="d")
    assert one == tree(0, {"a": [tree(1, home="h"), tree(2, home="h")]}, "d")
    assert LineageTree.from_data(node(0), {}, home="h") == tree(0)
    assert LineageTree.from_data(node(0), {}).children is None
    assert LineageTree.from_data(node(0), {"a": [node(1)]}, DERIVED).direction is DERIVED


def test_an_eo3_document_makes_a_tree_and_a_tree_its_lineage() -> None:
    doc = {"id": ID, "lineage": {"ard": [OTHER, str(node(2))]}}
    one = LineageTree.from_eo3_doc(doc, home="h")
    assert one == tree(0, {"ard": [tree(1, home="h"), tree(2, home="h")]})
    assert one.to_eo3_doc() == {"ard": [node(1), node(2)]}
    assert tree(0).to_eo3_doc() == {}
    assert LineageTree.from_eo3_doc({"id": UUID(ID)}, home="h").children is None


@pytest.mark.parametrize(
    ("doc", "error"),
    [
        ({"lineage": {}}, KeyError),
        ({"id": "x"}, ValueError),
        ({"id": ID, "lineage": {"source_datasets": {"ard": {"id": OTHER}}}}, ValueError),
        ({"id": ID, "lineage": {"ard": OTHER}}, ValueError),
        ({"id": ID, "lineage": {"ard": ["x"]}}, ValueError),
        ({"id": ID, "lineage": [OTHER]}, ValueError),
        ({"id": ID, "lineage": {None: [OTHER]}}, ValueError),
        ({"id": ID, "lineage": {True: [OTHER]}}, ValueError),
    ],
)
def test_a_bad_eo3_document_is_refused(doc: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        LineageTree.from_eo3_doc(doc)


def test_a_copied_tree_is_independent() -> None:
    one = tree(0, {"a": [tree(1)]})
    two = copy.deepcopy(one)
    two.children = {}
    assert one.children != two.children
