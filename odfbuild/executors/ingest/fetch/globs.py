"""Files that match a pattern with wildcards in its folders, searched with limits.

Patterns have the meaning that they have in Python's `glob` with `recursive=True`: `**` is any
number of folders, a leading dot must be written out, links are followed.  A link to a folder above
it is not followed by `**`.
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
    """A file pattern has to visit too many entries."""

    code = "glob-limit"


def matches(pattern: str, base: str, reach: Callable[[str], None] | None = None) -> Iterator[str]:
    """Yield the paths below a folder that match, each once, in no order; links may be broken.

    `reach` raises an error for a link to a folder that may not be read.  Raises
    GlobLimitError.
    """
    parts = tuple(part for part in pattern.split("/") if part)
    start = takewhile(lambda part: not glob.has_magic(part), parts)
    yield from _GlobSearch(pattern, base, reach, len("/".join(start))).run(parts)


@dataclass(slots=True)
class _GlobSearch:
    """One search: the folders left to visit, and how many entries were visited."""

    pattern: str
    base: str
    reach: Callable[[str], None] | None
    fixed: int  # length of the part before the first wildcard
    seen: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    queue: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    enqueued: set[tuple[str, int]] = field(default_factory=set)

    def run(self, parts: tuple[str, ...]) -> Iterator[str]:
        found: set[str] = set()
        self._enqueue("", parts)
        while self.queue:
            for path in self._visit(*self.queue.pop()):
                if path not in found:
                    found.add(path)
                    yield os.path.join(self.base, path)  # noqa: PTH118

    def _enqueue(self, folder: str, parts: tuple[str, ...]) -> None:
        if parts and (folder, len(parts)) not in self.enqueued:
            self.enqueued.add((folder, len(parts)))
            if self.reach is not None and len(folder) > self.fixed:
                place = os.path.join(self.base, folder)  # noqa: PTH118
                if os.path.islink(place):  # noqa: PTH114
                    self.reach(place)
            self.queue.append((folder, parts))

    def _visit(self, folder: str, parts: tuple[str, ...]) -> Iterator[str]:
        """Yield the matches of a last part; add the folders of other parts to the search."""
        part, rest = parts[0], parts[1:]
        if part == "**":
            self._enqueue(folder, rest)
            for entry in self._entries(folder):
                if entry.name.startswith("."):
                    continue
                path = _joined_path(folder, entry.name)
                if not rest:
                    yield path
                if _is_folder(entry) and not _is_loop(entry):
                    self._enqueue(path, parts)
        elif glob.has_magic(part):
            fits = re.compile(fnmatch.translate(part)).match
            for entry in self._entries(folder):
                if fits(entry.name) and (part.startswith(".") or not entry.name.startswith(".")):
                    if not rest:
                        yield _joined_path(folder, entry.name)
                    elif _is_folder(entry):
                        self._enqueue(_joined_path(folder, entry.name), rest)
        elif rest:
            self._enqueue(_joined_path(folder, part), rest)
        else:
            yield _joined_path(folder, part)

    def _entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        with suppress(OSError), os.scandir(os.path.join(self.base, folder)) as entries:  # noqa: PTH118
            for entry in entries:
                self.seen += 1
                if self.seen > ENTRIES or time.monotonic() > self.deadline:
                    raise GlobLimitError(
                        what=f"the pattern {self.pattern} visits more than {ENTRIES:,} files and"
                        f" folders, or takes more than {SECONDS} s",
                        why="every plan would repeat this search",
                        fix="narrow `fetch.path`: name the folders before a `**`",
                    )
                yield entry


def _is_loop(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a link to its own folder, or to one above."""
    if not entry.is_symlink():
        return False
    here = os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120
    return f"{here}/".startswith(f"{os.path.realpath(entry.path).rstrip('/')}/")


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _joined_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
