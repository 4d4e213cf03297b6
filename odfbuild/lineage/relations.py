"""Relations between datasets as an indexed collection without cycles (Open Data Cube, EP-08).

Every merge is whole or not at all: what contradicts the collection leaves it as it was.

The graph is given as two mappings that mirror each other: what is above a node (its sources) and
what is below it (what is derived from it).
"""

import gc
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import isqrt
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
    below,
    below_itself,
    cyclic,
    two_classifiers,
    two_homes,
)

N = TypeVar("N", bound=Hashable)
Links = Mapping[N, Collection[N]]


def cycle_in(below: Links[N], above_counts: dict[N, int]) -> list[N] | None:
    """Return a cycle, each node above the one before it, or None; linear in nodes and links.

    `above_counts` says how many are above each node that has any, and is used up.
    """
    ready = [node for node in below if node not in above_counts]
    while ready:
        for each in below.get(ready.pop(), ()):
            left = above_counts[each] - 1
            if left:
                above_counts[each] = left
            else:
                del above_counts[each]
                ready.append(each)
    return _cycle_among(below, above_counts) if above_counts else None


def _cycle_among(below: Links[N], stuck: Mapping[N, int]) -> list[N]:
    """Follow links upwards among nodes of which each has one above it that is stuck as well."""
    above = {each: node for node in stuck for each in below.get(node, ()) if each in stuck}
    node = next(iter(above))
    met: dict[N, int] = {}
    while node not in met:
        met[node] = len(met)
        node = above[node]
    return list(met)[met[node] :]


def way_up(above: Links[N], start: N, end: N) -> list[N] | None:
    """Return the nodes from one to another that is above it, both included, or None."""
    came: dict[N, N] = {start: start}
    pending = [start]
    while pending:
        node = pending.pop()
        if node == end:
            return _back(came, start, end)
        for each in above.get(node, ()):
            if each not in came:
                came[each] = node
                pending.append(each)
    return None


def _back(came: Mapping[N, N], start: N, end: N) -> list[N]:
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


class Levels(Generic[N]):
    """Numbers that never fall on a way down, so that most new links are seen to close no cycle.

    A link upwards or within a level is looked into: a short search upwards within the level of its
    upper end, then whatever hangs below its lower end is lifted (Bender, Fineman, Gilbert, Tarjan,
    "A New Approach to Incremental Cycle Detection").  m links cost at most m ** 1.5 steps in all.
    A node that is not numbered has level 0.
    """

    def __init__(self, above: Links[N], below: Links[N]) -> None:
        self._above = above
        self._below = below
        self._levels: dict[N, int] = {}

    def clear(self) -> None:
        """Put everything on level 0, which is right for any graph without cycles."""
        self._levels.clear()

    def closes(self, upper: N, lower: N, size: int) -> bool:
        """Say whether a link that is in the graph by now closes a cycle; `size` counts links."""
        level = self._levels.get
        high = level(upper, 0)
        if upper == lower:
            return True
        if high < level(lower, 0):
            return False
        if not self._below.get(lower):
            self._levels[lower] = high
            return False
        met, whole = self._search(upper, high, isqrt(size) + 1)
        if lower in met:
            return True
        if whole and high == level(lower, 0):
            return False
        return self._lift(lower, high if whole else high + 1, met)

    def _search(self, start: N, level: int, limit: int) -> tuple[set[N], bool]:
        """Return what is above a node on its level, and whether that is all of it."""
        met, pending, steps = {start}, [start], 0
        while pending:
            for each in self._above.get(pending.pop(), ()):
                steps += 1
                if steps > limit:
                    return met, False
                if each not in met and self._levels.get(each, 0) == level:
                    met.add(each)
                    pending.append(each)
        return met, True

    def _lift(self, start: N, level: int, met: Iterable[N]) -> bool:
        """Lift a node and what hangs below it; True if that leads back to a node met before."""
        forbidden = set(met)
        self._levels[start] = level
        pending = [start]
        while pending:
            node = pending.pop()
            for each in self._below.get(node, ()):
                if each in forbidden:
                    return True
                if self._levels.get(each, 0) < level:
                    self._levels[each] = level
                    pending.append(each)
        return False


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the collector back while values are built that are all going to stay.

    It is two thirds of the time that a large tree takes.  Threads may overlap: the collector runs
    again when the first that held it back is done.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


