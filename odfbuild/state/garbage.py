"""What no reference of a dataset reaches any more: found, and deleted for good.

Kept is what a reference reaches; what is younger than an age, with all that it stands on; and what
the chain of another dataset says it read, since its steps can be verified with that alone.  All is
done under the lock of the dataset, which commits hold while they put things in their places.

Blocks go first, the newest before those that it stands on, then the files: whenever it is cut off,
a block that is left has everything that it speaks of.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from odfbuild.errors import OdfBuildError, ProtocolError, StateError
from odfbuild.odf.events import AddData, ExecuteTransform, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.state.block_refs import refs
from odfbuild.state.dataset import Dataset
from odfbuild.state.disk import Disk
from odfbuild.state.lock import LockedError
from odfbuild.state.objects import ObjectStore

__all__ = ["Freed", "Reads", "blocks_read", "collect"]

Reads = Mapping[DatasetId, Collection[Multihash]]
"""Blocks of datasets that others say they read, by dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What was deleted of a dataset, or would be; `young` counts what was left for its age.

    `problem` says why nothing was looked at.
    """

    dataset: DatasetId
    blocks: int = 0
    files: int = 0
    bytes: int = 0
    young: int = 0
    problem: str | None = None


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


def blocks_read(datasets: Iterable[Dataset], broken: set[DatasetId] | None = None) -> Reads:
    """Return which blocks chains say that they read; one that is not whole is added to `broken`."""
    found: dict[DatasetId, set[Multihash]] = {}
    for dataset in datasets:
        try:
            reach = _Reach()
            for target in refs(dataset).values():
                for event in reach.walk(dataset, target):
                    if isinstance(event, ExecuteTransform):
                        for each in event.query_inputs:
                            if each.new_block_hash is not None:
                                found.setdefault(each.dataset_id, set()).add(each.new_block_hash)
        except (StateError, ProtocolError):
            if broken is not None:
                broken.add(dataset.id)
    return found


def collect(
    dataset: Dataset,
    read: Collection[Multihash],
    *,
    before: float,
    dry_run: bool = False,
    disk: Disk | None = None,
) -> Freed:
    """Delete what nobody needs of a dataset and was not touched since `before` (in seconds).

    A dataset that is being changed, or whose chain is damaged, is left alone.
    """
    heads = dataset.stores.heads
    try:
        reach = _reach_now(dataset)  # long chains are walked before anybody has to wait
        with nullcontext() if dry_run else heads.lock(timeout=0):
            found = _find(dataset, reach, read, before)
            if not dry_run:
                _delete(found, disk or Disk())
    except LockedError as error:
        return Freed(dataset=dataset.id, problem=error.what)
    except (StateError, ProtocolError) as error:
        return Freed(dataset=dataset.id, problem=error.what)
    return Freed(
        dataset=dataset.id,
        blocks=len(found.blocks),
        files=len(found.files),
        bytes=found.bytes,
        young=found.young,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """Files to delete, in that order."""

    blocks: Sequence[Path]
    files: Sequence[Path]
    bytes: int
    young: int


@dataclass(frozen=True, slots=True)
class _Object:
    hash: Multihash
    path: Path
    size: int
    touched: float


def _reach_now(dataset: Dataset) -> _Reach:
    reach = _Reach()
    for target in refs(dataset).values():
        _walked(reach, dataset, target)
    return reach


def _find(dataset: Dataset, reach: _Reach, read: Collection[Multihash], before: float) -> _Found:
    """Look for what is in the way; `reach` is what references reached, a moment ago maybe."""
    stores = dataset.stores
    for target in refs(dataset).values():
        _walked(reach, dataset, target)
    for hash in read:
        _walked_if_whole(reach, dataset, hash)
    blocks, files = _beyond(stores.blocks, reach.blocks), _files_beyond(dataset, reach)
    for each in blocks:
        if each.touched >= before:
            _walked_if_whole(reach, dataset, each.hash)
    old = [each for each in blocks if each.touched < before and each.hash not in reach.blocks]
    kept = reach.data | reach.checkpoints
    old_files = [each for each in files if each.touched < before and each.hash not in kept]
    gone = [] if reach.unknown else old_files
    size = sum(each.size for each in (*old, *gone))
    newest_first = sorted(old, key=lambda each: _number(dataset, each.hash), reverse=True)
    return _Found(
        blocks=[each.path for each in newest_first],
        files=[each.path for each in gone],
        bytes=size,
        young=len(blocks) + len(files) - len(old) - len(gone),
    )


def _files_beyond(dataset: Dataset, reach: _Reach) -> list[_Object]:
    """Return the files that no block speaks of; none where one may that we do not understand."""
    if reach.unknown:
        return []
    stores = dataset.stores
    data = _beyond(stores.data, reach.data)
    return data + _beyond(stores.checkpoints, reach.checkpoints)


def _walked(reach: _Reach, dataset: Dataset, block: Multihash) -> None:
    for _ in reach.walk(dataset, block):
        pass


def _walked_if_whole(reach: _Reach, dataset: Dataset, block: Multihash) -> None:
    """Add a block that no reference reaches, as far as it is there."""
    with suppress(OdfBuildError):
        _walked(reach, dataset, block)


def _beyond(store: ObjectStore, known: Collection[Multihash]) -> list[_Object]:
    found = []
    for hash in store.list():
        if hash not in known:
            path = store.path(hash)
            with suppress(FileNotFoundError):
                status = path.lstat()
                touched = max(status.st_mtime, status.st_ctime)  # moving a file keeps the first
                found.append(_Object(hash, path, status.st_size, touched))
    return found


def _number(dataset: Dataset, block: Multihash) -> float:
    """Return the sequence number of a block; a damaged one stands on nothing."""
    try:
        return dataset.block(block).sequence_number
    except OdfBuildError:
        return float("inf")


def _delete(found: _Found, disk: Disk) -> None:
    for paths in (found.blocks, found.files):
        for path in paths:
            with suppress(FileNotFoundError):
                disk.remove(path)
        for folder in sorted({path.parent for path in paths}):
            disk.sync(folder)
