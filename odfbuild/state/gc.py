"""Garbage: blocks and files that no reference reaches, and what interrupted work left.

Kept is what a reference reaches; what is younger than an age, with all that it stands on; and what
the chain of another dataset says it read, since its steps can be verified with that alone.  All is
done under the lock of the dataset, which commits hold while they put things in their places.

Blocks go first, the newest before those that it stands on, then the files: whenever it is cut off,
a block that is left has everything that it speaks of.

datasets/<id>/attestations/    of heads that no reference has, but for the 256 written last
staging/<random>/             of a process that is gone: nobody holds its lock
datasets/<id>/                without a name, and without a head or any data: a creation that
                              never ended, and its key, which in a store is on another machine
.pending-<random>             a file that never came to its place
cache/<kind>/<id>, cache/spark/<pid>-<random>    of datasets and processes that are gone
"""

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError, ProtocolError, StateError
from odfbuild.host.files import read_regular
from odfbuild.odf.events import AddData, ExecuteTransform, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.chain.objects import ObjectEntry, ObjectStore
from odfbuild.state.chain.refs import refs
from odfbuild.state.chain.stores import Stores
from odfbuild.state.files.links import check_dataset_links, check_links
from odfbuild.state.files.lock import LockedError, locked, open_locked
from odfbuild.state.memory.read_files import FOLDER
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.state.workspace import Workspace

_DATASET = re.compile(r"fed01[0-9a-f]{64}")
_PENDING = re.compile(r"\.pending-[0-9a-f]{16}")
_PROCESS = re.compile(r"([0-9]{1,9})-[0-9a-f]{8}")
_PARTS = ("refs", "blocks", "data", "checkpoints", "attestations")
_KEPT_ATTESTATIONS = 256
_WITH_FILES = ("names", "keys", "sources", "disabled", "runs", "cache")  # and folders with more
_OF_SPARK = "spark"  # what is in there Spark alone makes


