"""A cache of chain states in SQLite, so that reading 5,000 datasets is not reading their chains.

Beside the states stand the ids of pushes, by dataset, up to some block of its chain.

It may be deleted, damaged or out of date: a row counts only if it was made by this version for the
very head just read, and its checksum fits; whatever else is found is thrown away and folded again.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odfbuild import __version__
from odfbuild.odf.chain import ChainState, from_bytes, to_bytes
from odfbuild.odf.chain_bytes import UnreadableStateError
from odfbuild.odf.identity import (
    DatasetId,
    InvalidDatasetIdError,
    InvalidMultihashError,
    Multihash,
)

__all__ = ["Index", "PushId"]

_FORMAT = f"2:{__version__}"
_STATES = """
create table states (
    dataset text primary key, head text not null, check_sum integer not null, state blob not null
) without rowid
"""
_PUSHES = """
create table pushes (
    dataset text, source text, id text, block text not null, primary key (dataset, source, id)
) without rowid
"""
_PUSHED = "create table pushed (dataset text primary key, upto text not null) without rowid"
_TABLES = {"states": _STATES, "pushes": _PUSHES, "pushed": _PUSHED}
_IN_USE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
    }
)
_Row = tuple[str, str, int, bytes]


@dataclass(frozen=True, slots=True)
class PushId:
    """The id that a push was given, by the source that it came through, and the block it made."""

    source: str
    id: str
    block: Multihash


class Index:
    """The latest known state of each dataset; `path` None keeps it in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._mine = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._is_away = False

    def get(self, dataset: DatasetId) -> ChainState | None:
        """Return the state of a dataset at some head of its past or present, if one is known."""
        rows = self._read("select * from states where dataset = ?", (dataset.multibase,))
        return _state(rows[0]) if rows else None

    def get_many(self, heads: Mapping[DatasetId, Multihash]) -> dict[DatasetId, ChainState]:
        """Return the states of those datasets that are known at exactly these heads."""
        wanted = {each.multibase: (each, str(head)) for each, head in heads.items()}
        found: dict[DatasetId, ChainState] = {}
        for row in self._read("select * from states", ()):
            each, head = wanted.get(row[0], (None, None))
            if each is not None and row[1] == head and (state := _state(row)) is not None:
                found[each] = state
        return found

    def put(self, *states: ChainState) -> None:
        """Remember states, each replacing what was known of its dataset."""
        rows = [_row(each) for each in states]
        self._use(lambda opened: _write(opened, rows))

    def pushed_upto(self, dataset: DatasetId) -> Multihash | None:
        """Return up to which block the pushes of a dataset are known; None if they are not."""
        return _hash(self._read("select upto from pushed where dataset = ?", (dataset.multibase,)))

    def push(self, dataset: DatasetId, source: str, id: str) -> Multihash | None:
        """Return the block that is known for the id of a push."""
        query = "select block from pushes where dataset = ? and source = ? and id = ?"
        return _hash(self._read(query, (dataset.multibase, source, id)))

    def put_pushes(
        self,
        dataset: DatasetId,
        found: Sequence[PushId],
        *,
        after: Multihash | None,
        upto: Multihash,
    ) -> None:
        """Remember the pushes in the blocks (after, upto]; with `after` None, those and no others.

        Nothing is remembered if what is known ends at another block by now.
        """
        self._use(lambda opened: _write_pushes(opened, dataset.multibase, found, after, upto))

    def close(self) -> None:
        """Let go of the file; the index can be used again."""
        with self._mine:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _read(self, query: str, values: tuple[str, ...]) -> list[Any]:
        return self._use(lambda opened: opened.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
        """Return what the work finds, or nothing when the file cannot be used.

        A file that others keep busy is left alone; a damaged one is deleted, to be started anew.
        """
        with self._mine:
            try:
                return work(self._connection())
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not _is_in_use(error):
                    self._start_anew()
                return []

    def _start_anew(self) -> None:
        self.close()
        if self._path is not None:
            _delete(self._path)

    def _connection(self) -> sqlite3.Connection:
        path = self._path if self._path is not None and self._path.parent.is_dir() else None
        if self._opened is not None and self._is_away and path is not None:
            self.close()
        if self._opened is None:
            self._opened, self._is_away = _open(path), path is None
        return self._opened


def _open(path: Path | None) -> sqlite3.Connection:
    if path is None:
        return _prepared(_connect(":memory:"))
    try:
        return _prepared(_connect(path))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if _is_in_use(error):
            return _prepared(_connect(":memory:"))
        _delete(path)
        return _prepared(_connect(path))


def _is_in_use(error: Exception) -> bool:
    """Tell a file that cannot be used now from one that is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _IN_USE


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=1.0, check_same_thread=False)


def _prepared(opened: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables, dropping those of another version; close the file if that fails."""
    try:
        opened.execute("pragma journal_mode = wal")
        opened.execute("pragma synchronous = normal")
        with opened:
            _make_tables(opened)
    except (sqlite3.Error, UnicodeDecodeError):
        opened.close()
        raise
    return opened


def _write(opened: sqlite3.Connection, rows: list[_Row]) -> list[_Row]:
    with opened:
        opened.executemany("insert or replace into states values (?, ?, ?, ?)", rows)
    return []


def _write_pushes(
    opened: sqlite3.Connection,
    dataset: str,
    found: Sequence[PushId],
    after: Multihash | None,
    upto: Multihash,
) -> list[Any]:
    opened.execute("begin immediate")
    with opened:
        known = opened.execute("select upto from pushed where dataset = ?", (dataset,)).fetchall()
        if after is None:
            opened.execute("delete from pushes where dataset = ?", (dataset,))
        elif _hash(known) != after:
            return []
        rows = [(dataset, each.source, each.id, str(each.block)) for each in found]
        opened.executemany("insert or ignore into pushes values (?, ?, ?, ?)", rows)
        opened.execute("insert or replace into pushed values (?, ?)", (dataset, str(upto)))
    return []


def _hash(rows: list[Any]) -> Multihash | None:
    """Return the hash in the one row that may be there; what cannot be read is none."""
    with suppress(InvalidMultihashError, LookupError):
        return Multihash.parse(str(rows[0][0]))
    return None


def _make_tables(opened: sqlite3.Connection) -> None:
    opened.execute("create table if not exists about (format text)")
    if opened.execute("select * from about").fetchall() == [(_FORMAT,)]:
        return
    for name, statement in _TABLES.items():
        opened.execute(f"drop table if exists {name}")
        opened.execute(statement)
    opened.execute("delete from about")
    opened.execute("insert into about values (?)", (_FORMAT,))


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _row(state: ChainState) -> _Row:
    data = to_bytes(state)
    return state.dataset.multibase, str(state.head), zlib.crc32(data), data


def _state(row: _Row) -> ChainState | None:
    """Return the state of a row, or None if the row is damaged."""
    dataset, head, check_sum, data = row
    if not isinstance(data, bytes) or zlib.crc32(data) != check_sum:
        return None
    with suppress(UnreadableStateError, InvalidDatasetIdError):
        state = from_bytes(data)
        if state.dataset.multibase == dataset and str(state.head) == head:
            return state
    return None
