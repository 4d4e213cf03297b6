"""Downloads of a chain's files into a folder: hashed as they come, resumed where they broke off.

A file under its name may be a part of one, of this attempt or an earlier one: what is there is
hashed again, and only the rest is read.  What hashes to something else is deleted.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from threading import Event, Lock
from typing import IO, TypeVar

from odfbuild.errors import StateError
from odfbuild.odf.identity import Multicodec
from odfbuild.repositories.protocol import ChainSource, ObjectFile, RangeRefusedError
from odfbuild.state.files.disk import start_writing_out
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import BrokenSourceError, UnreachableRepositoryError

T = TypeVar("T")

_CHUNK = 1 << 20
_WRITE_OUT = 4 << 20  # bytes that go to disk while others come
_TRIES = 3  # without so much between them:
_PROGRESS = 64 << 10  # bytes, or who sends one a time would be asked forever
_SPARE = 16 << 20  # bytes of a disk that are left free


class NoRoomError(StateError):
    """The disk does not have enough space for a transfer."""

    code = "no-room"


def download(
    source: ChainSource,
    files: Sequence[ObjectFile],
    folder: Path,
    moved: CountBytes,
    *,
    parallel: int,
) -> None:
    """Have files of a source below a folder, as `data/<hash>` and `checkpoints/<hash>`.

    Raises BrokenSourceError, NoRoomError and what the source raises; the others are ended first,
    and what was read of any file is kept for the next attempt.
    """
    for kind in ("data", "checkpoints"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    _check_room(files, folder)
    source.expect(files)
    ended = Event()

    def counted(size: int) -> None:
        if ended.is_set():
            raise _EndedError
        moved(size)

    each_of(
        files,
        lambda each: download_file(source, each, folder, counted),
        parallel=parallel,
        ended=ended,
    )


class _EndedError(Exception):
    """Another file failed, or the user ended the transfer: what was read is kept."""


def each_of(
    items: Iterable[T],
    work: Callable[[T], None],
    *,
    parallel: int,
    ended: Event | None = None,
) -> None:
    """Do a work for each item, some at a time; after the first failure no other one is begun.

    Items are taken one by one as works end, and may fail as these do.  The first failure is raised
    once the works that were begun are over; `ended` is set before, for those that can break off.
    """
    from concurrent.futures import ThreadPoolExecutor

    every = iter(items)
    first = list(islice(every, parallel))
    left = chain(first, every)
    if len(first) < 2:
        for item in left:
            work(item)
        return
    over = Event() if ended is None else ended
    failures: list[BaseException] = []

    def go_through(_: int) -> None:
        while not over.is_set():
            try:
                with lock:
                    item = next(left, None)
                if item is None:
                    return
                work(item)
            except BaseException as error:
                failures.append(error)
                over.set()

    lock = Lock()
    count = len(first)
    with ThreadPoolExecutor(count) as threads:
        try:
            for _ in threads.map(go_through, range(count)):
                pass
        finally:  # an interrupt comes to this thread only
            over.set()
    if failures:
        raise failures[0]


def download_file(source: ChainSource, file: ObjectFile, folder: Path, moved: CountBytes) -> None:
    """Have one file of a source below a folder; raises as `download` does."""
    path = folder / file.kind / str(file.hash)
    broken = 0
    while True:
        if (had := _length(path)) > file.size:
            path.unlink()
            had = 0
        try:
            digest = _fetch(source, file, path, moved)
        except UnreachableRepositoryError:
            broken = 0 if _length(path) >= had + _PROGRESS else broken + 1
            if broken == _TRIES or _length(path) == 0:
                raise
            moved(-_length(path))
            continue
        except RangeRefusedError:
            path.unlink()
            moved(-had)
            continue
        if digest == file.hash.digest:
            return
        path.unlink()
        if had == 0:
            break
        moved(-file.size)  # what an earlier attempt left may be damaged
    raise BrokenSourceError(
        what=f"{source.place} returns {file.kind}/{file.hash} with bytes of another hash",
        why="a file is named by the hash of its bytes",
        fix="try again; if it persists, the copy there is damaged or forged: ask its owner",
    )


def _fetch(source: ChainSource, file: ObjectFile, path: Path, moved: CountBytes) -> bytes:
    """Append to a file what it lacks; return the digest of all of it."""
    is_sha2 = file.hash.code == Multicodec.SHA2_256
    digest = hashlib.sha256() if is_sha2 else hashlib.sha3_256()
    with path.open("a+b") as target:
        target.seek(0)
        had = written = _hash_file(target, digest.update)
        moved(had)
        if had < file.size:
            with source.read(file, had) as pieces:
                for piece in pieces:
                    had += len(piece)
                    if had > file.size:
                        path.unlink()
                        raise _size(source, file, "more")
                    digest.update(piece)
                    target.write(piece)
                    moved(len(piece))
                    if had - written >= _WRITE_OUT:
                        written = _written_out(target, written, had)
        if had >= _WRITE_OUT:
            _written_out(target, written, had)
    if had < file.size:
        raise _size(source, file, f"{had:,}")
    return digest.digest()


def _written_out(target: IO[bytes], start: int, end: int) -> int:
    """Have the system begin to bring bytes of a file to disk; return where they end."""
    target.flush()
    start_writing_out(target.fileno(), start, end - start)
    return end


def _hash_file(target: IO[bytes], update: Callable[[bytes], object]) -> int:
    """Hash what is there; return its length."""
    had = 0
    while piece := target.read(_CHUNK):
        had += len(piece)
        update(piece)
    return had


def _length(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _size(source: ChainSource, file: ObjectFile, found: str) -> BrokenSourceError:
    return BrokenSourceError(
        what=f"{source.place} returned {found} bytes of {file.kind}/{file.hash}, not {file.size:,}",
        why="a block records the size of its files",
        fix="try again: the transfer continues where it stopped",
    )


def _check_room(files: Sequence[ObjectFile], folder: Path) -> None:
    wanted = sum(each.size - _length(folder / each.kind / str(each.hash)) for each in files)
    free = shutil.disk_usage(folder).free
    if wanted + _SPARE > free:
        raise NoRoomError(
            what=f"{wanted:,} bytes would be transferred, but only {free:,} are free",
            why="a chain is copied in full or not at all",
            fix="free some space on the disk of the workspace; odfbuild gc --dry-run shows what "
            "can be deleted",
        )
