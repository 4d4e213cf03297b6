"""A cache of chain states in SQLite, so that reading 5,000 datasets is not reading their chains.

It may be deleted, damaged or out of date: a row counts only if it was made by this version for the
very head just read, and its checksum fits; whatever else is found is thrown away and folded again.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from odfbuild import __version__
from odfbuild.odf.chain import ChainState, from_bytes, to_bytes
from odfbuild.odf.chain_bytes import UnreadableStateError
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError, Multihash

__all__ = ["Index"]

_FORMAT = f"1:{__version__}"
_STATES = """
create table states (
    dataset text primary key, head text not null, check_sum integer not null, state blob not null
) without rowid
"""
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

    def close(self) -> None:
        """Let go of the file; the index can be used again."""
        with self._mine:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _read(self, query: str, values: tuple[str, ...]) -> list[_Row]:
        return self._use(lambda opened: opened.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], list[_Row]]) -> list[_Row]:
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


def _make_tables(opened: sqlite3.Connection) -> None:
    opened.execute("create table if not exists about (format text)")
    if opened.execute("select * from about").fetchall() == [(_FORMAT,)]:
        return
    for statement in ("drop table if exists states", "delete from about", _STATES):
        opened.execute(statement)
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
