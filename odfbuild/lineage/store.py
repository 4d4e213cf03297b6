"""Lineage in SQLite: trees, relations, homes, and the datasets that the ids stand for.

Every write is whole or not at all, sees what others wrote, and is refused if it would close a
cycle, however long.  Readers see one moment and wait for nobody.

It is no cache: relations to datasets elsewhere and homes are kept nowhere else, so a file that
cannot be read is an error and is left alone.
"""

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from odfbuild.errors import StateError
from odfbuild.lineage.ids import DSID, node_id
from odfbuild.lineage.model import (
    LineageDirection,
    LineageRelation,
    LineageTree,
    cyclic,
    two_classifiers,
    two_homes,
)
from odfbuild.lineage.relations import LineageRelations, cycle_in, grow, uncollected
from odfbuild.lineage.resource import AbstractBulkLineageResource, BatchStatus
from odfbuild.odf.identity import DatasetId
from odfbuild.values import dataclass

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
_RelationRow = tuple[bytes, bytes, str, str | None]


def tree_of(
    db: sqlite3.Connection, root: UUID, direction: LineageDirection, max_depth: int
) -> LineageTree:
    """Return the tree of a dataset, at most `max_depth` relations deep (0 and less: all).

    Without a limit a dataset has its children where it is met first, depth first; with one, where
    it is nearest to the root.  At the limit children are None if there are more and `{}` if not.
    """
    if max_depth > 0:
        return _tree_to_depth(db, root, direction, max_depth)
    links: dict[bytes, dict[bytes, str]] = {}
    homes = {id_.bytes: home for id_, home in _home_of(db, root).items()}
    for near, far, classifier, home in _reached_relations(db, root, direction):
        if home is not None:
            homes[far] = home
        if (below := links.get(near)) is None:
            links[near] = {far: classifier}
        else:
            below[far] = classifier
    return grow(root.bytes, direction, links, homes, id_of=_Ids().__getitem__)


def _reached_relations(
    db: sqlite3.Connection, root: UUID, direction: LineageDirection
) -> Iterator[_RelationRow]:
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


def _tree_to_depth(
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
) -> list[_RelationRow]:
    found: list[_RelationRow] = []
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


_VERSION: Final = 1
_PATIENCE: Final = 30.0  # seconds to wait for others that write
_CACHE_KIB: Final = 32_000  # ids come in any order: an index that does not fit is slow to write
_SCHEMA = (
    """
    create table relation (
        number integer primary key,
        derived blob not null, source blob not null, classifier text not null
    )""",
    "create unique index relation_pair on relation (derived, source)",
    "create index relation_source on relation (source)",
    "create table home (dataset blob primary key, home text not null) without rowid",
    "create table dataset (id blob primary key, did text not null, name text) without rowid",
    """
    create table input (
        derived blob not null, source blob not null, did text not null,
        classifier text not null, block text not null, is_read integer not null,
        primary key (derived, source)
    ) without rowid""",
    "create table chain (dataset blob primary key, head text not null) without rowid",
)


class LineageStoreError(StateError):
    """The lineage store cannot be read or written."""

    code = "lineage-store"


def _close(connections: list[sqlite3.Connection]) -> None:
    for each in connections:
        each.close()
    connections.clear()


