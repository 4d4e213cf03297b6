"""One dataset: reading its chain, and the only code that writes chains.

Several files become real at one instant: everything that a new head reaches is on disk under its
hash before the head is swapped, so a crash leaves the old head or the new one, never between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.odf.chain import ChainState, Profile, check_append, fold
from odfbuild.odf.codec import block_hash, decode_block, decode_link, encode_block
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.heads import HEAD, HeadMovedError, HeadStore
from odfbuild.state.index import Index
from odfbuild.state.objects import (
    CorruptObjectError,
    MissingObjectError,
    ObjectStore,
    hash_files,
)
from odfbuild.state.prepared import Prepared, StagedFile

__all__ = ["Dataset", "InconsistentSliceError", "NotInChainError", "Stores"]

_KEPT_BYTES = 64 << 20


class NotInChainError(StateError):
    """A block is not among those that the head reaches."""

    code = "not-in-chain"

    def __init__(self, dataset: DatasetId, missing: Multihash) -> None:
        super().__init__(
            what=f"{missing} is no block of the chain of {dataset}",
            why="the dataset was reset or rewritten, or this copy is older than the block",
            fix="restore the dataset from a newer copy, then try again",
        )
        self.dataset = dataset
        self.missing = missing


class InconsistentSliceError(StateError):
    """A staged file is not what the event says of it."""

    code = "inconsistent-slice"


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the parts of one dataset are."""

    heads: HeadStore
    blocks: ObjectStore
    data: ObjectStore
    checkpoints: ObjectStore


