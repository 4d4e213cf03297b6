"""A cache of chain states in SQLite, so that reading 5,000 datasets is not reading their chains.

It may be deleted, damaged or out of date: a row counts only if it was made by this version for the
very head just read, and its checksum fits; whatever else is found is thrown away and folded again.
"""

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from odfbuild import __version__
from odfbuild.odf.chain import ChainState, from_bytes, to_bytes
from odfbuild.odf.chain_bytes import UnreadableStateError
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError, Multihash

__all__ = ["Index"]

_FORMAT = f"1:{__version__}"
_SCHEMA = """
create table if not exists about (format text not null);
create table if not exists states (
    dataset text primary key, head text not null, check_sum integer not null, state blob not null
) without rowid;
"""
_T = TypeVar("_T")
_Row = tuple[str, str, int, bytes]


class Index:
    """The latest known state of each dataset; `path` None keeps it in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._mine = threading.RLock()
        self._opened: sqlite3.Connection | None = None

    def get(self, dataset: DatasetId) -> ChainState | None:
        """Return the state of a dataset at some head of its past or present, if one is known."""
        query = "select * from states where dataset = ?"
        rows = self._read(query, (dataset.multibase,))
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
        with self._mine, suppress(sqlite3.Error), self._connection() as opened:
            opened.executemany("insert or replace into states values (?, ?, ?, ?)", rows)

    def forget(self, datasets: Iterable[DatasetId]) -> None:
        """Drop what is known of datasets that are gone."""
        rows = [(each.multibase,) for each in datasets]
        with self._mine, suppress(sqlite3.Error), self._connection() as opened:
            opened.executemany("delete from states where dataset = ?", rows)

    def close(self) -> None:
        """Let go of the file; the index can be used again."""
        with self._mine:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _read(self, query: str, values: tuple[str, ...]) -> list[_Row]:
        """Return rows: none while others keep the file busy, or when it has to be started anew."""
        with self._mine:
            try:
                return self._connection().execute(query, values).fetchall()
            except sqlite3.OperationalError:
                return []
            except sqlite3.DatabaseError:
                self._start_anew()
                return []

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> sqlite3.Connection:
        if self._path is None or not self._path.parent.is_dir():
            return _prepared(_connect(":memory:"))
        try:
            return _prepared(_connect(self._path))
        except sqlite3.OperationalError:  # read-only, or kept busy by others: do without
            return _prepared(_connect(":memory:"))
        except sqlite3.DatabaseError:
            _delete(self._path)
            return _prepared(_connect(self._path))

    def _start_anew(self) -> None:
        self.close()
        if self._path is not None:
            _delete(self._path)


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=1.0, check_same_thread=False)


def _prepared(opened: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables, dropping those of another version; close the file if that fails."""
    try:
        opened.execute("pragma journal_mode = wal")
        opened.execute("pragma synchronous = normal")
        with opened:
            _make_tables(opened)
    except sqlite3.Error:
        opened.close()
        raise
    return opened


def _make_tables(opened: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        opened.execute(statement)
    if opened.execute("select format from about").fetchall() != [(_FORMAT,)]:
        opened.execute("delete from states")
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
