"""Files whose hashes were checked, remembered so that no step hashes them again.

    cache/checked/<id of the dataset>      a line for each file, the last one of a name counts:
                                           name, inode, size, mtime and ctime in ns, CRC-32 of these

A file counts as checked while inode, size and both times are what they were.  Whoever writes to a
file changes its ctime, which no program can set, and a copy of a workspace has other inodes, so
both are hashed again.  What this cannot see is a disk that gives other bytes without a write:
`verify` hashes every file, and `ODFBUILD_VERIFY_READS=always` has each process do so once.
The device is no part of it: containers and network disks number theirs again.  All of it may be
deleted.

A mark is that of the bytes that were read: it is taken before they are, and counts if it is the
same afterwards.  What was hashed and then moved is hashed again where it lies, when it is read
first: a move changes the ctime, and hides a write beside it.
"""

import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from odfbuild.host.files import open_regular, why_irregular
from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.state.chain.objects import UnreadableObjectError, hash_file, hash_files, unreadable
from odfbuild.state.files.disk import pending, read_file, start_writing_out
from odfbuild.values import dataclass

VERIFY_READS: Final = "ODFBUILD_VERIFY_READS"
_TICK: Final = 20_000_000  # ns: two writes that are nearer may leave the same times
_WORTH_A_WAIT: Final = 16 << 20  # bytes, which take longer to hash than a tick
_PIECE: Final = 1 << 18  # bytes that are hashed at a time
_SPARE: Final = 256  # lines that are outdated before a file is written again


class FileMark(NamedTuple):
    """What changes when somebody writes to a file or puts another in its place."""

    inode: int
    size: int
    mtime: int
    ctime: int