class Dataset:
    """A dataset by its id; it need not have a block yet."""

    def __init__(self, id: DatasetId, stores: Stores, index: Index | None = None) -> None:
        self.id = id
        self.stores = stores
        self._index = index if index is not None else Index()

    def __repr__(self) -> str:
        return f"Dataset({self.id})"

    # reading

    def head(self) -> Multihash | None:
        """Return the hash of the last block, or None before the first."""
        return self.stores.heads.read(HEAD)

    def block(self, hash: Multihash) -> MetadataBlock:
        """Return one block, its bytes checked against the hash."""
        return decode_block(self.stores.blocks.get(hash))

    def blocks(
        self, after: Multihash | None = None, upto: Multihash | None = None
    ) -> Iterator[tuple[Multihash, MetadataBlock]]:
        """Yield the blocks in (after, upto], oldest first; by default from the seed to the head.

        Raises NotInChainError before the first block if `after` does not come before `upto`.
        """
        last = self.head() if upto is None else upto
        return self._forth(*self._back(last, after))

    def state(self, at: Multihash | None = None) -> ChainState | None:
        """Return the state at a block, by default at the head; None if there is no block.

        What the index knows is taken as it is, and only the blocks after it are read.
        """
        last = self.head() if at is None else at
        known = self._index.get(self.id)
        if last is None or (known is not None and known.head == last):
            return None if last is None else known
        state, blocks = self._since(known, last)
        for hash, block in blocks:
            state = fold(state, block, hash)
        if at is None and state is not None:
            self._index.put(state)
        return state

    def slices(self, upto: Multihash | None = None) -> tuple[tuple[DataSlice, Path], ...]:
        """Return all data slices, oldest first, and where their files are."""
        events = [block.event for _, block in self.blocks(upto=upto)]
        slices = [each.new_data for each in events if isinstance(each, AddData | ExecuteTransform)]
        return tuple(
            (each, self.data_path(each.physical_hash)) for each in slices if each is not None
        )

    def data_path(self, hash: Multihash) -> Path:
        """Return where the file of a data slice is."""
        return self.stores.data.path(hash)

    def checkpoint_path(self, hash: Multihash) -> Path:
        """Return where the file of a checkpoint is."""
        return self.stores.checkpoints.path(hash)

    def _back(
        self, last: Multihash | None, after: Multihash | None
    ) -> tuple[list[Multihash], list[bytes]]:
        """Walk from `last` to the block after `after`; return the hashes and the blocks' bytes.

        Of a long walk only the bytes of the newest blocks are kept.
        """
        get = self.stores.blocks.get
        hashes: list[Multihash] = []
        kept: list[bytes] = []
        left = _KEPT_BYTES
        hash = last
        while hash is not None and hash != after:
            data = get(hash)
            hashes.append(hash)
            left -= len(data)
            if left >= 0:
                kept.append(data)
            hash = decode_link(data)
        if hash != after and after is not None:
            raise NotInChainError(self.id, after)
        return hashes, kept

    def _forth(
        self, hashes: list[Multihash], kept: list[bytes]
    ) -> Iterator[tuple[Multihash, MetadataBlock]]:
        """Turn a walk round, reading the blocks again that were not kept."""
        while hashes:
            hash = hashes.pop()
            if len(hashes) < len(kept):
                yield hash, decode_block(kept.pop())
            else:
                yield hash, self.block(hash)

    def _since(
        self, known: ChainState | None, last: Multihash
    ) -> tuple[ChainState | None, Iterator[tuple[Multihash, MetadataBlock]]]:
        if known is not None:
            try:
                return known, self.blocks(known.head, last)
            except NotInChainError:
                pass  # an earlier block was asked for, or the head was set back
        return None, self.blocks(upto=last)

    # writing

    def commit(
        self,
        prepared: Prepared,
        on: ChainState | None,
        *,
        profile: Profile = Profile.SPEC,
    ) -> ChainState:
        """Append the prepared events to the state that they were made from; return the new one.

        `on` is None for a new chain.  The head is never read in its place: what was worked out from
        one state cannot be put after another.  Raises, having changed nothing: HeadMovedError when
        the head is not that of `on`; RejectedBlockError when the chain forbids a block;
        CorruptObjectError, MissingObjectError or InconsistentSliceError when a staged file is not
        what the events say of it.
        """
        expected = self._still(on)
        return self._put(on, prepared, expected, profile)

    def rewrite(
        self,
        prepared: Prepared,
        base: Multihash,
        on: ChainState,
        *,
        profile: Profile = Profile.SPEC,
    ) -> ChainState:
        """Put the prepared events after `base`, in the place of what leads from there to `on`.

        Raises as `commit` does, and NotInChainError if `base` is no block before the head.  The
        blocks and files of before stay where they are.
        """
        expected = self._still(on)
        self._back(expected, base)
        return self._put(self.state(base), prepared, expected, profile)

    def set_head(self, to: Multihash, expected: Multihash | None) -> None:
        """Make `to` the last block: an earlier one, or one that was the head before.

        Raises, having changed nothing: HeadMovedError when the head is not the expected one,
        MissingObjectError when a block or file that `to` reaches is not there.
        """
        with self.stores.heads.lock():  # of what no head reaches, nothing goes meanwhile
            if (actual := self.head()) != expected:
                raise HeadMovedError(expected, actual)
            state = None
            for hash, block in self.blocks(upto=to):
                _check_present(block.event, self.stores, {})
                state = fold(state, block, hash)
            if state is None or state.dataset != self.id:
                raise NotInChainError(self.id, to)
            self.stores.heads.swap(HEAD, expected=expected, new=to)
        self._index.put(state)

    def _put(
        self,
        state: ChainState | None,
        prepared: Prepared,
        expected: Multihash | None,
        profile: Profile,
    ) -> ChainState:
        _check_files(prepared, self.stores)
        encoded: dict[Multihash, bytes] = {}
        for event in prepared.events:
            block = _next_block(state, event, prepared.system_time)
            check_append(state, block, profile=profile)
            data = encode_block(block)
            hash = block_hash(data)
            state = fold(state, block, hash)
            encoded[hash] = data
        return self._make_real(prepared.files, encoded, state, expected)

    def append(
        self,
        encoded: Sequence[bytes],
        on: ChainState | None,
        *,
        profile: Profile = Profile.SPEC,
    ) -> ChainState:
        """Append blocks made elsewhere, byte for byte, whose data and checkpoints are here already.

        Raises as `commit` does.
        """
        expected, state = self._still(on), on
        blocks: dict[Multihash, bytes] = {}
        for data in encoded:
            block, hash = decode_block(data), block_hash(data)
            check_append(state, block, profile=profile)
            _check_present(block.event, self.stores, {})
            state = fold(state, block, hash)
            blocks[hash] = data
        return self._make_real((), blocks, state, expected)

    def _still(self, on: ChainState | None) -> Multihash | None:
        """Return the head of a state; refuse early what the swap would refuse in the end."""
        expected, actual = None if on is None else on.head, self.head()
        if actual != expected:
            raise HeadMovedError(expected, actual)
        return expected

    def _make_real(
        self,
        files: tuple[StagedFile, ...],
        blocks: Mapping[Multihash, bytes],
        state: ChainState | None,
        expected: Multihash | None,
    ) -> ChainState:
        if state is None or not blocks:
            raise StateError(
                what=f"nothing to append to {self.id}",
                why="a change of a dataset is at least one block",
                fix="leave the commit out",
            )
        if state.dataset != self.id:
            raise StateError(
                what=f"the chain is of {state.dataset}, not of {self.id}",
                why="the Seed names the dataset that a chain belongs to",
                fix="give the chain to the dataset that it names",
            )
        stores = self.stores
        with stores.heads.lock():  # until the head reaches them, nobody else would keep them
            stores.data.put({each.hash: each.path for each in files if each.kind == "data"})
            stores.checkpoints.put({each.hash: each.path for each in files if each.kind != "data"})
            stores.blocks.put(blocks)
            stores.heads.swap(HEAD, expected=expected, new=state.head)
        self._index.put(state)
        return state


