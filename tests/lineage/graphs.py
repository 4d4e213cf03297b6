"""Small lineage by hand and at random, and a naive second opinion on it, written for reading."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from hypothesis import strategies as st

from odfbuild.lineage.model import LineageDirection, LineageRelation, LineageTree
from odfbuild.lineage.relations import LineageRelations

__all__ = [
    "DERIVED",
    "SOURCES",
    "acyclic",
    "chain_of",
    "deep_tree",
    "has_cycle",
    "homes",
    "links",
    "naive_tree",
    "node",
    "pairs",
    "related",
    "relation",
    "relations_of",
    "snapshot",
    "tree",
    "walk",
]

SOURCES, DERIVED = LineageDirection.SOURCES, LineageDirection.DERIVED
Links = dict[tuple[int, int], str]


def node(number: int) -> UUID:
    """Return the id of a numbered dataset."""
    return UUID(int=number + 1)


def relation(derived: int, source: int, classifier: str = "c") -> LineageRelation:
    return LineageRelation(classifier, node(source), node(derived))


def relations_of(found: Mapping[tuple[int, int], str]) -> list[LineageRelation]:
    """Return relations for links (derived, source) -> classifier, in their order."""
    return [relation(derived, source, c) for (derived, source), c in found.items()]


def tree(
    number: int,
    children: Mapping[str, list[LineageTree]] | None = None,
    home: str | None = None,
    direction: LineageDirection = SOURCES,
) -> LineageTree:
    return LineageTree(direction, node(number), children, home)


def chain_of(length: int) -> list[LineageRelation]:
    """Return relations of which each dataset is derived from the one before it."""
    return [relation(n + 1, n) for n in range(length)]


def deep_tree(depth: int) -> LineageTree:
    """Return a tree in which every dataset has one source."""
    found = tree(0, {})
    for n in range(depth):
        found = tree(n + 1, {"c": [found]})
    return found


def pairs(relations: Iterable[LineageRelation]) -> Links:
    """Return relations as links between numbers."""
    return {(r.derived_id.int - 1, r.source_id.int - 1): r.classifier for r in relations}


def snapshot(held: LineageRelations) -> object:
    """Return all that a collection shows."""
    return (
        list(held.relations),
        {key: dict(of) for key, of in held.by_source.items()},
        {key: dict(of) for key, of in held.by_derived.items()},
        set(held.dataset_ids),
        dict(held.homes),
    )


def has_cycle(found: Iterable[tuple[int, int]]) -> bool:
    """Say whether some dataset is derived from itself: take the closure and look."""
    reach = set(found)
    while True:
        further = {(a, d) for a, b in reach for c, d in reach if b == c} - reach
        if not further:
            return any(a == b for a, b in reach)
        reach |= further


def naive_tree(found: Links, root: int, direction: LineageDirection) -> LineageTree:
    """Extract a tree by the words of the definition, with plain recursion."""
    met = {root}

    def grown(number: int) -> LineageTree:
        children: dict[str, list[LineageTree]] = {}
        for (derived, source), classifier in found.items():
            near, far = (derived, source) if direction is SOURCES else (source, derived)
            if near == number:
                first = far not in met
                met.add(far)
                below = grown(far) if first else LineageTree(direction, node(far))
                children.setdefault(classifier, []).append(below)
        return LineageTree(direction, node(number), children)

    return grown(root)


def related(found: Iterable[tuple[int, int]], root: int, direction: LineageDirection) -> set[int]:
    """Return everything that a dataset comes from, or that comes from it."""
    reach: set[int] = set()
    while True:
        ends = {root, *reach}
        more = {s for d, s in found if d in ends}
        if direction is DERIVED:
            more = {d for d, s in found if s in ends}
        if more <= reach:
            return reach
        reach |= more


_numbers = st.integers(0, 7)
_classifiers = st.sampled_from(["a", "b"])
homes = st.dictionaries(_numbers.map(node), st.sampled_from(["here", "there", ""]), max_size=5)
links = st.dictionaries(st.tuples(_numbers, _numbers), _classifiers, max_size=14)


@st.composite
def acyclic(draw: st.DrawFn) -> Links:
    """Links without cycles, in any order: along a hidden order of the datasets."""
    order = draw(st.permutations(range(8)))
    drawn = draw(links)
    return {
        (order[max(a, b)], order[min(a, b)]): classifier
        for (a, b), classifier in drawn.items()
        if a != b
    }


def walk(found: LineageTree) -> Iterator[tuple[LineageTree, int]]:
    """Yield every node of a tree with its depth."""
    pending = [(found, 0)]
    while pending:
        each, depth = pending.pop()
        yield each, depth
        for below in (each.children or {}).values():
            pending.extend((child, depth + 1) for child in below)