def mark_of(path: Path) -> FileMark:
    """Return the mark of a file as it is now.  Raises FileNotFoundError."""
    found = path.stat()
    return FileMark(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _own_mark(path: Path) -> FileMark:
    """Return the mark of a file of the workspace.

    Raises FileNotFoundError, and UnreadableObjectError of a link and of what else is no such file.
    """
    said = why_irregular(path)
    if said is not None:
        raise UnreadableObjectError(path, said)
    return mark_of(path)


class _DatedMark(NamedTuple):
    """A mark, and when it was looked at: in ns since 1970, before the bytes are read."""

    mark: FileMark
    at: int

    @classmethod
    def at_file(cls, path: Path) -> "_DatedMark":
        mark = _own_mark(path)
        return cls(mark, time.time_ns())

    def still_holds(self, path: Path) -> bool:
        """Tell whether nobody can have written to the file since."""
        return self.mark == mark_of(path) and self.mark.ctime + _TICK < self.at


@dataclass(frozen=True, slots=True)
class HashedMark:
    """The mark of a file that a process wrote and then hashed; to another process it says nothing.

    That may be one of another machine, which does not know what is seen of the file here.
    """

    mark: FileMark
    process: int

    def still_holds(self, path: Path) -> bool:
        """Tell whether this process hashed the file, and nobody can have written to it since."""
        try:
            return self.process == os.getpid() and self.mark == _own_mark(path)
        except (OSError, UnreadableObjectError):
            return False


def hash_written(path: Path) -> tuple[Multihash, HashedMark | None]:
    """Return the hash of a file that was just written, and the mark of the bytes that were hashed.

    A small file has no mark: hashing it twice takes less time than waiting until a later write
    would have other times.
    """
    if path.stat().st_size < _WORTH_A_WAIT:
        return hash_file(path), None
    _wait_for_tick(_own_mark(path).ctime)
    look = _DatedMark.at_file(path)
    hash = hash_file(path)
    return hash, HashedMark(look.mark, os.getpid()) if look.still_holds(path) else None


def _wait_for_tick(written: int) -> None:
    """Wait until a write to a file has another time than the last one."""
    time.sleep(min(max(0, written + _TICK - time.time_ns()), _TICK) / 1_000_000_000)


class GrowingHash:
    """The hash of a file that is only added to, by this process: most of it is done when it ends.

    What is hashed is on its way to the disk, too.

    The mark is that of the complete file.  What somebody else changes in it before that is in no
    hash: the file then is not what its name says, which whoever reads it finds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hash = hashlib.sha3_256()
        self._end = 0

    def go_on(self, end: int) -> None:
        """Hash what was written up to a place, which must not change any more."""
        with open_regular(self._path) as file:
            start = file.seek(self._end)
            while piece := file.read(max(0, min(_PIECE, end - self._end))):
                self._hash.update(piece)
                self._end += len(piece)
            start_writing_out(file.fileno(), start, self._end - start)

    def finish(self) -> tuple[Multihash, HashedMark | None]:
        """Return what `hash_written` would, now that the file is complete."""
        if not self._end:
            return hash_written(self._path)
        self.go_on(_own_mark(self._path).size)
        _wait_for_tick(_own_mark(self._path).ctime)
        look = _DatedMark.at_file(self._path)
        complete = look.mark.size == self._end and look.still_holds(self._path)
        hash = Multihash(int(Multicodec.SHA3_256), self._hash.digest())
        return hash, HashedMark(look.mark, os.getpid()) if complete else None


class CheckedFiles:
    """The files of one dataset that were checked; `memory` None forgets them with the process."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._known: dict[str, FileMark] | None = None

    def unknown(
        self, files: Sequence[tuple[Multihash, Path]]
    ) -> tuple[tuple[Multihash, Path], ...]:
        """Return the files that are not known to hash to the name beside them.

        Raises FileNotFoundError, UnreadableObjectError.
        """
        marks = [_own_mark(path) for _, path in files]
        with self._lock:
            known = self._all()
            return tuple(
                (name, path)
                for (name, path), mark in zip(files, marks, strict=True)
                if known.get(str(name)) != mark
            )

    def unlike(
        self, files: Sequence[tuple[Multihash, Path]]
    ) -> tuple[tuple[Multihash, Path, Multihash], ...]:
        """Return the files that do not hash to the name beside them, and what they hash to.

        All are read, several at a time; those that do are known from now on.  Raises
        FileNotFoundError, UnreadableObjectError.
        """
        looks = [_DatedMark.at_file(path) for _, path in files]
        found, passed = [], []
        try:
            hashes = tuple(hash_files(files))
        except OSError as error:
            raise unreadable(error.filename or files[0][1], error) from error
        for (name, path), look, actual in zip(files, looks, hashes, strict=True):
            if actual != name:
                found.append((name, path, actual))
            elif look.still_holds(path):
                passed.append((str(name), look.mark))
        self._add(passed)
        return tuple(found)

    def check(self, name: str, path: Path, holds: Callable[[], bool]) -> bool:
        """Return whether a file holds; one that does is known by this name from now on.

        `holds` reads the file to say so.  Raises FileNotFoundError, UnreadableObjectError.
        """
        look = _DatedMark.at_file(path)
        try:
            passed = holds()
        except OSError as error:
            raise unreadable(path, error) from error
        if passed and look.still_holds(path):
            self._add([(name, look.mark)])
        return passed

    def knows(self, name: str, mark: FileMark) -> bool:
        """Tell whether a file of this name and mark was checked."""
        with self._lock:
            return self._all().get(name) == mark

    def _add(self, found: Sequence[tuple[str, FileMark]]) -> None:
        with self._lock:
            known = self._all()
            new = [(name, mark) for name, mark in found if known.get(name) != mark]
            known.update(new)
            if new and self._memory is not None:
                _append(self._memory, new)

    def _all(self) -> dict[str, FileMark]:
        if self._known is None:
            self._known = {}
            if self._memory is not None and os.environ.get(VERIFY_READS) != "always":
                self._known = _recalled(self._memory)
        return self._known


def _recalled(memory: Path) -> dict[str, FileMark]:
    """Return what is remembered; lines that are damaged, or cut off, count for nothing."""
    with suppress(OSError):
        lines = (read_file(memory) or b"").split(b"\n")
        known = dict(_parsed(lines))
        if len(lines) > 2 * len(known) + _SPARE:
            draft = pending(memory.parent)
            draft.write_bytes(b"".join(_line(name, mark) for name, mark in known.items()))
            draft.replace(memory)
        return known
    return {}


def _parsed(lines: Sequence[bytes]) -> Iterator[tuple[str, FileMark]]:
    for line in lines:
        text, _, check = line.rpartition(b" ")
        with suppress(ValueError):
            if int(check, 16) == zlib.crc32(text):
                name, *numbers = text.decode("ascii").split(" ")
                if len(numbers) == len(FileMark._fields):
                    yield name, FileMark(*map(int, numbers))


def _line(name: str, mark: FileMark) -> bytes:
    text = " ".join((name, *map(str, mark))).encode("ascii")
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _append(memory: Path, found: Sequence[tuple[str, FileMark]]) -> None:
    """Add lines by one write, so that those of several processes do not mix.

    A new line first: what another process could not finish then spoils no line but its own.
    """
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        opened = os.open(memory, flags, 0o666)
        try:
            os.write(opened, b"\n" + b"".join(_line(name, mark) for name, mark in found))
        finally:
            os.close(opened)
