"""Inputs that steps recorded, compared with the current chains of the inputs.

A step read the blocks (prevBlockHash, newBlockHash] of an input, up to the record newOffset (ODF
0.34.1, "ExecuteTransformInput").  So both blocks are on the chain of that input, in this order, and
newOffset is its last offset there.  A block that left the chain was reset, compacted or forked.

No step is older than the blocks that it read, as far as clocks can say that.  The watermark of a
step of our engines is the least of its inputs, or the one before it where that is later.  The
specification leaves it to the engine: some of the reference hold it back, or leave inputs out that
did not move, so with another engine it is only not beyond the least of those that did.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from threading import Lock, Semaphore
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.executors.transform.continuity import is_ours
from odfbuild.executors.verify.ahead import bring_chain
from odfbuild.executors.verify.clocks import is_ahead
from odfbuild.executors.verify.read_heads import ReadHeads
from odfbuild.odf.chain.state import ChainState, last_block_of, last_offset_read
from odfbuild.odf.events import AddData, ExecuteTransform, ExecuteTransformInput, SetTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.chain_definitions import inputs_of
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_WALKS: Final = 8  # chains of which the blocks are in memory at a time


@dataclass(frozen=True, slots=True)
class _BlockPosition:
    """Where a block is in its chain, its time, and up to it: the last offset, the watermark.

    None for no record and no watermark.  `data` counts the blocks of data.
    """

    sequence: int
    time: Timestamp
    offset: int | None
    watermark: Timestamp | None
    data: int


@dataclass(frozen=True, slots=True)
class _ReadPart:
    """An input as a step read it: its watermark, and whether it brought blocks of data."""

    dataset: DatasetId
    watermark: Timestamp | None
    moved: bool


class RecordedInputs:
    """The chains of the datasets of a workspace, each read once, for any number of steps.

    With `every`, an input that the workspace does not have, or of which the chain cannot be read,
    is a problem; without, it is left alone.
    """

    def __init__(self, workspace: Workspace, *, every: bool = False) -> None:
        self._workspace = workspace
        self._every = every
        self.heads = ReadHeads()
        self._names = {id: str(name) for name, id in workspace.names().items()}
        self._chains: dict[DatasetId, Mapping[Multihash, _BlockPosition] | str | None] = {}
        self._made_of: dict[DatasetId, tuple[DatasetId, ...]] = {}
        self._locks: dict[DatasetId, Lock] = {}
        self._lock = Lock()
        self._walks = Semaphore(_WALKS)

    def problems(
        self,
        event: ExecuteTransform,
        system_time: Timestamp | None = None,
        before: ChainState | None = None,
    ) -> tuple[str, ...]:
        """Return what does not hold of what a step recorded.

        `system_time` is that of its block, and `before` the state that it goes on from, if known.
        """
        return (
            *(
                f"its input {self._name(each.dataset_id)} {what}"
                for each in event.query_inputs
                for what in (*self._problems(each), *self._later(each, system_time))
            ),
            *_made_of_nothing(event),
            *self._watermark(event, before),
        )

    def bring(self, ids: Collection[DatasetId]) -> None:
        """Read the chains of some inputs, several at a time in a store."""
        list(self._workspace.each(list(map(self._workspace.dataset, ids)), self._bring))

    def _bring(self, dataset: Dataset) -> None:
        self._chain(dataset.id)

    def _name(self, id: DatasetId) -> str:
        return self._names.get(id, str(id))

    def _later(self, read: ExecuteTransformInput, time: Timestamp | None) -> Iterator[str]:
        """Yield that the step is older than the last block that it read of an input."""
        chain = self._chain(read.dataset_id, read)
        last = read.new_block_hash
        if time is None or last is None or not isinstance(chain, Mapping) or last not in chain:
            return
        if is_ahead(written := chain[last].time, time):
            yield f"has a block of {written}, and the step read it at {time}, before it was there"

    def _watermark(self, event: ExecuteTransform, before: ChainState | None) -> Iterator[str]:
        """Yield that the watermark is none that the inputs give, where all are at hand."""
        there: list[_ReadPart] = []
        for each in event.query_inputs:
            part = self._part(each)
            if part is None:
                return
            there.append(part)
        old, mark = None if before is None else before.watermark, event.new_watermark
        if before is not None and is_ours(before.transform):
            yield from self._not_least(there, old, mark)
        elif mark is not None and (old is None or mark > old):
            yield from self._watermark_findings(
                [each for each in there if each.moved] or there, mark
            )

    def _part(self, read: ExecuteTransformInput) -> "_ReadPart | None":
        """Return how far an input was read, None if its chain is not at hand."""
        chain, last = self._chain(read.dataset_id, read), last_block_of(read)
        if not isinstance(chain, Mapping) or (last is not None and last not in chain):
            return None
        if last is None:
            return _ReadPart(read.dataset_id, None, moved=False)
        first = None if read.prev_block_hash is None else chain.get(read.prev_block_hash)
        moved = chain[last].data > (0 if first is None else first.data)
        return _ReadPart(read.dataset_id, chain[last].watermark, moved)

    def _watermark_findings(self, inputs: "Sequence[_ReadPart]", mark: Timestamp) -> Iterator[str]:
        for each in inputs:
            if each.watermark is None or mark > each.watermark:
                of = f"that of its input {self._name(each.dataset)} is {each.watermark or 'none'}"
                yield f"its watermark is {mark}, {of}"

    def _not_least(
        self, inputs: "Sequence[_ReadPart]", old: Timestamp | None, mark: Timestamp | None
    ) -> Iterator[str]:
        if mark is not None and (old is None or mark > old):
            yield from self._watermark_findings(inputs, mark)
        marks = [each.watermark for each in inputs]
        known = [each for each in marks if each is not None]
        least = min(known) if known and len(known) == len(marks) else None
        if least is not None and (mark is None or mark < least):
            yield f"its watermark is {mark or 'none'}, and all its inputs were at {least} or later"

    def cycle(self, head: ChainState) -> str | None:
        """Return by which inputs in force a dataset is made of itself, none of them twice."""
        ways: list[tuple[DatasetId, tuple[DatasetId, ...]]]
        ways = [(each, (head.dataset, each)) for each in inputs_of(head)]
        seen: set[DatasetId] = set()
        while ways:
            id, way = ways.pop()
            if id == head.dataset:
                return " reads ".join(str(self._names.get(each, each)) for each in way)
            if id not in seen:
                seen.add(id)
                self._chain(id)
                ways += [(each, (*way, each)) for each in self._made_of.get(id, ())]
        return None

    def reached(self, ids: Collection[DatasetId]) -> Collection[DatasetId]:
        """Return some datasets and all whose chains were read since these are made of them."""
        found: set[DatasetId] = set()
        left = list(ids)
        while left:
            if (id := left.pop()) not in found:
                found.add(id)
                left += self._made_of.get(id, ())
        return found

    def _problems(self, read: ExecuteTransformInput) -> Iterator[str]:
        chain = self._chain(read.dataset_id, read)
        if chain is None:
            if self._every:
                yield "is not in the workspace, so what was read of it cannot be looked up"
            return
        if isinstance(chain, str):  # which is found where that dataset is verified
            if self._every:
                yield f"cannot be read: {chain}"
            return
        named = {"prevBlockHash": read.prev_block_hash, "newBlockHash": read.new_block_hash}
        lost = [(name, hash) for name, hash in named.items() if hash and hash not in chain]
        if lost:
            yield from (self._lost(read.dataset_id, *each) for each in lost)
            return
        before, last = read.prev_block_hash, last_block_of(read)
        if last is None:
            if read.prev_offset is not None:
                yield f"has no block that was read, but its records up to {read.prev_offset} were"
            return
        if before is not None and last != before and chain[last].sequence < chain[before].sequence:
            yield f"has the block newBlockHash before the block prevBlockHash, not after it: {last}"
        if (offset := last_offset_read(read)) != chain[last].offset:
            yield f"ends with {_record(chain[last].offset)} at {last}, not with {_record(offset)}"
        if before is not None and read.prev_offset != chain[before].offset:
            there = _record(chain[before].offset)
            yield f"ends with {there} at {before}, and prevOffset is {read.prev_offset}"

    def _lost(self, id: DatasetId, name: str, hash: Multihash) -> str:
        if self._workspace.dataset(id).stores.blocks.has(hash):
            return (
                f"was reset or rewritten since: {name}, {hash}, is not on its chain any more; "
                "rebuild the dataset with odfbuild rebuild"
            )
        return f"has no block {hash}, which is recorded as {name}"

    def _chain(
        self, id: DatasetId, read: ExecuteTransformInput | None = None
    ) -> Mapping[Multihash, _BlockPosition] | str | None:
        """Return the blocks of a chain; what is wrong with it; None if there is none.

        Others may commit to an input, and to what reads it, while datasets are verified: a chain
        that lacks blocks which a step has read is read once more if its head has moved.
        """
        with self._lock:
            own = self._locks.setdefault(id, Lock())
        with own:
            if id not in self._chains or self._grew(id, read):
                try:
                    self._chains[id] = self._read(id)
                except UnreachableRepositoryError:
                    raise
                except OdfBuildError as error:
                    self._chains[id] = error.what
            return self._chains[id]

    def _grew(self, id: DatasetId, read: ExecuteTransformInput | None) -> bool:
        """Tell whether a chain lacks blocks that a step has read, and has another head by now."""
        chain = self._chains[id]
        if read is None or isinstance(chain, str):
            return False
        named = {each for each in (read.prev_block_hash, read.new_block_hash) if each is not None}
        there: Mapping[Multihash, _BlockPosition] = chain or {}
        if named <= there.keys():
            return False
        return self._workspace.dataset(id).head() != next(reversed(tuple(there)), None)

    def _read(self, id: DatasetId) -> Mapping[Multihash, _BlockPosition] | None:
        dataset = self._workspace.dataset(id)
        try:
            head = dataset.head()
        except OdfBuildError:
            self.heads.note_unread(id)
            raise
        self.heads.note(id, head)
        if head is None:
            return None
        bring_chain(dataset, head)
        with self._walks:
            return self._positions(dataset, head)

    def _positions(self, dataset: Dataset, head: Multihash) -> Mapping[Multihash, _BlockPosition]:
        found: dict[Multihash, _BlockPosition] = {}
        offset: int | None = None
        watermark: Timestamp | None = None
        data = 0
        for hash, block in dataset.blocks(upto=head):
            event = block.event
            if isinstance(event, SetTransform):
                refs = (each.dataset_ref for each in event.inputs)
                self._made_of[dataset.id] = tuple(
                    each for each in refs if isinstance(each, DatasetId)
                )
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                offset = event.new_data.offset_interval.end
            if isinstance(event, AddData | ExecuteTransform):
                watermark, data = event.new_watermark, data + 1
            found[hash] = _BlockPosition(
                block.sequence_number, block.system_time, offset, watermark, data
            )
        return found


def _made_of_nothing(event: ExecuteTransform) -> Iterator[str]:
    """Yield that there are rows, though nothing was ever read: an empty input has blocks too."""
    read = [last_block_of(each) for each in event.query_inputs]
    if event.new_data is not None and read and not any(read):
        yield "it made rows, and no block of any input was read"


def _record(offset: int | None) -> str:
    return "no record" if offset is None else f"the record {offset}"
