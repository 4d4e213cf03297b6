"""Copy of a chain out of an untrusted folder: bytes only, and only what heads reach.

The folder has the layout of ODF 0.34.1, "Dataset Layout".  Names are made of hashes, never taken
from it; nothing is followed that is a link, nothing is read that is no plain file, and no more than
the chain says of it.  What else lies there is left.
"""

import os
import re
import shutil
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from odfbuild.errors import ProtocolError, StateError
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, Checkpoint, DataSlice, ExecuteTransform, Seed
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.wire.blocks import decode_block, decode_link
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.heads import HEAD, parse_head
from odfbuild.state.chain.objects import LARGEST_BLOCK, MissingObjectError, check_bytes
from odfbuild.state.files.disk import Disk
from odfbuild.state.files.folder import have_on_disk
from odfbuild.values import dataclass

_PARTS = ("refs", "blocks", "data", "checkpoints", "attestations", "info")
_REF = re.compile(r"[a-z][a-z0-9-]{0,99}")
_MOST_REFS = 1_000
_HEAD_BYTES = 256
_SPARE = 16 << 20  # bytes of a disk that a copy leaves free
_CHUNK = 1 << 20
_ATTESTATION_BYTES = 1 << 18
_MOST_ATTESTATIONS = 1_000


class NoChainError(StateError):
    """A folder does not hold a dataset."""

    code = "no-chain"


