"""The memory of the files that a source was read from: `sources/<dataset id>` in the workspace.

A chain knows the names of the files that it was read from, block by block (`newSourceState`); what
they held when they were read, only this memory does.  A file with a checksum; without it, the files
count as read as they are found.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import OdfBuildError
from odfbuild.json_text import parse_json
from odfbuild.odf.events import AddData, MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.checksum import checked_text, with_check_sum
from odfbuild.state.dataset import Dataset, NotInChainError
from odfbuild.state.disk import Disk, pending, read_file

__all__ = [
    "AGAIN",
    "FOLDER",
    "FileRead",
    "FilesRead",
    "at_head",
    "keep_clear",
    "keep_files",
    "recall_clear",
    "recall_files",
    "rewritten",
]

FOLDER: Final = "sources"
AGAIN: Final = "again"
"""In the place of a digest: the file is to be read again, whatever it holds."""
_ETAG: Final = "odf/etag"
_CLEAR: Final = "clear-files.json"


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was when it was read: `size` in bytes, `mtime` in nanoseconds.

    `digest` is that of what it held, None if that is not known, or AGAIN; `block` the head that its
    rows left, empty if that is not known.
    """

    size: int
    mtime: int
    digest: str | None
    block: str


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files that were read up to a head: their names, and what is known of them by path.

    `names` are those that the chain has; `looked` are files that differ from what was read, as
    they were when they were last looked at.
    """

    head: Multihash | None = None
    names: frozenset[str] = frozenset()
    files: Mapping[str, FileRead] = field(default_factory=dict)
    looked: Mapping[str, FileRead] = field(default_factory=dict)


def recall_files(root: Path, dataset: DatasetId) -> FilesRead:
    """Return what is remembered of a dataset's files; nothing of what cannot be read."""
    name = dataset.multibase
    try:
        raw = parse_json(checked_text(read_file(root / FOLDER / name) or b"", name) or "")
        return FilesRead(
            head=Multihash.parse(raw["head"]),
            names=frozenset(map(str, raw["names"])),
            files={str(path): _file(each) for path, each in raw["files"].items()},
            looked={str(path): _file(each) for path, each in raw["looked"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OdfBuildError):
        return FilesRead()


def _file(raw: Any) -> FileRead:
    size, mtime, digest, block = raw
    if not isinstance(size, int) or not isinstance(mtime, int) or not isinstance(block, str):
        raise TypeError(raw)
    return FileRead(size, mtime, None if digest is None else str(digest), block)


def keep_files(root: Path, dataset: DatasetId, found: FilesRead) -> None:
    """Remember files, lasting on return.  Raises OSError where nothing can be written."""
    disk, folder, name = Disk(), root / FOLDER, dataset.multibase
    disk.make_folder(folder)
    near = pending(folder)
    try:
        disk.write(near, with_check_sum(_text(found), name).encode())
        disk.rename(near, folder / name)
    except OSError:
        near.unlink(missing_ok=True)
        raise
    disk.sync(folder)


def _text(found: FilesRead) -> str:
    def plain(files: Mapping[str, FileRead]) -> dict[str, Any]:
        return {
            path: (each.size, each.mtime, each.digest, each.block) for path, each in files.items()
        }

    body = {
        "head": str(found.head),
        "names": sorted(found.names),
        "files": plain(found.files),
        "looked": plain(found.looked),
    }
    return json.dumps(body)


def recall_clear(root: Path) -> dict[str, tuple[str, str]]:
    """Return heads and marks of files where nothing was passed over, by dataset; a cache."""
    try:
        raw = parse_json(checked_text(read_file(root / "cache" / _CLEAR) or b"", _CLEAR) or "{}")
        return {str(id): (str(head), str(mark)) for id, (head, mark) in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep_clear(root: Path, found: Mapping[str, tuple[str, str]]) -> None:
    """Remember where nothing was passed over; else it is looked at again."""
    folder = root / "cache"
    near = pending(folder)
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        near.write_text(with_check_sum(json.dumps(found), _CLEAR), "utf-8")
        near.replace(folder / _CLEAR)


def at_head(found: FilesRead, dataset: Dataset, head: Multihash) -> FilesRead:
    """Return what is known of files at a head of the chain: what others read is added.

    Of a chain that was set back, what was read after that is taken away.  Of one that was written
    anew elsewhere, the names are those that it has.  Raises the errors of reading a chain.
    """
    if found.head == head:
        return found
    if found.head is not None:
        with suppress(NotInChainError):
            new = _names(dataset.blocks(after=found.head, upto=head))
            return replace(found, head=head, names=found.names | new)
    names = _names(dataset.blocks(upto=head))
    undone = _undone(dataset, found.head, head)
    files = {
        path: replace(each, digest=AGAIN) if each.block in undone else each
        for path, each in found.files.items()
        if posixpath.basename(path) in names
    }
    return FilesRead(head, names, files, found.looked)


def rewritten(found: FilesRead, head: Multihash) -> FilesRead:
    """Return what is known of files after a compaction took their names out of the chain."""
    files = {path: replace(each, block="") for path, each in found.files.items()}
    return replace(found, head=head, files=files)


def _names(blocks: Iterable[tuple[Multihash, MetadataBlock]]) -> frozenset[str]:
    events = (block.event for _, block in blocks)
    states = (each.new_source_state for each in events if isinstance(each, AddData))
    return frozenset(each.value for each in states if each is not None and each.kind == _ETAG)


def _undone(dataset: Dataset, old: Multihash | None, head: Multihash) -> frozenset[str]:
    """Return the blocks of a chain as it was that are no longer in it; none if these are gone."""
    if old is None:
        return frozenset()
    stands = {hash for hash, _ in dataset.blocks(upto=head)}
    try:
        return frozenset(str(hash) for hash, _ in dataset.blocks(upto=old) if hash not in stands)
    except OdfBuildError:
        return frozenset()
