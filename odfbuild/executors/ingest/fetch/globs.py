"""Files that a pattern with wildcards in its folders matches, in bounded work.

Patterns mean what Python's `glob` with `recursive=True` makes of them: `**` is any number of
folders, what starts with a dot has to be asked for, links are followed.  A folder that is its own
ancestor over a link is not entered again.
"""

import fnmatch
import glob
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field
from itertools import takewhile

from odfbuild.executors.ingest.fetch.request import FetchError
from odfbuild.values import dataclass

ENTRIES = 1_000_000
SECONDS = 60


class GlobLimitError(FetchError):
    """A file pattern would have to visit too many entries."""

    code = "glob-limit"


def matches(pattern: str, base: str, reach: Callable[[str], None] | None = None) -> Iterator[str]:
    """Yield the paths below a folder that match, each once, in no order; links may be broken.

    `reach` raises an error for a link to a folder that may not be looked into.  Raises
    GlobLimitError.
    """
    parts = tuple(part for part in pattern.split("/") if part)
    start = takewhile(lambda part: not glob.has_magic(part), parts)
    yield from _GlobSearch(pattern, base, reach, len("/".join(start))).run(parts)


@dataclass(slots=True)
class _GlobSearch:
    """One search: the places that are left to look at, and how much was looked at."""

    pattern: str
    base: str
    reach: Callable[[str], None] | None
    fixed: int  # length of what is before the first wildcard
    seen: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    left: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    begun: set[tuple[str, int]] = field(default_factory=set)

    def run(self, parts: tuple[str, ...]) -> Iterator[str]:
        found: set[str] = set()
        self._later("", parts)
        while self.left:
            for path in self._look(*self.left.pop()):
                if path not in found:
                    found.add(path)
                    yield os.path.join(self.base, path)  # noqa: PTH118

    def _later(self, folder: str, parts: tuple[str, ...]) -> None:
        if parts and (folder, len(parts)) not in self.begun:
            self.begun.add((folder, len(parts)))
            if self.reach is not None and len(folder) > self.fixed:
                place = os.path.join(self.base, folder)  # noqa: PTH118
                if os.path.islink(place):  # noqa: PTH114
                    self.reach(place)
            self.left.append((folder, parts))

    def _look(self, folder: str, parts: tuple[str, ...]) -> Iterator[str]:
        """Yield what matches at the end of a path; keep the folders to go on with for later."""
        part, rest = parts[0], parts[1:]
        if part == "**":
            self._later(folder, rest)
            for entry in self._entries(folder):
                if entry.name.startswith("."):
                    continue
                path = _joined(folder, entry.name)
                if not rest:
                    yield path
                if _is_folder(entry) and not _leads_up(entry):
                    self._later(path, parts)
        elif glob.has_magic(part):
            fits = re.compile(fnmatch.translate(part)).match
            for entry in self._entries(folder):
                if fits(entry.name) and (part.startswith(".") or not entry.name.startswith(".")):
                    if not rest:
                        yield _joined(folder, entry.name)
                    elif _is_folder(entry):
                        self._later(_joined(folder, entry.name), rest)
        elif rest:
            self._later(_joined(folder, part), rest)
        else:
            yield _joined(folder, part)

    def _entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        with suppress(OSError), os.scandir(os.path.join(self.base, folder)) as entries:  # noqa: PTH118
            for entry in entries:
                self.seen += 1
                if self.seen > ENTRIES or time.monotonic() > self.until:
                    raise GlobLimitError(
                        what=f"the pattern {self.pattern} looks at more than {ENTRIES:,} files and"
                        f" folders, or for more than {SECONDS} s",
                        why="it would be walked at every plan",
                        fix="narrow `fetch.path`: name the folders before a `**`",
                    )
                yield entry


def _leads_up(entry: "os.DirEntry[str]") -> bool:
    """Tell whether an entry is a link to the folder that it lies in, or to one above."""
    if not entry.is_symlink():
        return False
    here = os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120
    return f"{here}/".startswith(f"{os.path.realpath(entry.path).rstrip('/')}/")


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
