"""The memory of the files that a source was read from: `sources/<dataset id>` in the workspace.

A chain knows the names of the files that it was read from, block by block (`newSourceState`); what
they held when they were read, only this memory does.  Each line is one reading, with a checksum:
the file as it was, and the block that has its rows.  A line is on disk before the block becomes the
head, and counts only where the chain has that block: so no crash, no reset and no rewriting of a
chain makes a reading of what was not read, or loses one.  Lines are never changed or taken away.

`cache/files/<dataset id>` spares looking: which of the blocks are in the chain, and what files
held that are others than when they were read.
"""

import json
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from odfbuild.errors import StateError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddData, MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.files.checksum import (
    check_sum,
    read_document,
    write_document,
)
from odfbuild.state.files.disk import Disk, read_file
from odfbuild.values import dataclass

FOLDER: Final = "sources"
_ETAG: Final = "odf/etag"
_CLEAR: Final = "clear-files.json"
_FILES: Final = "files"
_NO_ROWS: Final = "no rows"  # at the end of an entry, of a file that the block has no rows of
_NO_SIZE: Final = -1  # of a name whose file is not known


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A block of a chain: its hash as text, and its number."""

    block: str
    number: int


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was when it was read: `size` in bytes, `mtime` in nanoseconds.

    `digest` is that of what it held, None if that is not known: then it is the file as it was
    found later.  `at` is the block that has its rows, or without `has_rows` the head that they
    changed nothing of.
    """

    path: str
    size: int
    mtime: int
    digest: str | None
    at: BlockPlace
    has_rows: bool = True


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files that were read up to a head: the names, where first, and what is known by path."""

    names: Mapping[str, BlockPlace] = field(default_factory=dict)
    files: Mapping[str, FileRead] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadFilesMemory:
    """What was found out by looking; a cache.

    `inside` are blocks of readings that a chain has up to `head`, `outside` those that it has not;
    `names` are those in the chain.  `looked` are size, time and digest of files that are others
    than when they were read.
    """

    head: BlockPlace | None = None
    inside: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    names: Mapping[str, BlockPlace] = field(default_factory=dict)
    looked: Mapping[str, tuple[int, int, str | None]] = field(default_factory=dict)


def recall_readings(root: Path, dataset: DatasetId) -> tuple[FileRead, ...]:
    """Return the readings of a dataset's files, oldest first; without those that are damaged."""
    name = dataset.multibase
    try:
        text = (read_file(root / FOLDER / name) or b"").decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(each for line in text.split("\n") if (each := _reading(line, name)) is not None)


def _reading(line: str, name: str) -> FileRead | None:
    check, _, body = line.partition(" ")
    if not body or check != check_sum(body, name):
        return None
    try:
        path, size, mtime, digest, block, number, *more = parse_json(body)
        if b"\0" in os.fsencode(path):
            return None
    except (ValueError, TypeError):
        return None
    kinds = (str, int, int, str | None, str, int)
    if not all(map(isinstance, (path, size, mtime, digest, block, number), kinds)):
        return None
    return FileRead(path, size, mtime, digest, BlockPlace(block, number), has_rows=not more)


def _entry(each: FileRead) -> Sequence[object]:
    more = () if each.has_rows else (_NO_ROWS,)
    return each.path, each.size, each.mtime, each.digest, each.at.block, each.at.number, *more


def note_readings(root: Path, dataset: DatasetId, readings: Iterable[FileRead]) -> None:
    """Remember readings, lasting on return.  Raises StateError where nothing can be written."""
    name = dataset.multibase
    bodies = [json.dumps(_entry(each)) for each in readings]
    text = "".join(f"{check_sum(body, name)} {body}\n" for body in bodies)
    if not text:
        return
    disk, folder = Disk(), root / FOLDER
    try:
        disk.make_folder(folder)
        disk.append(folder / name, f"\n{text}".encode())  # after a line that a crash cut off
        os.utime(folder)
    except OSError as error:
        raise StateError(
            what=f"cannot write into {folder}: {error.strerror}",
            why="the content of read files must survive a crash",
            fix="allow writing, then run the command again",
        ) from error


def note_rewritten(root: Path, dataset: DatasetId, found: FilesRead, state: ChainState) -> None:
    """Remember that a chain which is about to become another one still has what was read.

    One that forgot its source is read from the beginning.  Raises StateError.
    """
    if not state.source_state:
        return
    at = BlockPlace(str(state.head), state.sequence)
    known = {posixpath.basename(path) for path in found.files}
    names = (FileRead(name, _NO_SIZE, 0, None, at) for name in found.names if name not in known)
    files = (replace(each, at=at, has_rows=False) for each in found.files.values())
    note_readings(root, dataset, (*names, *files))