Difference = tuple[
    dict[LineageIDPair, str], dict[LineageIDPair, str], dict[UUID, str], dict[UUID, str]
]
K = TypeVar("K", bound=Hashable)
_Links = Mapping[UUID, Mapping[UUID, str]]
_FEW = 16  # so many times more relations than new ones, and these are looked at one by one


class LineageRelations:
    """Relations, by source and by derived dataset, and the homes of datasets.

    `relations` are distinct and in the order in which they came; `by_source` and `by_derived` map
    one end to the other and to the classifier; `dataset_ids` are those that occur in relations.
    """

    def __init__(
        self,
        tree: LineageTree | None = None,
        max_depth: int = 0,
        relations: Iterable[LineageRelation] | None = None,
        homes: Mapping[UUID, str] | None = None,
        clone: "LineageRelations | None" = None,
    ) -> None:
        """Merge a tree, to some depth, then another collection, then relations and homes."""
        self.relations: list[LineageRelation] = []
        self.by_source: dict[UUID, dict[UUID, str]] = {}
        self.by_derived: dict[UUID, dict[UUID, str]] = {}
        self.dataset_ids: set[UUID] = set()
        self._homes: dict[UUID, str] = {}
        self._levels = Levels(self.by_derived, self.by_source)
        if tree is not None:
            self.merge_tree(tree, max_depth=max_depth)
        if clone is not None:
            self.merge(clone)
        if relations is not None or homes is not None:
            with uncollected():
                self._merge(relations or (), homes or {})

    @property
    def homes(self) -> Mapping[UUID, str]:
        """The home of each dataset that has one."""
        return MappingProxyType(self._homes)

    def merge_new_home(self, id_: UUID, home: str) -> None:
        """Add a home; raises InconsistentLineageException if the dataset has another one."""
        self._merge((), {id_: home})

    def merge_new_lineage_relation(self, rel: LineageRelation) -> None:
        """Add a relation.

        Raises InconsistentLineageException if it stands here with another classifier, or if it
        closes a cycle.
        """
        self._merge((rel,), {})

    def _merge_new_relation(self, ids: LineageIDPair, classifier: str) -> None:
        self._merge((LineageRelation(classifier, ids.source_id, ids.derived_id),), {})

    def merge(self, pool: "LineageRelations") -> None:
        """Add all of another collection; raises InconsistentLineageException as for one of it."""
        with uncollected():
            if self.relations or self._homes:
                self._merge(pool.relations, pool.homes)
            else:
                self._copy(pool)

    def merge_from_eo3_doc(
        self, doc: Mapping[str, Any], home: str | None = None, home_derived: str | None = None
    ) -> None:
        """Add the flat lineage of an EO3 document; without any, nothing."""
        if doc.get("lineage"):
            self.merge_tree(LineageTree.from_eo3_doc(doc, home, home_derived))

    def merge_from_eo3(
        self,
        id_: UUID,
        lineage: Mapping[str, Any],
        home: str | None = None,
        home_derived: str | None = None,
    ) -> None:
        """Add a flat EO3 lineage of a dataset; if it is empty, nothing."""
        self.merge_from_eo3_doc({"id": id_, "lineage": lineage}, home, home_derived)

    def merge_tree(
        self,
        tree: LineageTree,
        nodes: Mapping[UUID, LineageTree] | None = None,
        max_depth: int = 0,
    ) -> None:
        """Add the relations and homes of a tree, down to `max_depth` relations (0: all).

        `nodes` are datasets whose children stood elsewhere.  The nodes at the limit are not
        visited: their homes are not added.  Raises InconsistentLineageException if the tree has a
        cycle, mixed directions or the children of a dataset twice, or contradicts the collection.
        """
        with uncollected():
            self._merge(*_read(tree, nodes or {}, max_depth))

    def relations_diff(
        self,
        existing_relations: "LineageRelations | None" = None,
        allow_updates: bool = False,
    ) -> Difference:
        """Return what to do to another collection so that it holds this one as well.

        That is: relations to add, relations to update (by pair, with their classifiers), homes to
        add and homes to update.  What only the other one has stays.  Raises
        InconsistentLineageException if updates are needed and not allowed, or if both together have
        a cycle.
        """
        if existing_relations is None:
            return {each.ids(): each.classifier for each in self.relations}, {}, {**self._homes}, {}
        other = existing_relations
        new_homes, other_homes = _compare(self._homes.items(), other.homes)
        if other_homes and not allow_updates:
            raise two_homes(next(iter(other_homes)))
        added: dict[LineageIDPair, str] = {}
        changed: dict[LineageIDPair, str] = {}
        for each in self.relations:
            known = other.by_derived.get(each.derived_id, _NOTHING).get(each.source_id)
            if known is None:
                added[each.ids()] = each.classifier
            elif known != each.classifier:
                if not allow_updates:
                    raise two_classifiers(each.derived_id, each.source_id)
                changed[each.ids()] = each.classifier
        both = len(self.relations) - len(added)
        if added and both < len(other.relations):
            _check_union(self, other)
        return added, changed, new_homes, other_homes

    def extract_tree(
        self,
        root: UUID,
        direction: LineageDirection = LineageDirection.SOURCES,
        parents: set[UUID] | None = None,
        so_far: set[UUID] | None = None,
    ) -> LineageTree:
        """Return the tree of a dataset: depth first, in the order in which relations came.

        A dataset has its children where it is met first and None elsewhere.  One that is not known
        is a lone node with children `{}`.  None may be met in `parents`; those in `so_far`, to
        which the ones met are added, have their children elsewhere.
        """
        links = self.by_derived if direction is LineageDirection.SOURCES else self.by_source
        with uncollected():
            return grow(
                root,
                direction,
                links,
                self._homes,
                id_of=_itself,
                parents=parents,
                so_far=so_far,
            )

    def _copy(self, pool: "LineageRelations") -> None:
        self.relations.extend(pool.relations)
        self.by_source.update((key, dict(of)) for key, of in pool.by_source.items())
        self.by_derived.update((key, dict(of)) for key, of in pool.by_derived.items())
        self.dataset_ids.update(pool.dataset_ids)
        self._homes.update(pool.homes)

    def _merge(
        self,
        relations: Iterable[LineageRelation],
        homes: Mapping[UUID, str] | Iterable[tuple[UUID, str]],
    ) -> None:
        """Add homes and relations, or raise InconsistentLineageException and add nothing."""
        pairs = homes.items() if isinstance(homes, Mapping) else homes
        new_homes, other_homes = _compare(pairs, self._homes)
        if other_homes:
            raise two_homes(next(iter(other_homes)))
        start = len(self.relations)
        try:
            self._enter(relations)
            self._check_new(start)
        except BaseException:
            self._withdraw(start)
            raise
        self._homes.update(new_homes)

    def _enter(self, relations: Iterable[LineageRelation]) -> None:
        """Add relations without looking for cycles."""
        by_source, by_derived, ordered = self.by_source, self.by_derived, self.relations
        for each in relations:
            source, derived, classifier = each.source_id, each.derived_id, each.classifier
            if (sources := by_derived.get(derived)) is None:
                by_derived[derived] = {source: classifier}
            else:
                before = len(sources)
                if sources.setdefault(source, classifier) != classifier:
                    raise two_classifiers(each.derived_id, each.source_id)
                if len(sources) == before:
                    continue
            ordered.append(each)
            if (deriveds := by_source.get(source)) is None:
                by_source[source] = {derived: classifier}
            else:
                deriveds[derived] = classifier

    def _check_new(self, start: int) -> None:
        """Look for cycles among the relations entered since there were `start` of them."""
        new = self.relations[start:]
        if len(new) * _FEW > len(self.relations) > _FEW:
            counts = {derived: len(sources) for derived, sources in self.by_derived.items()}
            if (cycle := cycle_in(self.by_source, counts)) is not None:
                raise cyclic(cycle)
            self._levels.clear()
            self.dataset_ids.update(self.by_source, self.by_derived)
            return
        for each in new:
            if self._levels.closes(each.source_id, each.derived_id, len(self.relations)):
                way = way_up(self.by_derived, each.source_id, each.derived_id)
                raise cyclic(way or [each.source_id])
        for each in new:
            self.dataset_ids.update((each.source_id, each.derived_id))

    def _withdraw(self, start: int) -> None:
        """Take out what was entered since there were `start` relations."""
        for each in self.relations[start:]:
            _drop(self.by_source, each.source_id, each.derived_id)
            _drop(self.by_derived, each.derived_id, each.source_id)
        del self.relations[start:]


