"""Answers of engines, stored so that no question is asked twice: texts by question hash.

It may be deleted or damaged at any time: what is lost is asked again.  A question names all that
its answer depends on, so an answer never goes out of date.
"""

import sqlite3
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from odfbuild.state.files.folder import make_workspace_folder

_T = TypeVar("_T")

_TABLE = """
create table if not exists answers_1 (
    question text primary key, check_sum integer not null, answer text not null
) without rowid
"""


class Answers:
    """The answers in one file of the cache of a workspace; `path` None keeps them in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    def get(self, question: str) -> str | None:
        """Return the answer to a question, None if it is not known."""
        row = self._use(lambda opened: _read(opened, question), None)
        return None if row is None or _sum(question, row[1]) != row[0] else row[1]

    def put(self, question: str, answer: str) -> None:
        """Remember an answer; where nothing can be written, it is forgotten."""
        row = (question, _sum(question, answer), answer)
        self._use(lambda opened: _write(opened, row), None)

    def close(self) -> None:
        """Let go of the file; it is opened again when needed."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _use(self, work: Callable[[sqlite3.Connection], _T], otherwise: _T) -> _T:
        try:
            return work(self._connection())
        except sqlite3.DatabaseError as error:
            self.close()
            damaged = not isinstance(error, sqlite3.OperationalError)
            if damaged and self._path is not None:
                _delete(self._path)
            return otherwise
        except OSError:
            return otherwise

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            if self._path is not None:
                make_workspace_folder(self._path.parent.parent, self._path.parent)
            opened = sqlite3.connect(self._path or ":memory:", timeout=5.0, check_same_thread=False)
            weakref.finalize(self, opened.close).atexit = False  # in whichever thread that is
            opened.text_factory = lambda data: data.decode(errors="replace")
            self._opened = opened
            opened.execute("pragma journal_mode = wal")
            opened.execute("pragma synchronous = normal")
            opened.execute(_TABLE)
        return self._opened


def _read(opened: sqlite3.Connection, question: str) -> tuple[int, str] | None:
    query = "select check_sum, answer from answers_1 where question = ?"
    row = opened.execute(query, (question,)).fetchone()
    return None if row is None else (row[0], str(row[1]))


def _write(opened: sqlite3.Connection, row: tuple[str, int, str]) -> None:
    with opened:
        opened.execute("insert or replace into answers_1 values (?, ?, ?)", row)


def _sum(question: str, answer: str) -> int:
    return zlib.crc32(f"{question}\n{answer}".encode())


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
