"""Reading session: texts of an editor in place of files, and cached results of earlier reads.

A language server checks the same project after every few keystrokes.  During a check, a session is
open: files that are open in the editor have the editor's text, and results for unchanged texts are
reused.  Only the language server opens sessions: commands read the files on disk.
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
class _CachedFile:
    """The bytes of a file, and the facts of the file when they were read."""

    facts: tuple[int, int, int, int]
    data: bytes


class ReadingSession:
    """The results that a reader of a project caches from one round of reading to the next.

    In one round every file is read once, so that all results are of the same text.  Results that a
    round did not use are dropped at its end.
    """

    def __init__(self) -> None:
        self.unsaved: Mapping[str, bytes] = {}
        self._files: dict[str, _CachedFile] = {}
        self._made: dict[Hashable, Any] = {}
        self._used: dict[Hashable, Any] = {}
        self._once: dict[Hashable, Any] = {}

    @contextmanager
    def round(self, unsaved: Mapping[str, bytes], *, whole: bool = True) -> Iterator[None]:
        """Begin a round, with texts of an editor, by absolute path, in place of files.

        A round that is not `whole` reads only a part of the project, and drops nothing.
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
        """Return the value that was made first in this round; errors are not cached."""
        if key not in self._once:
            self._once[key] = make()
        made: _T = self._once[key]
        return made

    def made(self, key: Hashable, make: Callable[[], _T], *, keeps: Callable[[_T], bool]) -> _T:
        """Return the value made for a key in this round or the one before, or make it.

        `keeps` returns whether a value may be cached, as it depends on nothing but the key.
        """
        if key in self._used:
            known: _T = self._used[key]
            return known
        value: _T = self._made[key] if key in self._made else make()
        if key in self._made or keeps(value):
            self._used[key] = value
        return value

    def made_of(
        self,
        key: Hashable,
        objects: tuple[object, ...],
        values: object,
        make: Callable[[], _T],
        keeps: Callable[[_T], bool],
    ) -> _T:
        """Return the value made of the same objects and of equal values, or make it.

        Equal objects may have other positions in files, so objects must be identical.  `keeps`
        returns whether a value may be cached.
        """
        kept = self._used.get(key) or self._made.get(key)
        if kept is None or kept[1] != values or not _are_same(kept[0], objects):
            kept = (objects, values, make())
        value: _T = kept[2]
        if keeps(value):
            self._used[key] = kept
        return value

    def data(self, path: Path) -> bytes:
        """Return the bytes of a regular file, read again if it changed.  Raises OSError."""
        seen, now = os.stat(path), time_ns()  # noqa: PTH116 - of a thousand files, each time
        facts = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
        kept = self._files.get(str(path))
        if kept is not None and kept.facts == facts:
            return kept.data
        data = read_regular(path)
        if max(seen.st_mtime_ns, seen.st_ctime_ns) < now - _TICK:
            self._files[str(path)] = _CachedFile(facts, data)
        else:
            self._files.pop(str(path), None)
        return data


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


_CURRENT: ContextVar[ReadingSession | None] = ContextVar("reading_session", default=None)


def reading_session() -> ReadingSession | None:
    """Return the open session; None in a command, which reads the files on disk."""
    return _CURRENT.get()


def unsaved_text(path: Path) -> bytes | None:
    """Return the text of a file that is open in an editor, None of any other file."""
    session = _CURRENT.get()
    return None if session is None else session.unsaved.get(_editor_name(path))


def _editor_name(path: Path) -> str:
    """Return the name that an editor has for a file: without `..`, as in packages elsewhere."""
    name = str(path)
    if "/../" not in name:
        return name
    plain = os.path.normpath(name)
    return plain if os.path.realpath(plain) == os.path.realpath(name) else name


def made_of(
    key: Hashable,
    objects: tuple[object, ...],
    values: object,
    make: Callable[[], _T],
    keeps: Callable[[_T], bool] = lambda _: True,
) -> _T:
    """Return the value that an open session made of these, or make it."""
    session = _CURRENT.get()
    return make() if session is None else session.made_of(key, objects, values, make, keeps)


def once(key: Hashable, make: Callable[[], _T]) -> _T:
    """Return the value that an open session made for the key in this round, or make it."""
    session = _CURRENT.get()
    return make() if session is None else session.once(key, make)


def read_shown(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file: the editor's text if it is open there, else those on disk.

    Raises as `read_regular` for a file on disk.
    """
    shown = unsaved_text(path)
    return read_regular(path, most) if shown is None else shown