def _next_block(
    state: ChainState | None, event: MetadataEvent, system_time: Timestamp
) -> MetadataBlock:
    """Put an event into the block that comes next; time does not go back when a clock does."""
    if state is None:
        return MetadataBlock(system_time=system_time, sequence_number=0, event=event)
    return MetadataBlock(
        system_time=max(system_time, state.system_time),
        prev_block_hash=state.head,
        sequence_number=state.sequence + 1,
        event=event,
    )


# what the events say of the files


def _check_files(prepared: Prepared, stores: Stores) -> None:
    staged: dict[tuple[str, Multihash], StagedFile] = {
        (each.kind, each.hash): each for each in prepared.files
    }
    places = [(each.hash, _place(each, stores)) for each in prepared.files]
    for (hash, path), actual in zip(places, hash_files(places), strict=True):
        if actual != hash:
            raise CorruptObjectError(hash, actual, str(path))
    for event in prepared.events:
        _check_present(event, stores, staged)


def _place(staged: StagedFile, stores: Stores) -> Path:
    """Return where a staged file is: an earlier attempt may have put it into its place already."""
    if staged.path.is_file():
        return staged.path
    store = stores.data if staged.kind == "data" else stores.checkpoints
    if not store.has(staged.hash):
        raise MissingObjectError(staged.hash, str(staged.path))
    return store.path(staged.hash)


def _check_present(
    event: MetadataEvent, stores: Stores, staged: Mapping[tuple[str, Multihash], StagedFile]
) -> None:
    """Refuse an event that speaks of files which are neither staged nor kept, or are otherwise."""
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        hash = event.new_data.physical_hash
        _check_slice(event.new_data, _file_of(hash, staged.get(("data", hash)), stores.data))
    if event.new_checkpoint is not None:
        hash = event.new_checkpoint.physical_hash
        path = _file_of(hash, staged.get(("checkpoint", hash)), stores.checkpoints)
        _check_size(path, event.new_checkpoint.size)


def _file_of(hash: Multihash, staged: StagedFile | None, store: ObjectStore) -> Path:
    if staged is not None and staged.path.is_file():
        return staged.path
    if not store.has(hash):
        raise MissingObjectError(hash, "the staged files and the dataset")
    return store.path(hash)


def _check_slice(slice: DataSlice, path: Path) -> None:
    _check_size(path, slice.size)
    interval = slice.offset_interval
    promised, actual = interval.end - interval.start + 1, _rows(path)
    if promised != actual:
        raise InconsistentSliceError(
            what=f"{path.name} has {actual} records, its offsets count {promised}",
            why="every record has one offset of the slice's interval",
            fix="write the slice again",
        )


def _check_size(path: Path, promised: int) -> None:
    actual = path.stat().st_size
    if promised != actual:
        raise InconsistentSliceError(
            what=f"{path.name} has {actual} bytes, the event says {promised}",
            why="the size of a file is part of its description",
            fix="write the file again",
        )


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ValueError) as error:
        raise InconsistentSliceError(
            what=f"{path.name} is no Parquet file",
            why='data slices are Parquet files (ODF 0.34.1, "Data Slice")',
            fix="write the slice again",
        ) from error
