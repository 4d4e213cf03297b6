"""The SQLite file of lineage: its tables, a connection a thread, transactions.

It is no cache: relations to datasets elsewhere and homes are kept nowhere else, so a file that
cannot be read is an error and is left alone.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import StateError

__all__ = ["LineageStoreError", "Tables"]

_VERSION: Final = 1
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
    """The file of lineage cannot be read or written."""

    code = "lineage-store"


class Tables:
    """Connections to one file, or to memory with `path` None, and transactions over them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._guard = threading.RLock()
        self._memory = None if path is not None else self._opened()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one moment."""
        with self._used() as db:
            if db.in_transaction:
                yield db
            else:
                yield from _within(db, "begin", "commit", "rollback")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection on which everything happens or, if the block raises, nothing."""
        with self._used() as db:
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
        db = self._opened()
        try:
            with self._named():
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
            for each in self._all:
                each.close()
            self._all.clear()
            self._mine = threading.local()

    def _is_within(self) -> bool:
        """Say whether a transaction of this thread is open."""
        db: sqlite3.Connection | None = getattr(self._mine, "db", None)
        return db is not None and db.in_transaction

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            with self._guard, self._named():
                yield self._memory
            return
        db: sqlite3.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            db = self._mine.db = self._opened()
        with self._named():
            yield db

    def _opened(self) -> sqlite3.Connection:
        with self._named():
            db = sqlite3.connect(
                self._path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
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
    def _named(self) -> Iterator[None]:
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


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("pragma journal_mode = wal")
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