class UnsafeFolderError(StateError):
    """A folder to copy holds a link, something that is not a file, or too much."""

    code = "unsafe-folder"


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied, the bytes of files with it, and names that were left where they are."""

    dataset: DatasetId
    heads: dict[str, Multihash]
    blocks: int
    files: int
    bytes: int
    left: tuple[str, ...]


@dataclass(slots=True)
class _Walk:
    """What the heads of a folder reach: files by part and hash, with the size that is recorded."""

    blocks: dict[Multihash, int] = field(default_factory=dict)
    data: dict[Multihash, int] = field(default_factory=dict)
    checkpoints: dict[Multihash, int] = field(default_factory=dict)
    seed: DatasetId | None = None


def copy_chain(source: Path, target: Path, disk: Disk | None = None) -> Copied:
    """Copy all chains of a dataset folder, and the files that they speak of, into an empty folder.

    Everything is on disk on return.  Blocks are checked against their hashes; whether the chain and
    its files are right otherwise is for `verify` to say.  Raises NoChainError, UnsafeFolderError,
    MissingObjectError, CorruptObjectError, or a ProtocolError of a block that cannot be read.
    """
    used = disk or Disk()
    with _opened(source) as folder:
        heads = folder.heads()
        for part in _PARTS[:4]:
            (target / part).mkdir()
        walk = _Walk()
        for head in heads.values():
            _copy_blocks(folder, head, walk, target / "blocks")
        if walk.seed is None:
            raise _none(source, "its chain does not begin with a Seed")
        size = _check_files(folder, walk, target)
        for part, wanted in (("data", walk.data), ("checkpoints", walk.checkpoints)):
            for hash in wanted:
                folder.copy(part, str(hash), target / part / str(hash), _most(wanted[hash]))
        _copy_attestations(folder, walk, target / "attestations")
        for name, head in heads.items():
            (target / "refs" / name).write_bytes(str(head).encode())
        left = tuple(folder.left(walk, heads))
    have_on_disk(target, used)
    count = len(walk.data) + len(walk.checkpoints)
    return Copied(walk.seed, heads, len(walk.blocks), count, size, left)


def noted_alias(source: Path) -> str | None:
    """Return what `info/alias` of a dataset folder says; None if there is nothing to be read."""
    with suppress(StateError, OSError, UnicodeDecodeError), _opened(source) as folder:
        return folder.read("info", "alias", 1_024).decode("utf-8").strip() or None
    return None


def peek(source: Path) -> ChainState | None:
    """Return what the chain of a folder says, unverified; None if it cannot be made out."""
    with suppress(StateError, ProtocolError, OSError), _opened(source) as folder:
        hashes = [hash for hash, _ in _back(folder, folder.heads()[HEAD], set())]
        state = None
        for hash in reversed(hashes):
            data = folder.read("blocks", str(hash), LARGEST_BLOCK)
            state = fold(state, decode_block(data), hash)
        return state
    return None


def _copy_blocks(folder: "_Folder", head: Multihash, walk: _Walk, target: Path) -> None:
    for hash, data in _back(folder, head, walk.blocks):
        (target / str(hash)).write_bytes(data)
        _note(walk, hash, data)


def _copy_attestations(folder: "_Folder", walk: _Walk, target: Path) -> None:
    """Copy the delegations, and the attestations of blocks, of the newest ones if there are many.

    Whether they hold is for who asks for signatures to say.
    """
    there = set(folder.names("attestations"))
    signed = [str(each) for each in walk.blocks if str(each) in there][:_MOST_ATTESTATIONS]
    for name in (DELEGATIONS, *signed) if DELEGATIONS in there else signed:
        target.mkdir(exist_ok=True)
        (target / name).write_bytes(folder.read("attestations", name, _ATTESTATION_BYTES))


def _back(
    folder: "_Folder", head: Multihash, seen: Container[Multihash]
) -> Iterator[tuple[Multihash, bytes]]:
    """Yield blocks from a head on, newest first, up to one that was seen."""
    at: Multihash | None = head
    while at is not None and at not in seen:
        data = folder.read("blocks", str(at), LARGEST_BLOCK)
        check_bytes(at, data, str(folder.path / "blocks"))
        yield at, data
        at = decode_link(data)


def _note(walk: _Walk, hash: Multihash, data: bytes) -> None:
    """Remember a block and the files that it speaks of."""
    walk.blocks[hash] = len(data)
    event = decode_block(data).event
    if isinstance(event, Seed):
        walk.seed = event.dataset_id
    if isinstance(event, AddData | ExecuteTransform):
        _note_file(walk.data, event.new_data)
        _note_file(walk.checkpoints, event.new_checkpoint)


def _note_file(known: dict[Multihash, int], file: DataSlice | Checkpoint | None) -> None:
    if file is not None:
        known[file.physical_hash] = max(file.size, known.get(file.physical_hash, 0))


def _most(size: int) -> int:
    """Return how many bytes a file may have of which a block says its size.

    What a derivative was made of gives it again, in other bytes maybe: `verify` judges that.
    """
    return 4 * size + _CHUNK


def _check_files(folder: "_Folder", walk: _Walk, target: Path) -> int:
    """Refuse what is not there, is no file or is too large, before anything of it is copied."""
    total = 0
    for part, wanted in (("data", walk.data), ("checkpoints", walk.checkpoints)):
        for hash, size in wanted.items():
            with folder.file(part, str(hash), _most(size)) as opened:
                total += os.fstat(opened).st_size
    free = shutil.disk_usage(target).free
    if total + _SPARE > free:
        raise StateError(
            what=f"{total:,} bytes would be copied, but only {free:,} are free",
            why="a chain is copied in full or not at all",
            fix="free some space on the disk of the workspace; odfbuild gc --dry-run shows what "
            "can be deleted",
        )
    return total + sum(walk.blocks.values())


@contextmanager
def _opened(source: Path) -> "Iterator[_Folder]":
    """Open a dataset folder; it may be named by a link, what is in it may not."""
    try:
        opened = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _none(source, "there is no such folder") from None
    try:
        yield _Folder(source, opened)
    finally:
        os.close(opened)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A dataset folder, open: what is read of it is always what was opened."""

    path: Path
    opened: int

    def heads(self) -> dict[str, Multihash]:
        """Return the references by name, the head first."""
        names = sorted(each for each in self.names("refs") if _REF.fullmatch(each))
        if HEAD not in names:
            raise _none(self.path, "it has no refs/head, the end of the chain")
        if len(names) > _MOST_REFS:
            raise self.unsafe("refs", f"it has {len(names):,} references")
        names.sort(key=lambda name: (name != HEAD, name))
        return {
            name: parse_head(self.read("refs", name, _HEAD_BYTES), self.path / "refs" / name)
            for name in names
        }

    def names(self, part: str) -> list[str]:
        """Return what is called something in one of the folders; nothing if there is none."""
        try:
            with self.part(part) as opened:
                return os.listdir(opened)  # noqa: PTH208 - of a descriptor
        except FileNotFoundError:
            return []

    def left(self, walk: _Walk, heads: dict[str, Multihash]) -> Iterator[str]:
        """Yield what the chain does not speak of, as paths within the folder."""
        known = {"refs": set(heads), "blocks": {str(each) for each in walk.blocks}}
        known |= {"data": {str(each) for each in walk.data}}
        known |= {"checkpoints": {str(each) for each in walk.checkpoints}}
        known |= {"attestations": {DELEGATIONS, *known["blocks"]}}
        yield from sorted(set(os.listdir(self.opened)) - set(_PARTS))  # noqa: PTH208
        for part, names in known.items():
            yield from sorted(f"{part}/{each}" for each in set(self.names(part)) - names)

    def read(self, part: str, name: str, most: int) -> bytes:
        """Return the bytes of a file."""
        with self.file(part, name, most) as opened, os.fdopen(os.dup(opened), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise self.unsafe(f"{part}/{name}", f"it has more than {most:,} bytes")
        return data

    def copy(self, part: str, name: str, target: Path, most: int) -> None:
        """Copy the bytes of a file into a new one."""
        left = most
        with self.file(part, name, most) as opened, target.open("xb") as copy:
            while data := os.read(opened, _CHUNK):
                left -= len(data)
                if left < 0:
                    raise self.unsafe(f"{part}/{name}", f"it has more than {most:,} bytes")
                copy.write(data)

    @contextmanager
    def part(self, part: str) -> Iterator[int]:
        """Open one of the folders of the layout."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            opened = os.open(part, flags, dir_fd=self.opened)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.unsafe(part, "it is a link, or not a folder") from error
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def file(self, part: str, name: str, most: int) -> Iterator[int]:
        """Open a plain file of at most so many bytes."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self.part(part) as folder:
                opened = os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            raise self.missing(part, name) from None
        except OSError as error:
            raise self.unsafe(f"{part}/{name}", "it is a link, or cannot be read") from error
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise self.unsafe(f"{part}/{name}", "it is not a regular file")
            if found.st_size > most:
                raise self.unsafe(f"{part}/{name}", f"it has {found.st_size:,} bytes")
            yield opened
        finally:
            os.close(opened)

    def missing(self, part: str, name: str) -> StateError:
        """Return the refusal of a folder that lacks a file."""
        if part in ("refs", "info", "attestations"):
            return _none(self.path, f"it has no {part}/{name}")
        return MissingObjectError(Multihash.parse(name), str(self.path / part))

    def unsafe(self, name: str, what: str) -> UnsafeFolderError:
        """Return the refusal of what is not taken from a stranger."""
        return UnsafeFolderError(
            what=f"{self.path / name} is not copied: {what}",
            why="a dataset consists of regular files of the sizes that its chain records",
            fix="copy the dataset again from its origin",
        )


def _none(source: Path, why: str) -> NoChainError:
    return NoChainError(
        what=f"{source} is not a dataset",
        why=f"{why}; a dataset has refs/head, blocks/, data/ and checkpoints/",
        fix="name the folder of one dataset, such as .odfbuild/datasets/fed01... or "
        ".kamu/datasets/NAME",
    )
