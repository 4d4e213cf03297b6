"""Lineage in SQLite: cases, and laws against a naive second opinion."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.lineage.ids import DSID, node_id
from odfbuild.lineage.model import InconsistentLineageException, LineageDirection, LineageTree
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.resource import AbstractLineageResource
from odfbuild.lineage.store import (
    KnownDataset,
    LineageFile,
    LineageStoreError,
    SqliteLineageResource,
)
from odfbuild.odf.identity import DatasetId
from tests.lineage.graphs import (
    DERIVED,
    SOURCES,
    Links,
    acyclic,
    chain_of,
    deep_tree,
    has_cycle,
    homes,
    links,
    naive_tree,
    node,
    pairs,
    related,
    relation,
    relations_of,
    tree,
    walk,
)

DIAMOND = [relation(0, 1), relation(0, 2), relation(1, 3), relation(2, 3), relation(3, 4)]
DID = DatasetId(bytes(range(32)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lineage.sqlite"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[SqliteLineageResource]:
    found = SqliteLineageResource(LineageFile(path if request.param == "file" else None))
    yield found
    found.close()


def held(store: SqliteLineageResource) -> tuple[Links, dict[UUID, str]]:
    return pairs(store.get_all_lineage()), dict(store.get_all_homes())


def produced() -> LineageTree:
    """Return a product of two parts that share a correction, which only one of them explains."""
    shared = tree(30, {"preatmos": [tree(40)]}, "ancillary")
    level1 = [[tree(10 * part + n, {}, "level1") for n in range(3)] for part in (1, 2)]
    ards = [
        tree(1, {"l1": level1[0], "atmos_corr": [tree(30, home="ancillary")]}),
        tree(2, {"l1": level1[1], "atmos_corr": [shared]}),
    ]
    return tree(0, {"ard": ards})


def test_an_unknown_dataset_is_a_lone_node(store: SqliteLineageResource) -> None:
    for found in (store.get_source_tree(node(0)), store.get_source_tree(node(0), 3)):
        assert (found.dataset_id, found.direction, found.children) == (node(0), SOURCES, {})
    assert store.get_derived_tree(str(node(0))).direction is DERIVED
    assert store.get_source_ids(node(0)) == store.get_derived_ids(node(0)) == {}


def test_a_tree_is_added_and_read_to_any_depth(store: SqliteLineageResource) -> None:
    store.add(produced(), max_depth=1)
    parts = (store.get_source_tree(node(0)).children or {})["ard"]
    assert [each.children for each in parts] == [{}, {}]
    store.add(produced(), max_depth=2)
    parts = (store.get_source_tree(node(0)).children or {})["ard"]
    assert all(len((each.children or {})["l1"]) == 3 for each in parts)
    shared = store.get_source_tree(node(0)).find_subtree(node(30))
    assert shared is not None
    assert not shared.children
    store.add(produced())
    shared = store.get_source_tree(node(0)).find_subtree(node(30))
    assert shared is not None
    assert shared.to_eo3_doc() == {"preatmos": [node(40)]}
    assert store.get_derived_tree(node(40)).find_subtree(node(0)) is not None
    assert store.get_homes(node(10), node(30), node(0)) == {
        node(10): "level1",
        node(30): "ancillary",
    }


def test_a_removal_goes_to_its_depth_and_leaves_homes(store: SqliteLineageResource) -> None:
    store.add(produced())
    before = held(store)[1]
    store.remove(node(0), SOURCES, max_depth=2)
    assert held(store) == ({(30, 40): "preatmos"}, before)
    store.remove(node(77), DERIVED)
    store.remove(node(40), DERIVED)
    assert held(store) == ({}, before)


def test_a_limited_tree_tells_more_from_nothing(store: SqliteLineageResource) -> None:
    store.bulk_add(DIAMOND)
    one = store.get_source_tree(node(0), 1)
    assert [each.children for each in (one.children or {})["c"]] == [None, None]
    two = store.get_source_tree(node(0), 2)
    assert {n.dataset_id: n.children is None for n, depth in walk(two) if depth == 2} == {
        node(3): True
    }
    assert store.get_source_tree(node(3), 1) == tree(3, {"c": [tree(4)]})
    (leaf,) = (store.get_source_tree(node(3), 1).children or {})["c"]
    assert leaf.children == {}


def test_a_short_way_and_a_long_way_stay_within_the_depth(store: SqliteLineageResource) -> None:
    store.bulk_add([*chain_of(5), relation(5, 2)])
    one = store.get_source_tree(node(5), 3)
    assert max(depth for _, depth in walk(one)) == 3
    assert one.child_datasets() == {node(n) for n in range(5)}


def test_the_home_of_a_dataset_without_relations_is_told(store: SqliteLineageResource) -> None:
    store.set_home("here", node(0))
    assert store.get_source_tree(node(0)).home == "here"
    assert store.get_derived_tree(node(0), 1).home == "here"


def test_a_chain_of_any_length_is_stored_read_and_removed(path: Path) -> None:
    store = SqliteLineageResource(LineageFile(path))
    length = 20_000
    store.bulk_add(chain_of(length))
    assert store.get_source_tree(node(length)) == deep_tree(length)
    with pytest.raises(InconsistentLineageException) as caught:
        store.bulk_add([relation(0, length)])
    assert len(caught.value.cycle) == length + 1
    store.remove(node(length), SOURCES)
    assert held(store) == ({}, {})
    store.close()


Change = Callable[[SqliteLineageResource], Any]
REFUSED: dict[str, tuple[Change, str]] = {
    "self": (lambda s: s.bulk_add([relation(7, 7)]), "acyclic"),
    "two by bulk": (lambda s: s.bulk_add([relation(8, 9), relation(1, 0)]), "acyclic"),
    "far by merge": (
        lambda s: s.merge(LineageRelations(relations=[relation(8, 9), relation(4, 0)])),
        "acyclic",
    ),
    "far by update": (
        lambda s: s.merge(
            LineageRelations(relations=[relation(0, 1, "x"), relation(4, 0)]), allow_updates=True
        ),
        "acyclic",
    ),
    "by tree": (lambda s: s.add(tree(4, {"c": [tree(5, {"c": [tree(0)]})]})), "acyclic"),
    "trial": (
        lambda s: s.merge(LineageRelations(relations=[relation(4, 0)]), validate_only=True),
        "acyclic",
    ),
    "classifier": (
        lambda s: s.merge(LineageRelations(relations=[relation(8, 9), relation(0, 1, "x")])),
        "inconsistent classifiers",
    ),
    "home": (
        lambda s: s.merge(LineageRelations(relations=[relation(8, 9)], homes={node(0): "x"})),
        "inconsistent homes",
    ),
    "home of a lone tree": (lambda s: s.add(tree(0, home="x")), "inconsistent homes"),
    "home by bulk": (
        lambda s: s.bulk_add_homes([(node(8), "y"), (node(0), "x")]),
        "inconsistent homes",
    ),
    "two homes in one": (
        lambda s: s.bulk_add_homes([(node(8), "y"), (node(8), "x")]),
        "inconsistent homes",
    ),
}


@pytest.mark.parametrize(("change", "text"), REFUSED.values(), ids=list(REFUSED))
def test_what_contradicts_is_refused_and_leaves_no_trace(
    store: SqliteLineageResource, change: Change, text: str
) -> None:
    store.merge(LineageRelations(relations=DIAMOND, homes={node(0): "h"}))
    before = held(store)
    with pytest.raises(InconsistentLineageException, match=text):
        change(store)
    assert held(store) == before


def test_a_cycle_is_named_from_end_to_end(store: SqliteLineageResource) -> None:
    store.bulk_add([*chain_of(4), relation(50, 3)])
    with pytest.raises(InconsistentLineageException) as caught:
        store.bulk_add([relation(0, 4)])
    cycle = list(caught.value.cycle)
    assert sorted(cycle) == [node(n) for n in range(5)]
    assert cycle[(cycle.index(node(4)) + 1) % 5] == node(3)


def test_updates_change_what_is_there_and_delete_nothing(store: SqliteLineageResource) -> None:
    store.merge(LineageRelations(relations=DIAMOND, homes={node(0): "h", node(1): "i"}))
    store.add(tree(0, {"x": [tree(1, home="j")], "y": [tree(9)]}), allow_updates=True)
    relations, known = held(store)
    assert relations == {**pairs(DIAMOND), (0, 1): "x", (0, 9): "y"}
    assert known == {node(0): "h", node(1): "j"}
    store.add(tree(0, home="k"), allow_updates=True)
    assert store.get_homes(node(0)) == {node(0): "k"}


def test_a_trial_writes_nothing_and_says_what_is_wrong(store: SqliteLineageResource) -> None:
    store.bulk_add(DIAMOND)
    before = held(store)
    store.merge(LineageRelations(relations=[relation(8, 9)], homes={node(0): "h"}), False, True)
    assert held(store) == before
    with pytest.raises(ValueError):
        store.merge(LineageRelations(), allow_updates=True, validate_only=True)


def test_homes_are_set_read_and_cleared(store: SqliteLineageResource) -> None:
    ids = [node(n) for n in range(10)]
    assert store.get_homes(*ids) == {}
    assert store.clear_home(*ids) == 0
    assert store.set_home("spam", *ids) == 10
    assert store.get_homes(*ids, node(99)) == dict.fromkeys(ids, "spam")
    assert store.set_home("eggs", node(5), node(50)) == 0
    assert store.set_home("eggs", node(50), node(50)) == 0
    assert store.set_home("eggs", node(5), node(50), node(50), allow_updates=True) == 2
    assert store.set_home("eggs", node(5), allow_updates=True) == 0
    assert store.set_home("eggs") == store.set_home(None, node(70)) == 0
    assert store.clear_home(home="eggs") == 2
    assert store.clear_home(node(0), str(node(1)), node(99)) == 2
    assert store.clear_home() == 0
    assert store.set_home("", node(0)) == 1
    assert store.get_homes(node(0)) == {node(0): ""}
    assert store.get_homes() == {}
    with pytest.raises(ValueError):
        store.clear_home(node(0), home="spam")


@pytest.mark.parametrize("bad", ["no uuid", "did:odf:fed01", "did:web:x", 7])
def test_a_malformed_id_is_a_value_error(store: SqliteLineageResource, bad: Any) -> None:
    for use in (
        store.get_source_tree,
        store.get_homes,
        lambda each: store.set_home("h", node(0), each),
        lambda each: store.remove(each, SOURCES),
    ):
        with pytest.raises(ValueError):
            use(bad)
    assert held(store) == ({}, {})


def test_odf_ids_are_kept_beside_the_uuids_they_become(store: SqliteLineageResource) -> None:
    expected = uuid5(UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8"), str(DID))
    assert node_id(DID) == node_id(str(DID)) == expected
    store.put_datasets(KnownDataset(DID, "old.name"))
    store.put_datasets(KnownDataset(DID, "new.name"))
    assert store.get_datasets() == {expected: KnownDataset(DID, "new.name")}
    store.set_home("here", DID)
    assert store.get_homes(str(DID)) == {expected: "here"}


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_records_go_from_store_to_store(store: SqliteLineageResource, size: int) -> None:
    store.merge(LineageRelations(relations=DIAMOND, homes={node(0): "h", node(77): ""}))
    other = SqliteLineageResource()
    done = other.bulk_add(store.get_all_lineage(size), size)
    assert (done.completed, done.skipped, done.safe) == (5, 0, None)
    assert other.bulk_add_homes(store.get_all_homes(size), size)[:2] == (2, 0)
    assert held(other) == held(store)
    again = other.bulk_add([*store.get_all_lineage(), relation(0, 9), relation(0, 9)], size)
    assert again[:2] == (1, 6)
    other.close()


def test_a_pair_that_is_stored_keeps_its_classifier_and_counts_as_skipped(
    store: SqliteLineageResource,
) -> None:
    store.bulk_add(DIAMOND)
    before = held(store)
    done = store.bulk_add([relation(0, 1, "x"), relation(8, 9, "x"), relation(8, 9, "y")])
    assert done[:2] == (1, 2)
    assert set(store.get_source_ids(node(8))) == {"x"}
    store.remove(node(8), LineageDirection.SOURCES)
    assert held(store) == before


def test_reading_goes_on_with_what_was_there_while_others_write(path: Path) -> None:
    store = SqliteLineageResource(LineageFile(path))
    store.bulk_add(chain_of(100))
    reading = store.get_all_lineage(batch_size=10)
    next(reading)
    writer = threading.Thread(target=lambda: store.bulk_add(chain_of(300)[200:]))
    writer.start()
    writer.join()
    store.remove(node(100), SOURCES)
    assert len(list(reading)) == 99
    assert len(list(store.get_all_lineage())) == 100
    store.close()


def test_who_opens_a_new_file_waits_for_others_that_do(path: Path) -> None:
    for number in range(20):
        made = path.with_name(f"{number}.sqlite")
        ready = threading.Barrier(8)

        def add(k: int, file: Path = made, ready: threading.Barrier = ready) -> None:
            resource = SqliteLineageResource(LineageFile(file))
            ready.wait()
            resource.bulk_add([relation(k, 0)])

        work = [threading.Thread(target=add, args=[k]) for k in range(1, 9)]
        for each in work:
            each.start()
        for each in work:
            each.join()
        assert len(held(SqliteLineageResource(LineageFile(made)))[0]) == 8


def test_threads_and_other_openings_see_each_other(path: Path) -> None:
    one, two = (SqliteLineageResource(LineageFile(path)) for _ in range(2))
    work = [
        threading.Thread(target=each.bulk_add, args=[[relation(1000 * n + k, 1000 * n)]])
        for n, each in enumerate([one, two] * 4)
        for k in range(1, 6)
    ]
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert held(one) == held(two)
    assert len(held(one)[0]) == 40
    one.close()
    two.close()


def test_a_transaction_is_whole_and_what_failed_in_it_is_not_there(
    store: SqliteLineageResource,
) -> None:
    with pytest.raises(KeyError), store.transaction():
        store.bulk_add(DIAMOND)
        raise KeyError
    assert held(store) == ({}, {})
    with store.transaction():
        store.bulk_add(DIAMOND)
        with pytest.raises(InconsistentLineageException):
            store.bulk_add([relation(8, 9), relation(4, 0)])
        store.set_home("h", node(0))
    assert held(store) == (pairs(DIAMOND), {node(0): "h"})


def test_all_that_a_transaction_wrote_so_far_is_read_within_it(
    store: SqliteLineageResource,
) -> None:
    with store.transaction():
        store.bulk_add(DIAMOND)
        store.set_home("h", node(0))
        store.put_datasets(KnownDataset(DID, "a"))
        assert held(store) == (pairs(DIAMOND), {node(0): "h"})
        assert store.get_datasets() == {node_id(DID): KnownDataset(DID, "a")}


def test_a_reading_that_is_given_up_takes_nothing_with_it(store: SqliteLineageResource) -> None:
    store.bulk_add(DIAMOND[:2])
    reading = store.get_all_lineage(batch_size=1)
    next(reading)
    store.bulk_add(DIAMOND[2:])
    found: list[object] = []
    other = threading.Thread(target=lambda: found.append(held(store)), daemon=True)
    other.start()
    other.join(20)
    reading.close()  # type: ignore[attr-defined]
    assert found == [(pairs(DIAMOND), {})] == [held(store)]


def test_a_reading_may_outlive_the_store(store: SqliteLineageResource) -> None:
    store.bulk_add(DIAMOND)
    reading = store.get_all_lineage(batch_size=1)
    next(reading)
    store.close()
    reading.close()  # type: ignore[attr-defined]


def test_what_was_stored_is_there_when_opened_again(path: Path) -> None:
    for expected in ({}, pairs(DIAMOND)):
        store = SqliteLineageResource(LineageFile(path))
        assert held(store)[0] == expected
        store.bulk_add(DIAMOND)
        store.close()


@pytest.mark.parametrize("kept", [10, 100, 5000, 8192])
def test_a_truncated_file_is_named_and_left_alone(path: Path, kept: int) -> None:
    store = SqliteLineageResource(LineageFile(path))
    store.bulk_add(chain_of(2000))
    store.close()
    path.write_bytes(path.read_bytes()[:kept])
    before = path.read_bytes()
    with pytest.raises(LineageStoreError, match="cannot be read") as caught:
        list(SqliteLineageResource(LineageFile(path)).get_all_lineage())
    assert str(path) in caught.value.why
    assert path.read_bytes() == before


def test_a_file_of_another_version_is_named_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(LineageStoreError, match="another version"):
        SqliteLineageResource(LineageFile(path)).get_homes(node(0))


def test_a_resource_of_the_methods_of_the_proposal_will_do() -> None:
    class Resource(AbstractLineageResource):
        def get_derived_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
            return LineageTree(DERIVED, node_id(id), {})

        def get_source_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
            return LineageTree.from_data(node_id(id), {"l1": [node(9)]})

        def merge(
            self, rels: LineageRelations, allow_updates: bool = False, validate_only: bool = False
        ) -> None: ...

        def add(
            self, tree: LineageTree, max_depth: int = 0, allow_updates: bool = False
        ) -> None: ...

        def remove(self, id_: DSID, direction: LineageDirection, max_depth: int = 0) -> None: ...

        def set_home(self, home: str, *args: DSID, allow_updates: bool = False) -> int:
            return 0

        def clear_home(self, *args: DSID, home: str | None = None) -> int:
            return 0

        def get_homes(self, *args: DSID) -> dict[UUID, str]:
            return {}

    found = Resource(LineageFile())
    assert found.get_source_ids(node(0)) == {"l1": [node(9)]}
    assert found.get_derived_ids(node(0)) == {}


def test_an_index_without_external_lineage_is_refused() -> None:
    class Index(LineageFile):
        @property
        def supports_external_lineage(self) -> bool:
            return False

    with pytest.raises(ValueError):
        SqliteLineageResource(Index())


@given(acyclic(), st.integers(0, 7), st.sampled_from(LineageDirection), homes, st.booleans())
def test_a_whole_tree_is_that_of_the_definition(
    found: Links, root: int, direction: LineageDirection, known: dict[UUID, str], among_others: bool
) -> None:
    store = SqliteLineageResource()
    if among_others:
        store.bulk_add(relation(n + 1, n) for n in range(100, 300))
        store.bulk_add_homes([(node(150), "elsewhere")])
    store.merge(LineageRelations(relations=relations_of(found), homes=known))
    get = store.get_source_tree if direction is SOURCES else store.get_derived_tree
    expected = LineageRelations(relations=relations_of(found), homes=known)
    assert get(node(root)) == expected.extract_tree(node(root), direction)
    bare = naive_tree(found, root, direction)
    assert [(n.dataset_id, n.children is None) for n, _ in walk(get(node(root)))] == [
        (n.dataset_id, n.children is None) for n, _ in walk(bare)
    ]
    store.close()


@given(acyclic(), st.integers(0, 7), st.sampled_from(LineageDirection), st.integers(1, 4))
def test_a_limited_tree_holds_what_is_that_near_and_no_more(
    found: Links, root: int, direction: LineageDirection, depth: int
) -> None:
    store = SqliteLineageResource()
    store.bulk_add(relations_of(found))
    get = store.get_source_tree if direction is SOURCES else store.get_derived_tree
    near = [{root}]
    for _ in range(depth):
        ends = [(d, s) if direction is SOURCES else (s, d) for d, s in found]
        near.append({far for at, far in ends if at in near[-1]})
    one = get(node(root), depth)
    assert max(at for _, at in walk(one)) <= depth
    assert {n.dataset_id for n, _ in walk(one)} == {node(n) for of in near for n in of}
    full = LineageRelations(one)
    assert pairs(full.relations).items() <= found.items()
    for each, at in walk(one):
        below = related(found, each.dataset_id.int - 1, direction)
        if each.children is None:
            others = [n for n, _ in walk(one) if n.dataset_id == each.dataset_id]
            assert at == depth or len(others) > 1
            assert below or len(others) > 1
        elif not each.children:
            assert not below
    store.close()


@given(links, links, st.sampled_from(["merge", "update", "bulk"]))
def test_exactly_what_closes_a_cycle_or_differs_is_refused(
    first: Links, second: Links, way: str
) -> None:
    store = SqliteLineageResource()
    expected: Links = {}
    for portion in (first, second):
        differs = any(expected.get(pair, c) != c for pair, c in portion.items())
        try:
            if way == "bulk":
                store.bulk_add(relations_of(portion), 3)
            else:
                rels = LineageRelations(relations=relations_of(portion))
                store.merge(rels, allow_updates=way == "update")
        except InconsistentLineageException:
            assert has_cycle([*expected, *portion]) or (differs and way != "update")
        else:
            expected |= portion
            assert not has_cycle(expected)
            assert not differs or way == "update"
        assert held(store)[0] == expected
    store.close()


@given(acyclic(), st.integers(0, 7), st.sampled_from(LineageDirection), st.integers(0, 4))
def test_a_removal_takes_what_hangs_on_datasets_nearer_than_the_depth(
    found: Links, root: int, direction: LineageDirection, depth: int
) -> None:
    store = SqliteLineageResource()
    store.bulk_add(relations_of(found))
    store.remove(node(root), direction, depth)
    reached = {root, *related(found, root, direction)}
    if depth:
        level = reached = {root}
        for _ in range(depth - 1):
            ends = [(d, s) if direction is SOURCES else (s, d) for d, s in found]
            level = {far for at, far in ends if at in level}
            reached = reached | level
    left = {
        (d, s): c
        for (d, s), c in found.items()
        if (d if direction is SOURCES else s) not in reached
    }
    assert held(store)[0] == left
    store.close()
