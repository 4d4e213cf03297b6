"""The values of dataset lineage: directions, relations and trees (Open Data Cube, EP-08).

Names, bases and mutability are those of the proposal.  Nothing here recurses, so a tree may be as
deep as memory allows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, ClassVar
from uuid import UUID

from odfbuild.values import dataclass


class InconsistentLineageException(Exception):
    """Lineage contradicts itself or what is stored.

    `cycle` names the datasets of a cycle, each derived from the one after it and the last from the
    first; it is empty for other contradictions.
    """

    def __init__(self, message: str = "", cycle: Sequence[UUID] = ()) -> None:
        super().__init__(message)
        self.cycle = tuple(cycle)


class LineageDirection(Enum):
    """Which way a tree grows from its root."""

    SOURCES = 1
    DERIVED = 2

    def opposite(self) -> "LineageDirection":
        """Return the other direction."""
        return _OPPOSITE[self]

    @property
    def label(self) -> str:
        """The key of the children in the serialised form."""
        return _LABELS[self]


_OPPOSITE = {
    LineageDirection.SOURCES: LineageDirection.DERIVED,
    LineageDirection.DERIVED: LineageDirection.SOURCES,
}
_LABELS = {LineageDirection.SOURCES: "sources", LineageDirection.DERIVED: "derivations"}


@dataclass(frozen=True, slots=True)
class LineageIDPair:
    """Two datasets of which the first is derived from the second."""

    derived_id: UUID
    source_id: UUID


@dataclass(frozen=True, slots=True)
class LineageRelation:
    """One dataset is derived from another, in the role that the classifier names."""

    classifier: str
    source_id: UUID
    derived_id: UUID

    def ids(self) -> LineageIDPair:
        """Return the two datasets without the classifier."""
        return LineageIDPair(derived_id=self.derived_id, source_id=self.source_id)


@dataclass(eq=False, repr=False)
class LineageTree:
    """A dataset and what it was made of, or what was made of it, as far as that is known here.

    `children` maps classifiers to trees of the same direction.  None means that there may be more
    where this came from, `{}` that there is none.  A dataset that is met on several ways has its
    children in one place only.  `home` names the index that holds the dataset.
    """

    direction: LineageDirection
    dataset_id: UUID
    children: Mapping[str, Sequence["LineageTree"]] | None = None
    home: str | None = None
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Compare ids, homes and children in their order; None and `{}` children are equal."""
        if not isinstance(other, LineageTree):
            return NotImplemented
        pairs, seen = [(self, other)], set()
        while pairs:
            mine, theirs = pairs.pop()
            if mine is theirs or (id(mine), id(theirs)) in seen:
                continue
            seen.add((id(mine), id(theirs)))
            if (mine.dataset_id, mine.home) != (theirs.dataset_id, theirs.home):
                return False
            ours, others = mine.children or {}, theirs.children or {}
            if {k: len(v) for k, v in ours.items()} != {k: len(v) for k, v in others.items()}:
                return False
            for classifier, trees in ours.items():
                pairs.extend(zip(trees, others[classifier], strict=True))
        return True

    def __repr__(self) -> str:
        count = "unknown" if self.children is None else sum(map(len, self.children.values()))
        home = "" if self.home is None else f", home={self.home!r}"
        return f"<LineageTree {self.dataset_id}, {self.direction.label}: {count}{home}>"

    def find_subtree(self, uuid: UUID) -> "LineageTree | None":
        """Return the node of a dataset, one whose children are known if there is such a one."""
        found = None
        pending = [self]
        while pending:
            node = pending.pop()
            if node.dataset_id == uuid:
                if node.children is not None:
                    return node
                found = found or node
            if node.children:
                pending.extend(reversed(list(below(node))))
        return found

    def child_datasets(self) -> set[UUID]:
        """Return the ids of all datasets below the root.

        Raises InconsistentLineageException if a dataset is below itself.
        """
        found: set[UUID] = set()
        path = {self.dataset_id: None}
        walk = [(self, below(self))]
        while walk:
            node, rest = walk[-1]
            child = next(rest, None)
            if child is None:
                walk.pop()
                path.pop(node.dataset_id)
                continue
            if child.dataset_id in path:
                raise below_itself(child.dataset_id, path, self.direction)
            found.add(child.dataset_id)
            if child.children:
                path[child.dataset_id] = None
                walk.append((child, below(child)))
        return found

    def serialise(
        self, specify_direction_if_empty: bool = True, *, complete: bool = False
    ) -> dict[str, Any]:
        """Return a mapping that YAML and JSON can hold.

        Only a root without children has them written as `{}`, so that it tells its direction; with
        `specify_direction_if_empty` false it does not.  With `complete`, which the Open Data Cube
        does not know, children that are not known and none are kept apart: none is written as `{}`,
        and a root writes null of what is not known.
        """
        top = _head(self)
        pending = [(self, top)]
        while pending:
            node, written = pending.pop()
            if node is self and not node.children and not specify_direction_if_empty:
                continue
            if node.children or (complete and node.children is not None):
                label = node.direction.label
                into = {key: [_head(each) for each in of] for key, of in node.children.items()}
                written[label] = into
                for classifier, trees in node.children.items():
                    pending.extend(zip(trees, into[classifier], strict=True))
            elif node is self:
                written[node.direction.label] = None if complete else {}
        return top

    @classmethod
    def deserialise(
        cls, mapping: Mapping[str, Any], direction: LineageDirection | None = None
    ) -> "LineageTree":
        """Read what `serialise` returns; `direction` is that of the root's label unless given.

        Raises ValueError if an id is missing or malformed, or if the direction is not said,
        ambiguous or mixed.
        """
        if direction is None:
            direction = _direction_of(_mapping(mapping))
        top = _node(mapping, direction)
        pending = [(top, mapping)]
        while pending:
            node, read = pending.pop()
            children = _children_of(read, direction)
            if children is not None:
                trees = {k: [_node(each, direction) for each in of] for k, of in children.items()}
                node.children = trees
                for classifier, of in children.items():
                    pending.extend(zip(trees[classifier], of, strict=True))
        return top

    @classmethod
    def from_data(
        cls,
        dsid: UUID,
        sources: Mapping[str, Sequence[UUID | str]] | None = None,
        direction: LineageDirection = LineageDirection.SOURCES,
        home: str | None = None,
        home_derived: str | None = None,
    ) -> "LineageTree":
        """Return a tree of depth one; `home` is that of the children, `home_derived` the root's."""
        children = None
        if sources:
            children = {
                classifier: [cls(direction, as_uuid(each), home=home) for each in _ids(ids)]
                for classifier, ids in sources.items()
            }
        return cls(direction, dsid, children, home_derived)

    @classmethod
    def from_eo3_doc(
        cls, doc: Mapping[str, Any], home: str | None = None, home_derived: str | None = None
    ) -> "LineageTree":
        """Read the id and the flat `lineage` of an EO3 document.

        Raises KeyError without an id, ValueError if an id is malformed or the lineage is nested.
        """
        lineage = doc.get("lineage")
        if lineage is not None and not isinstance(lineage, Mapping):
            raise ValueError("the lineage of a document maps classifiers to lists of ids")
        _check_classifiers(lineage or ())
        dsid = as_uuid(doc["id"])
        return cls.from_data(dsid, lineage, home=home, home_derived=home_derived)

    def to_eo3_doc(self) -> dict[str, list[UUID]]:
        """Return the `lineage` of an EO3 document: the ids right below the root by classifier."""
        children = self.children or {}
        return {key: [each.dataset_id for each in trees] for key, trees in children.items()}


