"""Intake: the one way of a chain from elsewhere into a workspace.

First its blocks are received in a folder of their own and held to all rules (`receive_blocks`),
then the files that they speak of (`download`), and then all of it is put in its place
(`put_in_place`): data, checkpoints, blocks, attestation, and the head by compare-and-swap.
Whatever breaks off leaves the old head or the new one, and nothing of a chain is seen before all of
it was checked.
"""

import os
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.host.files import read_regular
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import MetadataBlock, Seed
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.repositories.comparison import (
    Ahead,
    Behind,
    Comparison,
    Diverged,
    Equal,
    Extent,
    extent,
)
from odfbuild.repositories.protocol import ObjectFile, SeedOverwriteError, files_of, records_of
from odfbuild.repositories.signatures.attestation import better_attestation
from odfbuild.repositories.signatures.delegation import is_newer_list, withdrawn_of
from odfbuild.repositories.walk import KnownBlocks, walk
from odfbuild.state.chain.attestations import DELEGATIONS, LocalAttestations
from odfbuild.state.chain.commit_request import StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD, HeadMovedError, MemoryHeads
from odfbuild.state.chain.objects import (
    LocalObjects,
    MissingObjectError,
    ObjectEntry,
    ObjectStore,
    StoredFile,
)
from odfbuild.state.chain.stores import Stores
from odfbuild.state.files.disk import Disk, write_file
from odfbuild.state.files.folder import have_on_disk
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_KEPT_BYTES = 64 << 20  # of blocks that are not read a second time
_WRITERS = 4
_BATCH = 128  # blocks that one of the writers takes at a time
_BATCH_BYTES = 1 << 20
_WAITING_BYTES = 8 << 20  # of blocks that are not written yet
PARTS = ("refs", "blocks", "data", "checkpoints", "attestations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Blocks that were received and keep the rules, in a folder that is laid out like a dataset.

    They follow `base`, a block of the chain in the workspace (None: of no chain there, or the Seed
    is the first of them); `before` is the head there.  `files` are what they speak of, each once,
    be it in the workspace or not.  `state` is that of the last block.
    """

    dataset: DatasetId
    before: Multihash | None
    base: Multihash | None
    state: ChainState
    blocks: tuple[Multihash, ...]
    files: tuple[ObjectFile, ...]
    records: int
    folder: Path

    @property
    def leads_on(self) -> bool:
        """Say whether nothing of the chain in the workspace is lost by this one."""
        return self.base == self.before

    @property
    def extent(self) -> Extent:
        """Return how much was received."""
        return Extent(len(self.blocks), self.records)

    def ancestry(self, here: Dataset | None) -> Container[Multihash]:
        """Return the blocks of the chain that was received, with those that the workspace has."""
        return _Ancestry(frozenset(self.blocks), KnownBlocks(here, self.base))

    def comparison(self, here: Dataset | None) -> Comparison:
        """Say how the chain in the workspace relates to the one that was received."""
        head = self.state.head
        if head == self.before:
            return Equal(head)
        if self.leads_on or here is None:
            return Behind(head, self.extent)
        lost = extent(here, self.base)
        if not self.blocks:
            return Ahead(head, lost)
        return Diverged(there=head, base=self.base, here_only=lost, there_only=self.extent)


@dataclass(frozen=True, slots=True)
class _Ancestry:
    new: frozenset[Multihash]
    known: KnownBlocks

    def __contains__(self, hash: object) -> bool:
        return hash in self.new or hash in self.known


def receive_blocks(
    blocks: Iterable[tuple[Multihash, bytes]],
    head: Multihash,
    here: Dataset | None,
    folder: Path,
    place: str,
) -> Arrival:
    """Write blocks that come newest first from a head into `blocks/` of a folder, and judge them.

    Those that the dataset `here` has are not read.  Raises BrokenSourceError, SeedOverwriteError
    when they are of another dataset than `here`, RejectedBlockError and other ProtocolErrors.
    """
    before = None if here is None else here.head()
    known = KnownBlocks(here, before)
    hashes: list[Multihash] = []
    kept: dict[Multihash, MetadataBlock] = {}
    left = _KEPT_BYTES
    base: Multihash | None = head if head in known else None
    if base is None:
        with _BlockFiles(folder / "blocks") as files:
            for each in walk(blocks, head, before, place):
                files.write(each.hash, each.data)
                hashes.append(each.hash)
                if (left := left - len(each.data)) >= 0:
                    kept[each.hash] = each.block
                if each.block.prev_block_hash in known:
                    base = each.block.prev_block_hash
                    break
    hashes.reverse()
    state = None if base is None or here is None else here.state(base)
    return _judge_blocks(hashes, kept, state, here, before, folder, place)


class _BlockFiles:
    """A folder of blocks, which are written in batches while others are read and decoded.

    All are in their files, though not on disk, when the context ends without an error.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix = f"{folder}{os.sep}"
        self._batch: list[tuple[Multihash, bytes]] = []
        self._size = 0
        self._waiting: deque[tuple[int, Future[None]]] = deque()
        self._waiting_bytes = 0
        self._writers: ThreadPoolExecutor | None = None

    def __enter__(self) -> "_BlockFiles":
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        try:
            if failed is None:
                self._write(self._batch)
                self._await(0)
        finally:
            if self._writers is not None:
                self._writers.shutdown(cancel_futures=True)

    def write(self, hash: Multihash, data: bytes) -> None:
        """Have a block in a file, at the end at the latest; raises OSError of earlier ones."""
        self._batch.append((hash, data))
        self._size += len(data)
        if len(self._batch) >= _BATCH or self._size >= _BATCH_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        if self._writers is None:
            self._writers = ThreadPoolExecutor(_WRITERS)
        self._await(_WAITING_BYTES - self._size)
        self._waiting.append((self._size, self._writers.submit(self._write, self._batch)))
        self._waiting_bytes += self._size
        self._batch, self._size = [], 0

    def _await(self, most: int) -> None:
        """Return when no more bytes than so many wait to be written."""
        while self._waiting and self._waiting_bytes > most:
            size, written = self._waiting.popleft()
            written.result()
            self._waiting_bytes -= size

    def _write(self, blocks: Sequence[tuple[Multihash, bytes]]) -> None:
        for hash, data in blocks:
            write_file(f"{self._prefix}{hash}", data)


def _judge_blocks(
    hashes: list[Multihash],
    kept: Mapping[Multihash, MetadataBlock],
    state: ChainState | None,
    here: Dataset | None,
    before: Multihash | None,
    folder: Path,
    place: str,
) -> Arrival:
    """Hold blocks to the rules of the chain that they go on from."""
    base = None if state is None else state.head
    files: dict[tuple[str, Multihash], ObjectFile] = {}
    records = 0
    for hash in hashes:
        block = kept.get(hash) or decode_block(read_regular(folder / "blocks" / str(hash)))
        if isinstance(block.event, Seed) and here is not None:
            _check_seed(block.event, here, place)
        check_append(state, block)
        state = fold(state, block, hash)
        records += records_of(block.event)
        for file in files_of(block.event):
            _check_size(files.setdefault((file.kind, file.hash), file), file, place)
    if state is None:
        raise BrokenSourceError(
            what=f"{place} returned no block",
            why="a chain has at least a Seed",
            fix="try again; if it persists, the copy there is damaged",
        )
    return Arrival(
        dataset=state.dataset,
        before=before,
        base=base,
        state=state,
        blocks=tuple(hashes),
        files=tuple(files.values()),
        records=records,
        folder=folder,
    )


def _check_seed(seed: Seed, here: Dataset, place: str) -> None:
    if seed.dataset_id != here.id:
        raise SeedOverwriteError(
            f"the dataset that {place} is to lead on", here.id, seed.dataset_id
        )


def _check_size(known: ObjectFile, file: ObjectFile, place: str) -> None:
    if file.size != known.size or file.size < 0:
        raise BrokenSourceError(
            what=f"{place}: the file {file.hash} has {known.size:,} bytes, and {file.size:,}",
            why="two blocks name the same file with different sizes",
            fix="ask the owner of that copy",
        )


def dataset_of(arrival: Arrival, here: Dataset | None) -> Dataset:
    """Return what an arrival will make of a dataset, to be looked at before it is in its place."""
    heads = MemoryHeads()
    heads.swap(HEAD, expected=None, new=arrival.state.head)
    blocks, data, checkpoints = (
        _Either(
            LocalObjects(arrival.folder / part),
            None if here is None else getattr(here.stores, part),
        )
        for part in PARTS[1:4]
    )
    return Dataset(
        arrival.dataset, Stores(heads=heads, blocks=blocks, data=data, checkpoints=checkpoints)
    )


class _Either:
    """Objects that were received, and those that the workspace has."""

    def __init__(self, received: ObjectStore, here: ObjectStore | None) -> None:
        self._received = received
        self._here = here or received
        self.is_at_hand = self._here.is_at_hand

    def put(self, objects: Mapping[Multihash, bytes | Path]) -> None:
        self._received.put(objects)

    def get(self, hash: Multihash) -> bytes:
        return self._of(hash).get(hash)

    def has(self, hash: Multihash) -> bool:
        return self._of(hash).has(hash)

    def size(self, hash: Multihash) -> int | None:
        return self._of(hash).size(hash)

    def path(self, hash: Multihash) -> Path:
        return self._of(hash).path(hash)

    def bring(self, hashes: Collection[Multihash]) -> None:
        self._here.bring([each for each in hashes if not self._received.has(each)])

    def stored(self, hash: Multihash, size: int) -> StoredFile | None:
        return self._of(hash).stored(hash, size)

    def renew(self, hash: Multihash) -> bool:
        return self._of(hash).renew(hash)

    def list(self) -> Iterator[Multihash]:
        yield from {*self._received.list(), *self._here.list()}

    def entries(self) -> Iterator[ObjectEntry]:
        known = (*self._here.entries(), *self._received.entries())
        yield from {each.hash: each for each in known}.values()

    def remove(self, hashes: Sequence[Multihash]) -> None:
        self._received.remove(hashes)

    def _of(self, hash: Multihash) -> ObjectStore:
        return self._received if self._received.has(hash) else self._here


def missing_files(arrival: Arrival, here: Dataset | None) -> tuple[ObjectFile, ...]:
    """Return the files of an arrival that the workspace does not have."""
    if here is None:
        return arrival.files
    stores = {"data": here.stores.data, "checkpoints": here.stores.checkpoints}
    return tuple(each for each in arrival.files if not stores[each.kind].has(each.hash))


def lost_files(here: Dataset, upto: Multihash | None) -> tuple[ObjectFile, ...]:
    """Return the files that blocks of the workspace speak of, up to one, and that it does not have.

    Each is named once, oldest first.  A file that is there is not read: it may be damaged.
    """
    kept = {
        "data": frozenset(here.stores.data.list()),
        "checkpoints": frozenset(here.stores.checkpoints.list()),
    }
    blocks = () if upto is None else here.blocks(upto=upto)
    named = dict.fromkeys(file for _, block in blocks for file in files_of(block.event))
    return tuple(each for each in named if each.hash not in kept[each.kind])


def put_back(here: Dataset, files: Sequence[ObjectFile], folder: Path) -> None:
    """Put lost files of a dataset in their place; they are in a folder, and hash to their names."""
    stores: dict[str, ObjectStore]
    stores = {"data": here.stores.data, "checkpoints": here.stores.checkpoints}
    with here.stores.heads.lock():
        for kind, store in stores.items():
            found = {
                each.hash: folder / kind / str(each.hash) for each in files if each.kind == kind
            }
            store.put(found)


def put_in_place(
    workspace: Workspace,
    arrival: Arrival,
    alias: DatasetAlias,
    attestation: bytes | None = None,
    *,
    force: bool = False,
    disk: Disk | None = None,
) -> Dataset:
    """Make an arrival, of which all files are in its folder or in the workspace, the dataset's
    chain.

    A dataset that is new gets its name last; one that is here keeps its name.  With `force` blocks
    that only the workspace has are left behind.  The folder of a new dataset is moved into its
    place.  Raises HeadMovedError when somebody else was quicker, or when `force` is needed and not
    given; MissingObjectError when a file is neither here nor there; AliasTakenError.
    """
    id = arrival.dataset
    if arrival.before is None and workspace.open(id) is None:
        _take_in(workspace, arrival, attestation, disk or Disk())
    else:
        _lead_on(workspace.dataset(id), arrival, attestation, force=force)
    have_name(workspace, alias, id)
    workspace.index.put(arrival.state)
    return workspace.dataset(id)


def have_name(workspace: Workspace, alias: DatasetAlias, id: DatasetId) -> bool:
    """Give a dataset its name if it has none: an intake that was cut off may have left it so.

    Says whether it had none.  Raises AliasTakenError.
    """
    is_nameless = id not in workspace.aliases()
    if is_nameless:
        workspace.name(alias, id)
    return is_nameless


def _take_in(workspace: Workspace, arrival: Arrival, attestation: bytes | None, disk: Disk) -> None:
    folder, head = arrival.folder, str(arrival.state.head)
    for file in arrival.files:
        if not (folder / file.kind / str(file.hash)).is_file():
            raise MissingObjectError(file.hash, str(folder / file.kind))
    _tidy(arrival)
    for part in PARTS[:4]:
        (folder / part).mkdir(exist_ok=True)
    if attestation is not None:
        LocalAttestations(folder / "attestations", disk).put(arrival.state.head, attestation)
    (folder / "refs" / HEAD).write_bytes(head.encode())
    have_on_disk(folder, disk)
    workspace.take_in(arrival.dataset, folder)
    workspace.seen.advance(arrival.dataset, None, arrival.state.head, arrival.state.sequence)


def _tidy(arrival: Arrival) -> None:
    """Take out of a folder what an earlier attempt, at another head, left there."""
    wanted: dict[str, set[str]] = {part: set() for part in PARTS[1:4]}
    wanted["blocks"] = {str(each) for each in arrival.blocks}
    for file in arrival.files:
        wanted[file.kind].add(str(file.hash))
    for part, names in wanted.items():
        with suppress(FileNotFoundError):
            for name in os.listdir(arrival.folder / part):  # noqa: PTH208 - names only
                if name not in names:
                    (arrival.folder / part / name).unlink()


def _lead_on(dataset: Dataset, arrival: Arrival, attestation: bytes | None, *, force: bool) -> None:
    def noted(state: ChainState) -> None:
        if attestation is not None:
            aside = LocalAttestations(arrival.folder / "attestations")
            aside.put(state.head, attestation)
        take_attestations(dataset, arrival)

    if dataset.head() == arrival.state.head:  # an intake was cut off before the name
        noted(arrival.state)
        return
    if not (arrival.leads_on or force):
        raise HeadMovedError(arrival.base, arrival.before)
    staged = []
    for file in missing_files(arrival, dataset):
        path = arrival.folder / file.kind / str(file.hash)
        if not path.is_file():
            raise MissingObjectError(file.hash, str(path.parent))
        staged.append(StagedFile(path, file.hash, "data" if file.kind == "data" else "checkpoint"))
    blocks = {each: arrival.folder / "blocks" / str(each) for each in arrival.blocks}
    dataset.accept(
        blocks, staged, arrival.state, arrival.before, noted, rewrites=not arrival.leads_on
    )


def take_attestations(dataset: Dataset, arrival: Arrival) -> None:
    """Take the attestations that came along, if they say more than those that are here, and the
    list of delegations if it is newer.
    """
    id = arrival.dataset
    ours, theirs = dataset.stores.attestations, LocalAttestations(arrival.folder / "attestations")
    listed, known_list = theirs.get(DELEGATIONS), ours.get(DELEGATIONS)
    if listed is not None and is_newer_list(listed, known_list, id):
        ours.put(DELEGATIONS, listed)
        known_list = listed
    withdrawn = withdrawn_of(known_list, id)
    for name in theirs.heads():
        known = ours.get(name)
        better = better_attestation(theirs.get(name), known, id, name, withdrawn)
        if better is not None and better != known:
            ours.put(name, better)
