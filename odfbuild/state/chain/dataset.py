"""One dataset: reading its chain, and the only code that writes chains.

Several files become real at one instant: everything that a new head reaches is on disk under its
hash before the head is swapped, so a crash leaves the old head or the new one, never between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import ChainProfile
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    Seed,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, decode_block, decode_link, encode_block
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.heads import HEAD, HeadMovedError, MemoryHeads
from odfbuild.state.chain.index import Index, agrees
from odfbuild.state.chain.objects import (
    CorruptObjectError,
    MissingObjectError,
    UnreadableObjectError,
)
from odfbuild.state.chain.seen_heads import DamagedSeenHeadError, SeenHeads
from odfbuild.state.chain.stores import Stores, check_files, check_present, sizes_of

_KEPT_BYTES = 64 << 20
NoteState = Callable[[ChainState], None]
"""Writes down what is true of a chain in a state, before that becomes the head."""


class NotInChainError(StateError):
    """A block is not in the chain of the head."""

    code = "not-in-chain"

    def __init__(self, dataset: DatasetId, missing: Multihash) -> None:
        super().__init__(
            what=f"{missing} is not a block of the chain of {dataset}",
            why="the dataset was reset or rewritten, or this copy is older than the block",
            fix="restore the dataset from a newer copy, then try again",
        )
        self.dataset = dataset
        self.missing = missing


class ForeignChainError(StateError):
    """The chain in the folder of a dataset begins with the Seed of another dataset."""

    code = "foreign-chain"

    def __init__(self, dataset: DatasetId, seeded: DatasetId) -> None:
        super().__init__(
            what=f"the chain in the folder of {dataset} is that of {seeded}",
            why="the Seed names the dataset of a chain: files and head of another dataset were "
            "copied here",
            fix="restore the folder of the dataset from a copy, or pull the dataset again",
        )


class WrongStateError(StateError):
    """The blocks to append were made from another state of the chain."""

    code = "wrong-state"

    def __init__(self, dataset: DatasetId, head: Multihash) -> None:
        super().__init__(
            what=f"a step began with a state of {dataset} that is not that of its head {head}",
            why="the step would duplicate or omit rows; nothing was written",
            fix="delete index.sqlite in the workspace, which is a cache, and run the command "
            "again; if it happens again, report it as a defect of odfbuild",
        )


class Dataset:
    """A dataset by its id; it need not have a block yet."""

    def __init__(
        self,
        id: DatasetId,
        stores: Stores,
        index: Index | None = None,
        seen: SeenHeads | None = None,
    ) -> None:
        self.id = id
        self.stores = stores
        self._seen = seen
        self._index = index if index is not None else Index()

    def __repr__(self) -> str:
        return f"Dataset({self.id})"

    # reading

    def head(self) -> Multihash | None:
        """Return the hash of the last block, or None before the first."""
        return self.stores.heads.read(HEAD)

    def block(self, hash: Multihash) -> MetadataBlock:
        """Return one block, its bytes checked against the hash.

        Raises ForeignChainError of the first block of another dataset.
        """
        return self._of_own(decode_block(self.stores.blocks.get(hash)))

    def _of_own(self, block: MetadataBlock) -> MetadataBlock:
        if isinstance(block.event, Seed) and block.event.dataset_id != self.id:
            raise ForeignChainError(self.id, block.event.dataset_id)
        return block

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

        What the index knows is taken if the blocks at its head say so, and only those after it
        are read.
        """
        last = self.head() if at is None else at
        known = self._known()
        if last is None or (known is not None and known.head == last):
            return None if last is None else known
        state, blocks = self._since(known, last)
        for hash, block in blocks:
            state = fold(state, block, hash)
        if at is None and state is not None:
            self._index.put(state)
        return state

    def _known(self) -> ChainState | None:
        known = self._index.get(self.id)
        with suppress(MissingObjectError, CorruptObjectError, UnreadableObjectError):
            if known is not None and agrees(known, self.stores.blocks):
                return known
        return None

    def slices(self, upto: Multihash | None = None) -> tuple[tuple[DataSlice, Path], ...]:
        """Return all data slices, oldest first, and where their files are, be they as recorded
        or not: what reads their rows gets them of `data.checks.verified_files`.
        """
        return tuple((each, self.data_path(each.physical_hash)) for each in self.data_slices(upto))

    def data_slices(self, upto: Multihash | None = None) -> tuple[DataSlice, ...]:
        """Return all data slices, oldest first; no file of theirs is asked for."""
        events = [block.event for _, block in self.blocks(upto=upto)]
        slices = [each.new_data for each in events if isinstance(each, AddData | ExecuteTransform)]
        return tuple(each for each in slices if each is not None)

    def data_path(self, hash: Multihash) -> Path:
        """Return where the file of a data slice is, be it as recorded or not."""
        return self.stores.data.path(hash)

    def checkpoint_path(self, hash: Multihash) -> Path:
        """Return where the file of a checkpoint is, be it as recorded or not."""
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
                yield hash, self._of_own(decode_block(kept.pop()))
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
        prepared: CommitRequest,
        on: ChainState | None,
        *,
        profile: ChainProfile = ChainProfile.SPEC,
        noting: NoteState | None = None,
    ) -> ChainState:
        """Append the prepared events to the state that they were made from; return the new one.

        `on` is None for a new chain.  `noting` is called when all is on disk but the head; what it
        raises leaves that as it was.  The head is never read in its place: what was worked out from
        one state cannot be put after another.  Raises, having changed nothing: HeadMovedError when
        the head is not that of `on`; RejectedBlockError when the chain forbids a block;
        CorruptObjectError, MissingObjectError or InconsistentSliceError when a staged file is not
        what the events say of it.
        """
        expected = self._still(on)
        return self._put(on, prepared, expected, profile, noting)

    def rewrite(
        self,
        prepared: CommitRequest,
        base: Multihash,
        on: ChainState,
        *,
        profile: ChainProfile = ChainProfile.SPEC,
        noting: NoteState | None = None,
    ) -> ChainState:
        """Put the prepared events after `base`, in the place of what leads from there to `on`.

        Raises as `commit` does, and NotInChainError if `base` is no block before the head.  The
        blocks and files of before stay where they are.
        """
        expected = self._still(on)
        self._back(expected, base)
        return self._put(self.state(base), prepared, expected, profile, noting, rewrites=True)

    def aside(self) -> "Dataset":
        """Return the dataset with a head of its own in memory, where this one's is now.

        What is committed to it is seen by nobody, until `set_head` makes it the head of this one.
        """
        heads = MemoryHeads()
        if (head := self.head()) is not None:
            heads.swap(HEAD, expected=None, new=head)
        return Dataset(self.id, replace(self.stores, heads=heads))

    def follow(self, other: "Dataset", on: ChainState) -> ChainState:
        """Append the blocks that another one, such as this one `aside`, has after a state.

        Their files are here already.  Returns the new state; raises as `commit` does.
        """
        blocks, head = other.stores.blocks, other.head()
        if head == on.head:
            return on
        return self.append([blocks.get(hash) for hash, _ in other.blocks(on.head, head)], on)

    def set_head(self, to: Multihash, expected: Multihash | None) -> None:
        """Make `to` the last block: an earlier one, or one that was the head before.

        Raises, having changed nothing: HeadMovedError when the head is not the expected one,
        MissingObjectError when a block or file that `to` reaches is not there.
        """
        with self.stores.heads.lock():  # of what no head reaches, nothing goes meanwhile
            if (actual := self.head()) != expected:
                raise HeadMovedError(expected, actual)
            state, sizes = None, sizes_of(self.stores)
            for hash, block in self.blocks(upto=to):
                check_present(block.event, self.stores, {}, sizes)
                state = fold(state, block, hash)
            if state is None or state.dataset != self.id:
                raise NotInChainError(self.id, to)
            self._swap(state, expected, rewrites=True)
        self._index.put(state)

    def _put(
        self,
        state: ChainState | None,
        prepared: CommitRequest,
        expected: Multihash | None,
        profile: ChainProfile,
        noting: NoteState | None,
        *,
        rewrites: bool = False,
    ) -> ChainState:
        check_files(prepared, self.stores)
        encoded: dict[Multihash, bytes] = {}
        for event in prepared.events:
            block = _next_block(state, event, prepared.system_time)
            check_append(state, block, profile=profile)
            data = encode_block(block)
            hash = block_hash(data)
            state = fold(state, block, hash)
            encoded[hash] = data
        files = prepared.files
        return self._make_real(files, encoded, state, expected, noting, rewrites=rewrites)

    def append(
        self,
        encoded: Sequence[bytes],
        on: ChainState | None,
        *,
        profile: ChainProfile = ChainProfile.SPEC,
    ) -> ChainState:
        """Append blocks made elsewhere, byte for byte, whose data and checkpoints are here already.

        Raises as `commit` does.
        """
        expected, state = self._still(on), on
        blocks: dict[Multihash, bytes] = {}
        for data in encoded:
            block, hash = decode_block(data), block_hash(data)
            check_append(state, block, profile=profile)
            check_present(block.event, self.stores, {})
            state = fold(state, block, hash)
            blocks[hash] = data
        return self._make_real((), blocks, state, expected, None)

    def accept(
        self,
        blocks: Mapping[Multihash, Path],
        files: Sequence[StagedFile],
        state: ChainState,
        expected: Multihash | None,
        noting: NoteState | None = None,
        *,
        rewrites: bool = False,
    ) -> ChainState:
        """Make a state the head that is here already, or that blocks from elsewhere lead to.

        Who calls has found that the blocks keep the rules, and that the files given are what their
        names say; these and the blocks are moved here, and what is not given is here already.
        `rewrites` says that `expected` may be no block before the new head.  `noting` is as in
        `commit`.  Raises HeadMovedError, having changed nothing.
        """
        with self.stores.heads.lock():
            if (actual := self.head()) != expected:
                raise HeadMovedError(expected, actual)
            if not blocks:
                if noting is not None:
                    noting(state)
                self._swap(state, expected, rewrites=rewrites)
                self._index.put(state)
                return state
            return self._make_real(tuple(files), blocks, state, expected, noting, rewrites=rewrites)

    def _still(self, on: ChainState | None) -> Multihash | None:
        """Return the head of a state; refuse early what the swap would refuse in the end.

        Also refused is a state that is not what the blocks at its head say: what was made of it
        would double rows, or leave some out.
        """
        expected, actual = None if on is None else on.head, self.head()
        if actual != expected:
            raise HeadMovedError(expected, actual)
        if on is not None and not agrees(on, self.stores.blocks):
            raise WrongStateError(self.id, on.head)
        return expected

    def _make_real(
        self,
        files: tuple[StagedFile, ...],
        blocks: Mapping[Multihash, bytes] | Mapping[Multihash, Path],
        state: ChainState | None,
        expected: Multihash | None,
        noting: NoteState | None,
        *,
        rewrites: bool = False,
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
            if noting is not None:
                noting(state)
            self._swap(state, expected, rewrites=rewrites)
        self._index.put(state)
        return state

    def _swap(self, state: ChainState, expected: Multihash | None, *, rewrites: bool) -> None:
        """Swap the head, and remember it as the one that was seen last."""
        seen, swap = self._seen, self.stores.heads.swap
        if seen is None:
            swap(HEAD, expected=expected, new=state.head)
        elif rewrites and self._was_seen(seen, expected):
            seen.announce(self.id, state.head)
            swap(HEAD, expected=expected, new=state.head)
            seen.put(self.id, state.head, state.sequence)
        else:
            swap(HEAD, expected=expected, new=state.head)
            seen.advance(self.id, expected, state.head, state.sequence)

    def _was_seen(self, seen: SeenHeads, expected: Multihash | None) -> bool:
        """Tell whether a chain is the one of which the last head was seen, or goes on from it."""
        try:
            known = seen.read(self.id)
        except DamagedSeenHeadError:
            return False
        if known is None:
            return False
        with suppress(NotInChainError):
            self._back(expected, known.head)
            return True
        return expected == known.next


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


def holds(dataset: Dataset, hash: Multihash, head: Multihash) -> bool:
    """Say whether a head reaches a block.  Reads that block and those that came after it.

    A block whose bytes are gone is reached by nothing.
    """
    at: Multihash | None = head
    if at == hash or not dataset.stores.blocks.has(hash):
        return at == hash
    number = dataset.block(hash).sequence_number
    while at is not None and at != hash:
        block = dataset.block(at)
        at = block.prev_block_hash if block.sequence_number > number else None
    return at == hash