def below(node: LineageTree) -> Iterator[LineageTree]:
    """Yield the trees right below a node."""
    return chain.from_iterable(() if node.children is None else node.children.values())


def below_itself(
    dataset: UUID, path: Mapping[UUID, None], direction: LineageDirection
) -> InconsistentLineageException:
    """Return the error for a dataset that is met again on a way (in order) that went through it."""
    way = list(path)
    cycle = way[way.index(dataset) :] if dataset in path else [dataset]
    return cyclic(cycle if direction is LineageDirection.SOURCES else cycle[::-1])


def cyclic(cycle: Sequence[UUID]) -> InconsistentLineageException:
    """Return the error for a cycle: each dataset derived from the next, the last from the first."""
    way = [*cycle, cycle[0]]
    shown = way if len(way) <= 10 else [*way[:5], f"... {len(way) - 9} more ...", *way[-4:]]
    text = " <- ".join(str(each) for each in shown)
    return InconsistentLineageException(f"LineageTrees must be acyclic: {text}", cycle)


def two_homes(dataset: UUID) -> InconsistentLineageException:
    """Return the error for a dataset that has one home and is given another."""
    return InconsistentLineageException(f"Tree contains inconsistent homes for dataset {dataset}")


def two_classifiers(derived: UUID, source: UUID) -> InconsistentLineageException:
    """Return the error for a relation that has one classifier and is given another."""
    return InconsistentLineageException(
        f"Dataset {derived} is derived from {source} with inconsistent classifiers."
    )


def as_uuid(text: object) -> UUID:
    """Return a UUID as it is and read one from text; anything else is a ValueError."""
    if isinstance(text, UUID):
        return text
    try:
        if isinstance(text, str):
            return UUID(text)
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not the id of a dataset")


def _head(node: LineageTree) -> dict[str, Any]:
    head = {"id": str(node.dataset_id)}
    return head if node.home is None else {**head, "home": node.home}


def _node(read: Any, direction: LineageDirection) -> LineageTree:
    if "id" not in _mapping(read):
        raise ValueError("a node of a lineage tree has no id")
    home = read.get("home")
    if home is not None and not isinstance(home, str):
        raise ValueError(f"the home of {read['id']} is not a text")
    return LineageTree(direction, as_uuid(read["id"]), home=home)


def _mapping(read: Any) -> Mapping[str, Any]:
    if not isinstance(read, Mapping):
        raise ValueError("a node of a lineage tree is a mapping with an id")
    return read


def _direction_of(read: Mapping[str, Any]) -> LineageDirection:
    said = [each for each in LineageDirection if each.label in read]
    if len(said) != 1:
        raise ValueError("a lineage tree has either sources or derivations")
    return said[0]


def _children_of(
    read: Mapping[str, Any], direction: LineageDirection
) -> Mapping[str, Sequence[Any]] | None:
    if direction.opposite().label in read:
        raise ValueError(f"a tree of {direction.label} has {direction.opposite().label} in it")
    children = read.get(direction.label)
    if children is None:
        return None
    if not isinstance(children, Mapping):
        raise ValueError(f"{direction.label} of {read['id']} are no mapping of classifiers")
    _check_classifiers(children)
    for trees in children.values():
        if not _is_list(trees):
            raise ValueError(f"{direction.label} of {read['id']} are no lists by classifier")
    return children


def _check_classifiers(classifiers: Iterable[Any]) -> None:
    for each in classifiers:
        if not isinstance(each, str):  # YAML reads 5, on and ~ as something else
            raise ValueError(f"the classifier {each!r} is no text; put it in quotes")


def _ids(ids: Any) -> Sequence[UUID | str]:
    if not _is_list(ids):
        raise ValueError("lineage maps classifiers to lists of ids")
    return list(ids)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