_NOTHING: Mapping[UUID, str] = MappingProxyType({})


def grow(
    root: K,
    direction: LineageDirection,
    links: Mapping[K, Mapping[K, str]],
    homes: Mapping[K, str],
    *,
    id_of: Callable[[K], UUID],
    parents: set[K] | None = None,
    so_far: set[K] | None = None,
) -> LineageTree:
    """Return the tree that hangs below a dataset, depth first and in the order of the links.

    Datasets go by any key that `id_of` knows the id of.  Raises InconsistentLineageException if one
    is below itself or below `parents`.
    """
    above = parents or frozenset[K]()
    path = dict.fromkeys(above)
    if root in path:
        raise _below_itself(root, path, direction, id_of)
    seen = so_far if so_far is not None else set()
    home, further = homes.get, links.get
    path[root] = None
    seen.add(root)
    children: dict[str, list[LineageTree]] = {}
    top = LineageTree(direction, id_of(root), children, home(root))
    walk = [(root, children, iter(links.get(root, {}).items()))]
    while walk:
        parent, children, rest = walk[-1]
        for key, classifier in rest:
            node = LineageTree(direction, id_of(key), None, home(key))
            if (siblings := children.get(classifier)) is None:
                children[classifier] = [node]
            else:
                siblings.append(node)
            if key not in seen and key not in above:
                seen.add(key)
                node.children = grandchildren = dict[str, list[LineageTree]]()
                if (found := further(key)) is not None:
                    path[key] = None
                    walk.append((key, grandchildren, iter(found.items())))
                    break
            elif key in path:
                raise _below_itself(key, path, direction, id_of)
        else:
            walk.pop()
            del path[parent]
    return top


