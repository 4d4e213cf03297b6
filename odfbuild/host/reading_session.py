"""Reading session: texts of an editor in the place of files, and what was read of files before.

A language server judges the same project after every few keystrokes.  While it does, a session is
open: files that an editor shows have the text that is shown, and what was made of a text that is
the same as before is not made again.  Nothing else opens one: commands read what is on the disk.
"""

import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import time_ns
from typing import Any, Final, TypeVar

from odfbuild.host.files import read_regular
from odfbuild.values import dataclass

_T = TypeVar("_T")
_TICK: Final = 2_000_000_000
"""Nanoseconds of the coarsest clock of a file system: younger files may change and keep times."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The bytes of a file, and the facts of the file when they were read."""

    facts: tuple[int, int, int, int]
    data: bytes


class ReadingSession:
    """What one reader of a project keeps from one round of reading to the next.

    In one round every file is read once, so that all of what is said is about the same text.  What
    a round did not ask for is forgotten when it ends.
    """

    def __init__(self) -> None:
        self.unsaved: Mapping[str, bytes] = {}
        self._files: dict[str, _Kept] = {}
        self._made: dict[Hashable, Any] = {}
        self._used: dict[Hashable, Any] = {}
        self._once: dict[Hashable, Any] = {}

    @contextmanager
    def round(self, unsaved: Mapping[str, bytes], *, whole: bool = True) -> Iterator[None]:
        """Read with texts of an editor, by absolute path, in the place of the files there.

        One that is not `whole` asks for a part only, and forgets nothing.
        """
        self.unsaved = unsaved
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self._made = self._used if whole else {**self._made, **self._used}
            self._used, self._once = {}, {}
            self.unsaved = {}

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what is made the first time in a round; an error is raised each time."""
        if key not in self._once:
            self._once[key] = make()
        made: _T = self._once[key]
        return made

    def made(self, key: Hashable, make: Callable[[], _T], *, keeps: Callable[[_T], bool]) -> _T:
        """Return what was made for a key in this round or the one before, or make it.

        `keeps` says of a value that it depends on nothing but the key.
        """
        if key in self._used:
            known: _T = self._used[key]
            return known
        value: _T = self._made[key] if key in self._made else make()
        if key in self._made or keeps(value):
            self._used[key] = value
        return value

    def made_of(
        self, key: Hashable, objects: tuple[object, ...], values: object, make: Callable[[], _T]
    ) -> _T:
        """Return what was made of the very same objects and of equal values, or make it.

        What is equal may be at other places, so objects have to be the same ones.
        """
        kept = self._used.get(key) or self._made.get(key)
        if kept is None or kept[1] != values or not _are_same(kept[0], objects):
            kept = (objects, values, make())
        self._used[key] = kept
        value: _T = kept[2]
        return value

    def data(self, path: Path) -> bytes:
        """Return the bytes of a regular file, again if they may be others.  Raises OSError."""
        seen, now = os.stat(path), time_ns()  # noqa: PTH116 - of a thousand files, each time
        facts = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
        kept = self._files.get(str(path))
        if kept is not None and kept.facts == facts:
            return kept.data
        data = read_regular(path)
        if max(seen.st_mtime_ns, seen.st_ctime_ns) < now - _TICK:
            self._files[str(path)] = _Kept(facts, data)
        else:
            self._files.pop(str(path), None)
        return data


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


_CURRENT: ContextVar[ReadingSession | None] = ContextVar("reading_session", default=None)


def reading_session() -> ReadingSession | None:
    """Return the session that is open; None of a command, which reads what is on the disk."""
    return _CURRENT.get()


def unsaved_text(path: Path) -> bytes | None:
    """Return the text of a file that an editor shows, None of a file that counts as it is."""
    session = _CURRENT.get()
    return None if session is None else session.unsaved.get(str(path))


def made_of(
    key: Hashable, objects: tuple[object, ...], values: object, make: Callable[[], _T]
) -> _T:
    """Return what an open session knows to be made of these, or make it."""
    session = _CURRENT.get()
    return make() if session is None else session.made_of(key, objects, values, make)


def once(key: Hashable, make: Callable[[], _T]) -> _T:
    """Return what an open session made of the key in this round, or make it."""
    session = _CURRENT.get()
    return make() if session is None else session.once(key, make)


def read_shown(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file, as an editor shows them if one does.

    Raises as `read_regular` does of a file on the disk.
    """
    shown = unsaved_text(path)
    return read_regular(path, most) if shown is None else shown