class Kind(Enum):
    """What a leftover is of."""

    STAGING = "staging"
    CREATION = "creation"
    UNFINISHED = "unfinished"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder that nobody needs, and its bytes."""

    kind: Kind
    path: Path
    bytes: int


def find_leftovers(
    root: Path, named: Collection[DatasetId], *, before: float
) -> tuple[Leftover, ...]:
    """Return what was left in a workspace, and not touched since `before` (in seconds).

    Staging folders count whatever their age: who works in one holds its lock.  Raises
    WorkspaceLinkError.
    """
    known = {each.multibase for each in named}
    check_links(root)
    for path in _entries(root / "datasets"):
        check_dataset_links(path)
    return (
        *_staging(root / "staging"),
        *_creations(root, known, before),
        *_unfinished(root, before),
        *_caches(root, known, before),
    )


def remove_leftover(root: Path, found: Leftover, *, before: float) -> bool:
    """Delete a leftover; say whether it was still one."""
    match found.kind:
        case Kind.STAGING:
            with suppress(FileNotFoundError), locked(root / "staging", timeout=10):
                return _remove_locked(found.path)
            return False
        case Kind.CREATION:
            return _remove_creation(root, found.path, before)
        case Kind.UNFINISHED:
            return remove_unfinished(found.path, before=before)
        case Kind.CACHE if found.path.is_dir():
            shutil.rmtree(found.path, ignore_errors=True)
        case Kind.CACHE:
            found.path.unlink(missing_ok=True)
    return True


def remove_unfinished(path: Path, *, before: float) -> bool:
    """Delete a file that nobody writes, unless its folder, or its dataset, is locked."""
    folder = path.parent.parent if path.parent.name in _PARTS else path.parent
    with suppress(FileNotFoundError, NotADirectoryError):
        opened = open_locked(folder)
        if opened is None:
            return False
        try:
            if path.lstat().st_mtime < before:  # nor when another name of it was taken away
                path.unlink()
                return True
        finally:
            os.close(opened)
    return False


def tree_bytes(path: Path) -> int:
    """Return the bytes of all files below a folder; links count as themselves."""
    return sum(status.st_size for status in _statuses(path))


def _staging(folder: Path) -> Iterator[Leftover]:
    for path in _entries(folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            opened = open_locked(path)
            if opened is not None:
                os.close(opened)
                yield Leftover(Kind.STAGING, path, tree_bytes(path))


def _creations(root: Path, known: Collection[str], before: float) -> Iterator[Leftover]:
    for path in _entries(root / "datasets"):
        is_dataset = _DATASET.fullmatch(path.name) is not None and path.is_dir()
        if is_dataset and path.name not in known and _is_creation(root, path, before):
            yield Leftover(Kind.CREATION, path, tree_bytes(path))


def _is_creation(root: Path, path: Path, before: float) -> bool:
    """Say whether nobody knows a folder of a dataset, so that its creation never ended.

    One with a head that has data, or was applied, has lost its name: that is another matter.
    """
    if _newest(path) >= before or _names_it(root / "names", path.name):
        return False
    return not _has_head(path) or not (
        _has_data(path) or _names_it(root / "cache" / "applied", path.name)
    )


def _has_data(path: Path) -> bool:
    return any(_entries(path / "data")) or any(_entries(path / "checkpoints"))


def _names_it(folder: Path, id: str) -> bool:
    """Say whether a file of a folder has an id in it, or cannot be read or made out."""
    for path in _entries(folder):
        if not path.name.startswith("."):
            try:
                text = read_regular(path)
            except OSError:
                return True
            if id.encode() in text or (folder.name == "names" and b"did:odf:fed01" not in text):
                return True
    return False


def _remove_creation(root: Path, path: Path, before: float) -> bool:
    """Delete a creation that is still none's, and its key; what it has is looked at locked.

    Names are locked, too, so that none is given to it meanwhile.
    """
    names = root / "names"
    names.mkdir(exist_ok=True)
    with suppress(FileNotFoundError, NotADirectoryError, LockedError), locked(names, timeout=0):
        opened = open_locked(path)
        if opened is None:
            return False
        try:
            if not _is_creation(root, path, before):
                return False
            has_data = _has_data(path)
            shutil.rmtree(path, ignore_errors=True)
            if not has_data:
                (root / "keys" / f"{path.name}.pem").unlink(missing_ok=True)
            return True
        finally:
            os.close(opened)
    return False


def _unfinished(root: Path, before: float) -> Iterator[Leftover]:
    yield from find_unfinished(
        (folder for name in _WITH_FILES for folder in _folders(root / name)), before=before
    )
    for path in _entries(root / "datasets"):
        if _DATASET.fullmatch(path.name) is not None:
            yield from find_unfinished(parts_of(path), before=before)


def parts_of(dataset: Path) -> tuple[Path, ...]:
    """Return the folders in the folder of a dataset."""
    return tuple(dataset / part for part in _PARTS)


def find_unfinished(folders: Iterable[Path], *, before: float) -> Iterator[Leftover]:
    """Yield what never came to its place in some folders, and was not touched since `before`."""
    for folder in folders:
        for path in _entries(folder):
            if _PENDING.fullmatch(path.name) is not None:
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if status.st_mtime < before:
                        yield Leftover(Kind.UNFINISHED, path, status.st_size)


def _caches(root: Path, known: Collection[str], before: float) -> Iterator[Leftover]:
    for folder in (*_entries(root / "cache"), root / FOLDER):
        for path in _entries(folder):
            gone = path.name not in known and not _has_head(root / "datasets" / path.name)
            if gone and _DATASET.fullmatch(path.name) is not None and _newest(path) < before:
                yield Leftover(Kind.CACHE, path, tree_bytes(path))
    for path in _entries(root / "cache" / _OF_SPARK):
        process = _PROCESS.fullmatch(path.name)
        if process is not None and not _runs(int(process[1])) and _newest(path) < before:
            yield Leftover(Kind.CACHE, path, tree_bytes(path))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _has_head(dataset: Path) -> bool:
    return os.path.lexists(dataset / "refs" / "head")


def _remove_locked(folder: Path) -> bool:
    """Delete a folder that nobody holds."""
    with suppress(FileNotFoundError, NotADirectoryError):
        opened = open_locked(folder)
        if opened is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(opened)
            return True
    return False


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _folders(top: Path) -> Iterator[Path]:
    """Yield a folder and those in it."""
    for folder, names, _ in os.walk(top):
        names[:] = sorted(name for name in names if name != _OF_SPARK)
        yield Path(folder)


def _newest(path: Path) -> float:
    return max(map(_changed, _statuses(path)), default=0.0)


def _changed(status: os.stat_result) -> float:
    return max(status.st_mtime, status.st_ctime)


def _statuses(path: Path) -> Iterator[os.stat_result]:
    """Yield the status of a path and of all below it; what vanishes meanwhile is left out."""
    with suppress(FileNotFoundError):
        yield path.lstat()
    for folder, _, names in os.walk(path):
        for each in names:
            with suppress(FileNotFoundError):
                yield Path(folder, each).lstat()


Reads = Mapping[DatasetId, Collection[Multihash]]
"""Blocks of datasets that others say they read, by dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What was deleted of a dataset, or would be; `young` counts what was left for its age.

    `problem` says why nothing was looked at.  If it `is_entire`, the dataset has no head any more.
    """

    dataset: DatasetId
    blocks: int = 0
    files: int = 0
    bytes: int = 0
    young: int = 0
    problem: str | None = None
    is_entire: bool = False


@dataclass(slots=True)
class _Reach:
    """What some blocks reach; `unknown` if one of them may speak of files that we do not know."""

    blocks: set[Multihash] = field(default_factory=set)
    data: set[Multihash] = field(default_factory=set)
    checkpoints: set[Multihash] = field(default_factory=set)
    unknown: bool = False

    def walk(self, dataset: Dataset, block: Multihash) -> Iterator[MetadataEvent]:
        """Add a block and all before it; yield the events that are new."""
        at: Multihash | None = block
        while at is not None and at not in self.blocks:
            found = dataset.block(at)
            self.blocks.add(at)
            self._add(found.event)
            yield found.event
            at = found.prev_block_hash

    def _add(self, event: MetadataEvent) -> None:
        if is_opaque(event):
            self.unknown = True
        elif isinstance(event, AddData | ExecuteTransform):
            if event.new_data is not None:
                self.data.add(event.new_data.physical_hash)
            if event.new_checkpoint is not None:
                self.checkpoints.add(event.new_checkpoint.physical_hash)


@dataclass(frozen=True, slots=True)
class ChainReads:
    """The blocks of others that the chains of a dataset say they read, by dataset.

    If one of them is not `whole`, these are those of its newer blocks.  `has_head` tells whether
    the dataset has a head, be it damaged, and `creation` is that head if it has nothing else: no
    data and no other reference.
    """

    blocks: Reads
    whole: bool
    has_head: bool = True
    creation: Multihash | None = None


def chain_reads(dataset: Dataset) -> ChainReads:
    """Return which blocks the chains of a dataset say that they read."""
    found: dict[DatasetId, set[Multihash]] = {}
    try:
        reach, targets = _Reach(), refs(dataset)
        for target in targets.values():
            for event in reach.walk(dataset, target):
                if isinstance(event, ExecuteTransform):
                    for each in event.query_inputs:
                        if each.new_block_hash is not None:
                            found.setdefault(each.dataset_id, set()).add(each.new_block_hash)
    except (StateError, ProtocolError):
        return ChainReads(found, whole=False)
    is_bare = targets.keys() == {HEAD} and not (reach.unknown or reach.data or reach.checkpoints)
    creation = targets[HEAD] if is_bare else None
    return ChainReads(found, whole=True, has_head=HEAD in targets, creation=creation)


def blocks_read(reads: Iterable[ChainReads]) -> Reads:
    """Return what the chains of several datasets say that they read."""
    found: dict[DatasetId, set[Multihash]] = {}
    for each in reads:
        for id, blocks in each.blocks.items():
            found.setdefault(id, set()).update(blocks)
    return found


def collect(
    dataset: Dataset,
    read: Collection[Multihash],
    *,
    before: float,
    dry_run: bool = False,
) -> Freed:
    """Delete what nobody needs of a dataset and was not touched since `before` (in seconds).

    A dataset that is being changed, or whose chain is damaged, is left alone.
    """
    heads = dataset.stores.heads
    try:
        reach = _reach_ahead(dataset)
        with nullcontext() if dry_run else heads.lock(timeout=0):
            found = _find(dataset, reach, read, before)
            if not dry_run:
                _delete(found, dataset.stores)
    except LockedError as error:
        return Freed(dataset=dataset.id, problem=error.what)
    except (StateError, ProtocolError) as error:
        return Freed(dataset=dataset.id, problem=error.what)
    return Freed(
        dataset=dataset.id,
        blocks=len(found.blocks),
        files=len(found.data) + len(found.checkpoints) + len(found.attestations),
        bytes=found.bytes,
        young=found.young,
    )


def collect_creation(
    workspace: "Workspace",
    dataset: Dataset,
    head: Multihash,
    *,
    before: float,
    dry_run: bool = False,
) -> Freed:
    """Delete a dataset of a store that no name leads to, if all of it is older than `before`.

    `head` is what `ChainReads.creation` had.  In a folder, leftovers have such a dataset.
    """
    stores = dataset.stores
    blocks = tuple(stores.blocks.entries())
    files = (*stores.data.entries(), *stores.checkpoints.entries())
    if any(each.touched >= before for each in (*blocks, *files)):
        return Freed(dataset=dataset.id, young=len(blocks) + len(files))
    if dry_run:
        return Freed(
            dataset=dataset.id,
            blocks=len(blocks),
            files=len(files),
            bytes=sum(each.size for each in (*blocks, *files)),
            is_entire=True,
        )
    try:
        if not workspace.drop_unnamed(dataset.id, head):
            return Freed(dataset=dataset.id)
    except StateError as error:
        return Freed(dataset=dataset.id, problem=error.what)
    return replace(collect(workspace.dataset(dataset.id), (), before=before), is_entire=True)


@dataclass(frozen=True, slots=True)
class _Garbage:
    """What to delete, in that order."""

    blocks: Sequence[Multihash]
    data: Sequence[Multihash]
    checkpoints: Sequence[Multihash]
    attestations: Sequence[Multihash]
    bytes: int
    young: int


def _reach_ahead(dataset: Dataset) -> _Reach:
    """Walk long chains before anybody has to wait for the lock; a store has none."""
    reach = _Reach()
    if dataset.stores.blocks.is_at_hand:
        for target in refs(dataset).values():
            _walked(reach, dataset, target)
    return reach


def _find(dataset: Dataset, reach: _Reach, read: Collection[Multihash], before: float) -> _Garbage:
    """Look for what is in the way; `reach` is what references reached, a moment ago maybe."""
    stores = dataset.stores
    for target in refs(dataset).values():
        _walked(reach, dataset, target)
    for hash in read:
        _walked_if_present(reach, dataset, hash)
    blocks = _beyond(stores.blocks, reach.blocks)
    # none where a block that we do not understand may speak of them
    data = [] if reach.unknown else _beyond(stores.data, reach.data)
    checkpoints = [] if reach.unknown else _beyond(stores.checkpoints, reach.checkpoints)
    for each in blocks:
        if each.touched >= before:
            _walked_if_present(reach, dataset, each.hash)

    def old(found: Sequence[ObjectEntry], kept: Collection[Multihash]) -> list[ObjectEntry]:
        return [each for each in found if each.touched < before and each.hash not in kept]

    old_blocks = old(blocks, reach.blocks)
    old_data = [] if reach.unknown else old(data, reach.data)
    old_checkpoints = [] if reach.unknown else old(checkpoints, reach.checkpoints)
    signed = old(tuple(_attestations(dataset)), ())
    found = (*old_blocks, *old_data, *old_checkpoints)
    newest_first = sorted(old_blocks, key=lambda each: _number(dataset, each.hash), reverse=True)
    return _Garbage(
        blocks=[each.hash for each in newest_first],
        data=[each.hash for each in old_data],
        checkpoints=[each.hash for each in old_checkpoints],
        attestations=[each.hash for each in signed],
        bytes=sum(each.size for each in (*found, *signed)),
        young=len(blocks) + len(data) + len(checkpoints) - len(found),
    )


def _attestations(dataset: Dataset) -> Iterator[ObjectEntry]:
    """Yield the attestations that are neither of a reference nor among those written last.

    A reader who missed some heads follows the statements back, also those on heads given up since.
    """
    earlier = dataset.stores.attestations.entries()[_KEPT_ATTESTATIONS:]
    kept = set(refs(dataset).values()) if earlier else ()
    yield from (each for each in earlier if each.hash not in kept)


def _walked(reach: _Reach, dataset: Dataset, block: Multihash) -> None:
    for _ in reach.walk(dataset, block):
        pass


def _walked_if_present(reach: _Reach, dataset: Dataset, block: Multihash) -> None:
    """Add a block that no reference reaches, as far as it is there."""
    with suppress(OdfBuildError):
        _walked(reach, dataset, block)


def _beyond(store: ObjectStore, known: Collection[Multihash]) -> list[ObjectEntry]:
    return [each for each in store.entries() if each.hash not in known]


def _number(dataset: Dataset, block: Multihash) -> float:
    """Return the sequence number of a block; a damaged one stands on nothing."""
    try:
        return dataset.block(block).sequence_number
    except OdfBuildError:
        return float("inf")


def _delete(found: _Garbage, stores: Stores) -> None:
    stores.blocks.remove(found.blocks)
    stores.data.remove(found.data)
    stores.checkpoints.remove(found.checkpoints)
    stores.attestations.remove(found.attestations)