class LineageTables:
    """Connections to one file, or to memory with `path` None, and transactions over them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        weakref.finalize(self, _close, self._all).atexit = False
        self._guard = threading.RLock()
        self._memory = None if path is not None else self._open()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one moment."""
        with self._connection() as db:
            if db.in_transaction:
                yield db
            else:
                yield from _within(db, "begin", "commit", "rollback")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection on which everything happens or, if the block raises, nothing."""
        with self._connection() as db:
            if db.in_transaction:
                undo = "rollback to inner; release inner"
                yield from _within(db, "savepoint inner", "release inner", undo)
            else:
                yield from _within(db, "begin immediate", "commit", "rollback")

    def rows(self, query: str, size: int) -> Iterator[tuple[Any, ...]]:
        """Yield what a query finds, as it is at one moment however long it takes to look at it.

        `size` is how many rows are held; all of them in memory, and within a transaction, whose
        changes nobody else sees.
        """
        if self._memory is not None or self._is_within():
            with self.reading() as db:
                found = db.execute(query).fetchall()
            yield from found
            return
        db = self._open()
        try:
            with self._naming_file():
                db.execute("begin")
                cursor = db.execute(query)
                while some := cursor.fetchmany(max(size, 1)):
                    yield from some
        finally:
            with self._guard:
                if db in self._all:
                    self._all.remove(db)
            db.close()

    def check(self) -> None:
        """Read the whole file; LineageStoreError if SQLite finds it damaged."""
        with self.reading() as db:
            (found,) = db.execute("pragma quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)

    def close(self) -> None:
        """Let go of the file; with memory, of what was in it."""
        with self._guard:
            _close(self._all)
            self._mine = threading.local()

    def _is_within(self) -> bool:
        """Say whether a transaction of this thread is open."""
        db: sqlite3.Connection | None = getattr(self._mine, "db", None)
        return db is not None and db.in_transaction

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            with self._guard, self._naming_file():
                yield self._memory
            return
        db: sqlite3.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            db = self._mine.db = self._open()
        with self._naming_file():
            yield db

    def _open(self) -> sqlite3.Connection:
        with self._naming_file():
            db = sqlite3.connect(
                self._path or ":memory:",
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                _prepare(db)
            except BaseException:
                db.close()
                raise
        with self._guard:
            self._all.append(db)
        return db

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Say which file it is about when SQLite fails."""
        try:
            yield
        except sqlite3.Error as error:
            raise LineageStoreError(
                what=f"lineage cannot be read or written: {error}",
                why=f"{self._path or 'memory'}, where it is kept, is locked, damaged or of no use",
                fix="end what keeps it locked, or put back a copy; without the file, relations of"
                " chains are found again, and homes and relations added by hand are lost",
            ) from error


def _within(
    db: sqlite3.Connection, begin: str, end: str, undo: str
) -> Iterator[sqlite3.Connection]:
    db.execute(begin)
    try:
        yield db
    except BaseException:
        for each in undo.split(";"):
            if db.in_transaction:
                db.execute(each)
        raise
    db.execute(end)