def files_read(
    dataset: Dataset, head: BlockPlace, readings: Sequence[FileRead], seen: ReadFilesMemory
) -> tuple[FilesRead, ReadFilesMemory]:
    """Return what a chain has read up to a head, and what was seen of it.

    Of several readings of a file, the one in the latest block counts.  Raises the errors of reading
    a chain.
    """
    seen = _seen_at(dataset, head, {each.at for each in readings}, seen)
    names, files = dict(seen.names), dict[str, FileRead]()
    for each in sorted(readings, key=lambda each: each.at.number):
        before = files.get(each.path)
        if each.at.block not in seen.inside:
            continue
        if each.size == _NO_SIZE:
            names.setdefault(each.path, each.at)
        elif each.digest is not None or before is None or before.at.number < each.at.number:
            files[each.path] = each
    return FilesRead(names, files), seen


def _seen_at(
    dataset: Dataset, head: BlockPlace, places: set[BlockPlace], seen: ReadFilesMemory
) -> ReadFilesMemory:
    """Return which blocks of readings a chain has; only its new blocks are read, if that tells."""
    if seen.head is not None:
        judged = {seen.head.block} | seen.inside | seen.outside
        told = all(each.block in judged or each.number > seen.head.number for each in places)
        if told and seen.head == head:
            return _judged(places, {head.block} | seen.inside, seen, head, seen.names)
        if told:
            with suppress(NotInChainError):
                after, upto = Multihash.parse(seen.head.block), Multihash.parse(head.block)
                new, names = _read(dataset.blocks(after=after, upto=upto))
                stands = {seen.head.block} | seen.inside | new
                return _judged(places, stands, seen, head, {**names, **seen.names})
    stands, names = _read(dataset.blocks(upto=Multihash.parse(head.block)))
    return _judged(places, stands, seen, head, names)


def _judged(
    places: set[BlockPlace],
    stands: set[str] | frozenset[str],
    seen: ReadFilesMemory,
    head: BlockPlace,
    names: Mapping[str, BlockPlace],
) -> ReadFilesMemory:
    blocks = {each.block for each in places}
    return ReadFilesMemory(
        head, frozenset(blocks & stands), frozenset(blocks - stands), names, seen.looked
    )


def _read(
    blocks: Iterable[tuple[Multihash, MetadataBlock]],
) -> tuple[set[str], dict[str, BlockPlace]]:
    """Return the hashes of blocks, and the names of files in them with where each is first."""
    hashes: set[str] = set()
    names: dict[str, BlockPlace] = {}
    for hash, block in blocks:
        hashes.add(str(hash))
        state = block.event.new_source_state if isinstance(block.event, AddData) else None
        if state is not None and state.kind == _ETAG:
            names.setdefault(state.value, BlockPlace(str(hash), block.sequence_number))
    return hashes, names


def recall_seen(root: Path, dataset: DatasetId) -> ReadFilesMemory:
    """Return what was seen at the last look; nothing of what cannot be read."""
    raw = read_document(root / "cache" / _FILES / dataset.multibase)
    try:
        return ReadFilesMemory(
            head=BlockPlace(*raw["head"]),
            inside=frozenset(raw["inside"]),
            outside=frozenset(raw["outside"]),
            names={name: BlockPlace(*at) for name, at in raw["names"].items()},
            looked={path: tuple(each) for path, each in raw["looked"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ReadFilesMemory()


def keep_seen(root: Path, dataset: DatasetId, seen: ReadFilesMemory) -> None:
    """Remember what was seen; else it is looked at again."""
    body = {
        "head": None if seen.head is None else (seen.head.block, seen.head.number),
        "inside": sorted(seen.inside),
        "outside": sorted(seen.outside),
        "names": {name: (at.block, at.number) for name, at in seen.names.items()},
        "looked": dict(seen.looked),
    }
    write_document(root / "cache" / _FILES / dataset.multibase, body)


def recall_clear(root: Path) -> dict[str, tuple[str, str]]:
    """Return heads and marks of files where nothing was passed over, by dataset; a cache."""
    raw = read_document(root / "cache" / _CLEAR)
    try:
        return {str(id): (str(head), str(mark)) for id, (head, mark) in raw.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def keep_clear(root: Path, found: Mapping[str, tuple[str, str]]) -> None:
    """Remember where nothing was passed over; else it is looked at again."""
    write_document(root / "cache" / _CLEAR, found)
