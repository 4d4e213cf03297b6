"""Lineage in SQLite: trees, relations, homes, and the datasets that the ids stand for.

Every write is whole or not at all, sees what others wrote, and is refused if it would close a
cycle, however long.  Readers see one moment and wait for nobody.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import UUID

from odfbuild.lineage.building import uncollected
from odfbuild.lineage.ids import DSID, node_id
from odfbuild.lineage.model import (
    LineageDirection,
    LineageRelation,
    LineageTree,
    two_classifiers,
    two_homes,
)
from odfbuild.lineage.reach import check_new, chunks, marks, remove_from, tree_of
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.resource import AbstractBulkLineageResource, BatchStatus
from odfbuild.lineage.tables import Tables
from odfbuild.odf.identity import DatasetId

__all__ = ["KnownDataset", "LineageFile", "SqliteLineageResource", "enter_relations", "take"]

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
        self.tables = Tables(index.path)

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