def _below_itself(
    key: K, path: Iterable[K], direction: LineageDirection, id_of: Callable[[K], UUID]
) -> InconsistentLineageException:
    return below_itself(id_of(key), {id_of(each): None for each in path}, direction)


def _itself(dataset: UUID) -> UUID:
    return dataset


def _read(
    tree: LineageTree, nodes: Mapping[UUID, LineageTree], max_depth: int
) -> tuple[list[LineageRelation], list[tuple[UUID, str]]]:
    """Return the relations and homes of a tree, level by level, as `merge_tree` says."""
    if max_depth > 0:
        tree.child_datasets()
    populated = {id_ for id_, node in nodes.items() if node.children}
    relations: list[LineageRelation] = []
    homes: list[tuple[UUID, str]] = []
    level, depth = [tree], 0
    while level:
        if any(node.direction is not tree.direction for node in level):
            raise InconsistentLineageException("Tree contains both derived and source nodes")
        if max_depth <= 0 or depth < max_depth:
            homes.extend((each.dataset_id, each.home) for each in level if each.home is not None)
            for node in level:
                if node.children and node.dataset_id in populated:
                    tree.child_datasets()
                    raise _duplicate(node.dataset_id)
                if node.children:
                    populated.add(node.dataset_id)
                    relations.extend(_relations_of(node, node.children))
        level = [child for node in level for child in below(node)]
        depth += 1
    return relations, homes


def _relations_of(
    node: LineageTree, children: Mapping[str, Sequence[LineageTree]]
) -> list[LineageRelation]:
    mine = node.dataset_id
    if node.direction is LineageDirection.SOURCES:
        return [
            LineageRelation(key, each.dataset_id, mine)
            for key, of in children.items()
            for each in of
        ]
    return [
        LineageRelation(key, mine, each.dataset_id) for key, of in children.items() for each in of
    ]


def _compare(
    homes: Iterable[tuple[UUID, str]], known: Mapping[UUID, str]
) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """Return the homes that are not known, and those that are known otherwise.

    Raises InconsistentLineageException if one dataset is given two homes.
    """
    new: dict[UUID, str] = {}
    other: dict[UUID, str] = {}
    for id_, home in homes:
        into = other if known.get(id_, home) != home else new
        if into.setdefault(id_, home) != home:
            raise two_homes(id_)
    return {id_: home for id_, home in new.items() if id_ not in known}, other


def _check_union(mine: LineageRelations, other: LineageRelations) -> None:
    counts = {key: len(of) for key, of in _union(mine.by_derived, other.by_derived).items()}
    cycle = cycle_in(_union(mine.by_source, other.by_source), counts)
    if cycle is not None:
        raise cyclic(cycle)


def _union(mine: _Links, other: _Links) -> _Links:
    joined = {key: {**of, **mine.get(key, _NOTHING)} for key, of in other.items()}
    return dict(chain(mine.items(), joined.items()))


def _drop(index: dict[UUID, dict[UUID, str]], key: UUID, other: UUID) -> None:
    index[key].pop(other, None)
    if not index[key]:
        del index[key]


def _duplicate(dataset: UUID) -> InconsistentLineageException:
    return InconsistentLineageException(f"Duplicate nodes in LineageTree: {dataset}")