def _log_ahead(db: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, as others may do just now: they would wait for each other."""
    until = time.monotonic() + _PATIENCE
    db.execute("pragma busy_timeout = 20")
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma busy_timeout = {int(_PATIENCE * 1000)}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _prepare(db: sqlite3.Connection) -> None:
    _log_ahead(db)
    db.execute("pragma synchronous = normal")
    db.execute(f"pragma cache_size = -{_CACHE_KIB}")
    if _version(db) == 0:
        db.execute("begin immediate")
        if _version(db) == 0:
            for each in _SCHEMA:
                db.execute(each)
            db.execute(f"pragma user_version = {_VERSION}")
        db.execute("commit")
    if _version(db) != _VERSION:
        raise sqlite3.DatabaseError("it was written by another version of odfbuild")


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("pragma user_version").fetchone()
    return int(version)


_MAKE = "create temp table if not exists incoming (key blob, other blob, value text)"
_INSERT = """
insert into relation (derived, source, classifier)
select key, other, value from incoming where true order by rowid
on conflict (derived, source) do {conflict}
"""
_OTHERWISE = """
select i.key, i.other from incoming i
join relation r on r.derived = i.key and r.source = i.other and r.classifier <> i.value limit 1
"""
_INSERT_HOMES = """
insert into home select key, value from incoming where true order by rowid
on conflict (dataset) do {conflict}
"""
_OTHER_HOME = """
select i.key from incoming i join home h on h.dataset = i.key and h.home <> i.value limit 1
"""
_HOMES = "select dataset, home from home where dataset in ({marks})"
_CLEAR = "delete from home where dataset in ({marks})"
_REMOVE = "delete from relation where derived = ? and source = ?"
_FORGET = """
delete from chain where dataset in (
    select i.derived from input i where not exists (
        select 1 from relation r
        where r.derived = i.derived and r.source = i.source and r.classifier = i.classifier
    )
)
"""  # their relations are found in the chains again when they are next looked at
_KEEP = "nothing"
_UPDATE = "update set classifier = excluded.classifier where classifier <> excluded.classifier"
_UPDATE_HOME = "update set home = excluded.home where home <> excluded.home"
_BATCH = 1000
_Row = tuple[bytes, bytes | None, str]


@dataclass(frozen=True, slots=True)
class LineageFile:
    """Where lineage is kept: a file, or memory."""

    path: Path | None = None

    @property
    def supports_external_lineage(self) -> bool:
        """Datasets need not be anywhere that the file knows."""
        return True


@dataclass(frozen=True, slots=True)
class KnownDataset:
    """The ODF dataset that an id stands for, and what it was called last."""

    did: DatasetId
    name: str | None = None


class _Undone(Exception):
    pass


class SqliteLineageResource(AbstractBulkLineageResource):
    """Lineage in a file; may be used from several threads and processes at once."""

    def __init__(self, index: LineageFile | None = None) -> None:
        index = index or LineageFile()
        super().__init__(index)
        self.tables = LineageTables(index.path)

    def get_derived_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
        with self.tables.reading() as db, uncollected():
            return tree_of(db, node_id(id), LineageDirection.DERIVED, max_depth)

    def get_source_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
        with self.tables.reading() as db, uncollected():
            return tree_of(db, node_id(id), LineageDirection.SOURCES, max_depth)

    def merge(
        self, rels: LineageRelations, allow_updates: bool = False, validate_only: bool = False
    ) -> None:
        if allow_updates and validate_only:
            raise ValueError("allow_updates and validate_only exclude each other")
        with suppress(_Undone), self.tables.writing() as db:
            take(db, _home_rows(rels.homes.items()))
            _enter_homes(db, allow_updates)
            take(db, _relation_rows(rels.relations))
            enter_relations(db, allow_updates)
            if allow_updates:
                db.execute(_FORGET)
            if validate_only:
                raise _Undone

    def add(self, tree: LineageTree, max_depth: int = 0, allow_updates: bool = False) -> None:
        self.merge(LineageRelations(tree, max_depth), allow_updates)

    def remove(self, id_: DSID, direction: LineageDirection, max_depth: int = 0) -> None:
        with self.tables.writing() as db:
            remove_from(db, node_id(id_), direction, max_depth)
            db.execute(_FORGET)

    def remove_relation(self, derived: DSID, source: DSID) -> bool:
        """Remove the relation of two datasets; False if there was none."""
        ends = node_id(derived).bytes, node_id(source).bytes
        with self.tables.writing() as db:
            return db.execute(_REMOVE, ends).rowcount > 0

    def set_home(self, home: str | None, *args: DSID, allow_updates: bool = False) -> int:
        if home is None:
            return 0
        ids = [node_id(each) for each in args]
        with self.tables.writing() as db:
            if not allow_updates and (len(set(ids)) < len(ids) or _homes(db, ids)):
                return 0
            take(db, _home_rows((each, home) for each in dict.fromkeys(ids)))
            return _enter_homes(db, allow_updates)

    def clear_home(self, *args: DSID, home: str | None = None) -> int:
        if args and home is not None:
            raise ValueError("homes are cleared by dataset or by value, not by both")
        keys = [node_id(each).bytes for each in args]
        with self.tables.writing() as db:
            if home is not None:
                return db.execute("delete from home where home = ?", (home,)).rowcount
            cleared = (db.execute(_CLEAR.format(marks=marks(some)), some) for some in chunks(keys))
            return sum(each.rowcount for each in cleared)

    def get_homes(self, *args: DSID) -> dict[UUID, str]:
        with self.tables.reading() as db:
            return _homes(db, [node_id(each) for each in args])

    def get_all_lineage(self, batch_size: int = 1000) -> Iterator[LineageRelation]:
        query = "select classifier, source, derived from relation order by derived, source"
        for classifier, source, derived in self.tables.rows(query, batch_size):
            yield LineageRelation(classifier, UUID(bytes=source), UUID(bytes=derived))

    def get_all_homes(self, batch_size: int = 1000) -> Iterator[tuple[UUID, str]]:
        query = "select dataset, home from home order by dataset"
        for dataset, home in self.tables.rows(query, batch_size):
            yield UUID(bytes=dataset), home

    def bulk_add(self, relations: Iterable[LineageRelation], batch_size: int = 1000) -> BatchStatus:
        return self._bulk(_enter_new, _relation_rows(relations), batch_size)

    def bulk_add_homes(
        self, homes: Iterable[tuple[UUID, str]], batch_size: int = 1000
    ) -> BatchStatus:
        return self._bulk(_enter_homes, _home_rows(homes), batch_size)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the calls in the block one: all that they write, or nothing if the block raises."""
        with self.tables.writing():
            yield

    def put_datasets(self, *known: KnownDataset) -> None:
        """Keep which datasets ids stand for, and what they are called now."""
        rows = [(node_id(each.did).bytes, str(each.did), each.name) for each in known]
        with self.tables.writing() as db:
            db.executemany("insert or replace into dataset values (?, ?, ?)", rows)

    def get_datasets(self) -> dict[UUID, KnownDataset]:
        """Return the datasets that are known by more than an id."""
        rows = self.tables.rows("select id, did, name from dataset order by id", _BATCH)
        return {
            UUID(bytes=id_): KnownDataset(DatasetId.parse(did), name) for id_, did, name in rows
        }

    def close(self) -> None:
        """Let go of the file."""
        self.tables.close()

    def _bulk(
        self, write: Callable[[sqlite3.Connection, bool], int], rows: Iterator[_Row], size: int
    ) -> BatchStatus:
        started = time.monotonic()
        with self.tables.writing() as db:
            taken = take(db, rows, size)
            written = write(db, False)
        return BatchStatus(written, taken - written, time.monotonic() - started)


def take(db: sqlite3.Connection, rows: Iterator[_Row], size: int = _BATCH) -> int:
    """Put rows into the table of what comes in, and count them."""
    db.execute(_MAKE)
    db.execute("delete from incoming")
    count = 0
    while some := tuple(islice(rows, max(size, 1))):
        db.executemany("insert into incoming values (?, ?, ?)", some)
        count += len(some)
    return count


def _relation_rows(relations: Iterable[LineageRelation]) -> Iterator[_Row]:
    for each in relations:
        yield each.derived_id.bytes, each.source_id.bytes, each.classifier


def _home_rows(homes: Iterable[tuple[UUID, str]]) -> Iterator[_Row]:
    for dataset, home in homes:
        yield dataset.bytes, None, home


def enter_relations(db: sqlite3.Connection, allow_updates: bool) -> int:
    """Write the relations that came in, and count those that were not there as they are now."""
    (before,) = db.execute("select coalesce(max(number), 0) from relation").fetchone()
    conflict = _UPDATE if allow_updates else _KEEP
    written = db.execute(_INSERT.format(conflict=conflict)).rowcount
    if allow_updates or written < _count(db):  # some were there, maybe otherwise
        for derived, source in db.execute(_OTHERWISE):
            raise two_classifiers(UUID(bytes=derived), UUID(bytes=source))
    check_new(db, before)
    return written


def _enter_new(db: sqlite3.Connection, _: bool) -> int:
    """Write the relations that came in between datasets without one, and count them."""
    (before,) = db.execute("select coalesce(max(number), 0) from relation").fetchone()
    written = db.execute(_INSERT.format(conflict=_KEEP)).rowcount
    check_new(db, before)
    return written


def _count(db: sqlite3.Connection) -> int:
    (count,) = db.execute("select count(*) from incoming").fetchone()
    return int(count)


def _enter_homes(db: sqlite3.Connection, allow_updates: bool) -> int:
    """Write the homes that came in, and count those that were not there as they are now."""
    conflict = _UPDATE_HOME if allow_updates else _KEEP
    written = db.execute(_INSERT_HOMES.format(conflict=conflict)).rowcount
    for (dataset,) in db.execute(_OTHER_HOME):
        raise two_homes(UUID(bytes=dataset))
    return written


def _homes(db: sqlite3.Connection, ids: Iterable[UUID]) -> dict[UUID, str]:
    found: dict[UUID, str] = {}
    for some in chunks([each.bytes for each in ids]):
        rows = db.execute(_HOMES.format(marks=marks(some)), some)
        found.update((UUID(bytes=dataset), home) for dataset, home in rows)
    return found
