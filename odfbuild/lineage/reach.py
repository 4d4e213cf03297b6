"""What is reached from a dataset in the tables: as a tree, and for removal."""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

from odfbuild.lineage.acyclic import cycle_in
from odfbuild.lineage.model import LineageDirection, LineageTree, cyclic
from odfbuild.lineage.relations import grow

__all__ = ["check_new", "chunks", "marks", "remove_from", "tree_of"]

_REACH = """
with recursive reach (id) as (
    select ? union select r.{far} from reach join relation r on r.{near} = reach.id
)
"""
_ALL = """
select r.{near}, r.{far}, r.classifier, h.home
from reach join relation r on r.{near} = reach.id left join home h on h.dataset = r.{far}
order by r.number
"""
_WHOLE = """
select r.{near}, r.{far}, r.classifier, h.home
from relation r left join home h on h.dataset = r.{far}
order by r.number
"""
_SOME = """
with recursive reach (id) as (
    select ? union select r.{far} from reach join relation r on r.{near} = reach.id limit ?
)
select count(*) from reach
"""
_BELOW = """
select r.{near}, r.{far}, r.classifier, h.home
from relation r left join home h on h.dataset = r.{far}
where r.{near} in ({marks}) order by r.number
"""
_DELETE = "delete from relation where {near} in (select id from reach)"
_DELETE_FROM = "delete from relation where {near} in ({marks})"
_LINKS = "select source, derived from relation"
_NEW = """
with recursive
fresh (id) as (
    select distinct n.derived from relation n where n.number > ?
    and exists (select 1 from relation d where d.source = n.derived)
    and exists (select 1 from relation s where s.derived = n.source)
),
reach (id) as (
    select id from fresh union select r.derived from reach join relation r on r.source = reach.id
)
select r.source, r.derived from reach join relation r on r.source = reach.id
"""
_MUCH = 8  # the table is read whole for more than one of so many: in its order that is faster
_MOST = 1_000_000  # but not a table with more relations, for the memory
_Row = tuple[bytes, bytes, str, str | None]


def tree_of(
    db: sqlite3.Connection, root: UUID, direction: LineageDirection, max_depth: int
) -> LineageTree:
    """Return the tree of a dataset, at most `max_depth` relations deep (0 and less: all).

    Without a limit a dataset has its children where it is met first, depth first; with one, where
    it is nearest to the root.  At the limit children are None if there are more and `{}` if not.
    """
    if max_depth > 0:
        return _limited(db, root, direction, max_depth)
    links: dict[bytes, dict[bytes, str]] = {}
    homes = {id_.bytes: home for id_, home in _home_of(db, root).items()}
    for near, far, classifier, home in _reached(db, root, direction):
        if home is not None:
            homes[far] = home
        if (below := links.get(near)) is None:
            links[near] = {far: classifier}
        else:
            below[far] = classifier
    return grow(root.bytes, direction, links, homes, id_of=_Ids().__getitem__)


def _reached(db: sqlite3.Connection, root: UUID, direction: LineageDirection) -> Iterator[_Row]:
    """Return the relations that are reached from a dataset, and maybe others, in their order."""
    ends = _ends(direction)
    (last,) = db.execute("select coalesce(max(number), 0) from relation").fetchone()
    if last <= _MOST:
        limit = last // _MUCH + 1
        (count,) = db.execute(_SOME.format(**ends), (root.bytes, limit)).fetchone()
        if count == limit:
            return db.execute(_WHOLE.format(**ends))
    return db.execute((_REACH + _ALL).format(**ends), (root.bytes,))


class _Ids(dict[bytes, UUID]):
    """The id that bytes stand for, made once: hashing bytes is much faster than hashing ids."""

    def __missing__(self, key: bytes) -> UUID:
        made = self[key] = UUID(bytes=key)
        return made


def _limited(
    db: sqlite3.Connection, root: UUID, direction: LineageDirection, max_depth: int
) -> LineageTree:
    top = LineageTree(direction, root, {}, _home_of(db, root).get(root))
    met = {root.bytes}
    edge = {root.bytes: top}
    for _ in range(max_depth):
        further: dict[bytes, LineageTree] = {}
        children: dict[bytes, dict[str, list[LineageTree]]] = {each: {} for each in edge}
        for near, far, classifier, home in _below(db, tuple(edge), direction):
            child = LineageTree(direction, UUID(bytes=far), None, home)
            children[near].setdefault(classifier, []).append(child)
            if far not in met:
                met.add(far)
                further[far] = child
        for near, below in children.items():
            edge[near].children = below
        edge = further
        if not edge:
            break
    open_ended = {row[0] for row in _below(db, tuple(edge), direction)}
    for near, node in edge.items():
        node.children = None if near in open_ended else {}
    return top


def remove_from(
    db: sqlite3.Connection, root: UUID, direction: LineageDirection, max_depth: int
) -> None:
    """Delete the relations from a dataset on, `max_depth` of them deep (0 and less: all)."""
    if max_depth <= 0:
        db.execute((_REACH + _DELETE).format(**_ends(direction)), (root.bytes,))
        return
    met = {root.bytes}
    edge: tuple[bytes, ...] = (root.bytes,)
    for _ in range(max_depth):
        found = dict.fromkeys(far for _, far, _, _ in _below(db, edge, direction))
        near = _ends(direction)["near"]
        for some in chunks(edge):
            db.execute(_DELETE_FROM.format(near=near, marks=marks(some)), some)
        edge = tuple(each for each in found if each not in met)
        met.update(edge)
        if not edge:
            break


def check_new(db: sqlite3.Connection, before: int) -> None:
    """Raise InconsistentLineageException if relations numbered after `before` close a cycle."""
    below: dict[bytes, list[bytes]] = {}
    counts: dict[bytes, int] = {}
    (last,) = db.execute("select coalesce(max(number), 0) from relation").fetchone()
    mostly_new = last <= _MOST and (last - before) * _MUCH > last
    found = db.execute(_LINKS) if mostly_new else db.execute(_NEW, (before,))
    for source, derived in found:
        below.setdefault(source, []).append(derived)
        counts[derived] = counts.get(derived, 0) + 1
    if (cycle := cycle_in(below, counts)) is not None:
        raise cyclic([UUID(bytes=each) for each in cycle])


def chunks(keys: Sequence[bytes], size: int = 500) -> Iterator[tuple[bytes, ...]]:
    """Yield portions that fit into one statement."""
    rest = iter(keys)
    while some := tuple(islice(rest, size)):
        yield some


def marks(some: Sequence[bytes]) -> str:
    """Return as many placeholders as there are keys."""
    return ", ".join("?" * len(some))


def _below(
    db: sqlite3.Connection, nodes: Sequence[bytes], direction: LineageDirection
) -> list[_Row]:
    found: list[_Row] = []
    for some in chunks(nodes):
        query = _BELOW.format(**_ends(direction), marks=marks(some))
        found.extend(db.execute(query, some))
    if len(nodes) > 1:
        place = {node: n for n, node in enumerate(nodes)}
        found.sort(key=lambda row: place[row[0]])
    return found


def _home_of(db: sqlite3.Connection, dataset: UUID) -> dict[UUID, str]:
    found = db.execute("select home from home where dataset = ?", (dataset.bytes,)).fetchall()
    return {} if not found else {dataset: found[0][0]}


def _ends(direction: LineageDirection) -> dict[str, str]:
    if direction is LineageDirection.SOURCES:
        return {"near": "derived", "far": "source"}
    return {"near": "source", "far": "derived"}
