"""Heads of all datasets and the stat facts of their files: unmoved ones are not read.

As of definitions, size, times and inode stand for what a file holds; of files that were young when
they were looked at, what they hold is compared.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.files.disk import read_file
from odfbuild.values import dataclass

TICK: Final = 2_000_000_000  # ns, of the coarsest clock of a file system
_END: Final = f"{os.sep}refs{os.sep}{HEAD}"


Heads: TypeAlias = Mapping[DatasetId, Multihash]


class HeadLook(Protocol):
    """How heads are looked at; ids and heads are texts."""

    def stats(self) -> str:
        """Return the stat facts of all heads, a line each, in order: id, size, two times, inode.

        Where they are no files, a line is another one when the head is.
        """

    def stats_with(self, read: Callable[[], Heads]) -> tuple[str, Heads]:
        """Return what `stats` does, from before the heads are read, and these."""

    def head(self, id: str) -> str | None:
        """Return what a head is now, None if there is none."""

    def has_blocks(self, heads: Mapping[str, str]) -> bool:
        """Tell whether the block of each head is there, as far as can be told in a moment."""


@dataclass(frozen=True, slots=True)
class HeadTable:
    """A line of each dataset that has a head: id and head, and id and stat facts.

    `young` are the ids of those whose head files may change once more and keep their times.
    """

    heads: str
    stats: str
    young: tuple[str, ...] = ()

    @classmethod
    def of(cls, heads: Heads, stats: str, *, now: int) -> "HeadTable":
        """Return the table; the facts are from before the heads were read, `now` in ns."""
        return cls._of({id.multibase: str(head) for id, head in heads.items()}, stats, now)

    @classmethod
    def _of(cls, heads: Mapping[str, str], stats: str, now: int) -> "HeadTable":
        lines = sorted(f"{id} {head}" for id, head in heads.items())
        young = (_id(line) for line in stats.split("\n") if line and _is_young(line, now - TICK))
        return cls("\n".join(lines), stats, tuple(young))

    def by_id(self) -> dict[str, str]:
        """Return the heads by id, both as text."""
        pairs = (line.split(" ") for line in self.heads.split("\n") if line)
        return {id: head for id, head in pairs}  # noqa: C416 - pairs are lists

    def changed(self, look: HeadLook, stats: str) -> frozenset[str] | None:
        """Return the ids whose heads are others by now; None if there are more or fewer.

        `stats` are the facts by now.
        """
        suspects = set(self.young)
        if stats != self.stats:
            now, before = set(stats.split("\n")), set(self.stats.split("\n"))
            came, gone = ({_id(line) for line in part} for part in (now - before, before - now))
            if came != gone:
                return None
            suspects |= came
        known = self.by_id() if suspects else {}
        if not suspects <= known.keys():
            return None
        return frozenset(id for id in suspects if look.head(id) != known.get(id))

    def with_heads(self, heads: Mapping[str, str], stats: str, *, now: int) -> "HeadTable":
        """Return the table with other heads of some datasets, by id; facts as `of` takes them."""
        lines = {f"{id} {head}" for id, head in heads.items()}
        if not self.young and stats == self.stats and lines <= set(self.heads.split("\n")):
            return self
        return self._of({**self.by_id(), **heads}, stats, now)


class FolderLook:
    """The head files in the folder of datasets."""

    def __init__(self, datasets: str) -> None:
        self._datasets = datasets

    def stats(self) -> str:
        try:
            names = sorted(os.listdir(self._datasets))  # noqa: PTH208
        except OSError:
            return ""
        stat, lines = os.stat, []
        with _folder(self._datasets) as folder:
            for name in names:
                try:
                    at = stat(f"{name}{_END}", dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                lines.append(f"{name} {at.st_size} {at.st_mtime_ns} {at.st_ctime_ns} {at.st_ino}")
        return "\n".join(lines)

    def stats_with(self, read: Callable[[], Heads]) -> tuple[str, Heads]:
        stats = self.stats()
        return stats, read()

    def head(self, id: str) -> str | None:
        return _read(f"{self._datasets}{os.sep}{id}{_END}")

    def has_blocks(self, heads: Mapping[str, str]) -> bool:
        part, access, there = f"{os.sep}blocks{os.sep}", os.access, os.F_OK
        with _folder(self._datasets) as at:
            return all(
                head and access(f"{id}{part}{head}", there, dir_fd=at) for id, head in heads.items()
            )


@contextmanager
def _folder(path: str) -> Iterator[int | None]:
    """Open a folder, so that what is in it is found without the way to it; None if it is none."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


def _id(line: str) -> str:
    return line.partition(" ")[0]


def _is_young(line: str, since: int) -> bool:
    _, _, mtime, ctime, _ = line.rsplit(" ", 4)
    return max(int(mtime), int(ctime)) >= since


def _read(path: str) -> str | None:
    try:
        data = read_file(path)
    except OSError:
        return None
    return None if data is None else data.decode("ascii", "replace")
