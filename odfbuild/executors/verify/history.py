"""Past states of chains: each chain is read once, for any number of its blocks."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

from odfbuild.executors.data.checks.files import file_problems
from odfbuild.executors.transform.checkpoint import previous
from odfbuild.executors.verify.read_heads import ReadHeads
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.objects import ObjectStore
from odfbuild.state.workspace import Workspace

T = TypeVar("T")


class History:
    """The blocks of a dataset from the seed to `tip`, with the state and the slices at each."""

    def __init__(self, dataset: Dataset, tip: Multihash) -> None:
        self.dataset = dataset
        self.blocks: list[tuple[Multihash, MetadataBlock]] = []
        self._states: dict[Multihash, ChainState] = {}
        self._slices: list[DataSlice] = []
        self._counts: dict[Multihash, int] = {}
        state = None
        for hash, block in dataset.blocks(upto=tip):
            state = fold(state, block, hash)
            self.blocks.append((hash, block))
            self._states[hash] = state
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                self._slices.append(event.new_data)
            self._counts[hash] = len(self._slices)

    def __contains__(self, block: Multihash) -> bool:
        return block in self._states

    def state(self, at: Multihash) -> ChainState:
        """Return the state at a block.  Raises NotInChainError."""
        if at not in self._states:
            raise NotInChainError(self.dataset.id, at)
        return self._states[at]

    def slices(self, upto: Multihash | None) -> tuple[DataSlice, ...]:
        """Return the slices up to a block, oldest first; all of them without one.

        No file of theirs is asked for: one that is lost is of no matter to who does not read it.
        """
        return tuple(self._slices[: None if upto is None else self._counts[upto]])


def place_of(store: ObjectStore, file: DataSlice | Checkpoint) -> Path:
    """Return where a file is, or will be once it is brought from a store elsewhere."""
    stored = store.stored(file.physical_hash, file.size)
    return store.path(file.physical_hash) if stored is None else stored.path


class RecordedHistories:
    """The histories of the datasets of a workspace, and which of their files are as recorded.

    `received` is a dataset that comes from elsewhere, and is asked in the place of the one here.
    `unread` are those of which a reader gave up the history, since it could not be read.
    """

    def __init__(self, workspace: Workspace, received: Dataset | None = None) -> None:
        self._workspace = workspace
        self._received = received
        self.heads = ReadHeads()
        self.unread: set[DatasetId] = set()
        self._histories: dict[DatasetId, list[History]] = {}
        self._damage: dict[tuple[DatasetId, Multihash], tuple[str, ...]] = {}
        self._restored: dict[tuple[DatasetId, Multihash], Path] = {}
        self._locks: dict[DatasetId, Lock] = {}
        self._lock = Lock()

    def each(
        self, ids: Collection[DatasetId], work: Callable[[DatasetId], T]
    ) -> Mapping[DatasetId, T]:
        """Return what a work makes of the histories of datasets, several at a time in a store."""
        datasets = [self._workspace.dataset(id) for id in ids]
        found = self._workspace.each(datasets, lambda dataset: work(dataset.id))
        return dict(zip(ids, found, strict=True))

    def history(self, id: DatasetId, at: Multihash | None = None) -> History | None:
        """Return a history that holds a block, by default that of the head; None without a head.

        The head is read only if none is known that holds the block.  Raises MissingObjectError,
        CorruptObjectError or a ProtocolError for a chain that is broken.
        """
        if at is not None and (found := self._known(id, at)) is not None:
            return found
        dataset = self._dataset(id)
        tip = dataset.head()
        self.heads.note(id, tip)
        if tip is None:
            return None
        with self._lock:
            own = self._locks.setdefault(id, Lock())
        with own:
            known = self._histories.setdefault(id, [])
            for wanted in (tip, at):
                if wanted is not None and not any(wanted in each for each in known):
                    known.append(History(dataset, wanted))
            return next(each for each in known if (tip if at is None else at) in each)

    def _known(self, id: DatasetId, at: Multihash | None = None) -> History | None:
        """Return a history that was read and holds a block, the first one without a block."""
        with self._lock:
            own = self._locks.setdefault(id, Lock())
        with own:
            known = self._histories.get(id, ())
            return next((each for each in known if at is None or at in each), None)

    def _dataset(self, id: DatasetId) -> Dataset:
        if self._received is not None and self._received.id == id:
            return self._received
        return self._workspace.dataset(id)

    def slices(self, dataset: Dataset, upto: Multihash | None) -> tuple[DataSlice, ...]:
        """Return what `Dataset.data_slices` does."""
        found = self.history(dataset.id, upto)
        return () if found is None else found.slices(upto)

    def damage(self, id: DatasetId, pieces: Iterable[DataSlice]) -> str | None:
        """Say what is wrong with the first of some slices that is not as recorded.

        If nothing is, the files of all of them are at hand.
        """
        history = self._known(id) or self.history(id)
        if history is None:
            return None
        kind = history.state(history.blocks[-1][0]).kind
        for piece in pieces:
            each = (id, piece.physical_hash)
            if each in self._restored:
                continue
            if each not in self._damage:  # two threads may both look: they find the same
                self._damage[each], _ = file_problems(history.dataset, piece, kind)
            if self._damage[each]:
                return self._damage[each][0]
        return None

    def checkpoint(
        self, output: Dataset, state: ChainState, name: Callable[[], str]
    ) -> Path | None:
        """Return the checkpoint of the step before, as `previous` does.

        One that is taken for restored is not looked at.
        """
        known = None if state.transform_is_new else state.checkpoint
        restored = None if known is None else self._restored.get((output.id, known))
        return previous(output, state, name) if restored is None else restored

    def assume_restored(self, dataset: Dataset, files: Iterable[DataSlice | Checkpoint]) -> None:
        """Take files of a dataset for those that are recorded: they would be in place by now."""
        for each in files:
            is_slice = isinstance(each, DataSlice)
            store = dataset.stores.data if is_slice else dataset.stores.checkpoints
            self._restored[dataset.id, each.physical_hash] = place_of(store, each)

    def forget(self, id: DatasetId, hashes: Iterable[Multihash]) -> None:
        """Look at files of a dataset again when they are asked about: they were put in place."""
        for each in hashes:
            self._damage.pop((id, each), None)


class PinnedHistories(RecordedHistories):
    """The histories of those datasets alone that are admitted, up to the block given for each.

    Others, and blocks that are in no chain up to there, are not in this workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._pinned: dict[DatasetId, History] = {}

    def admit(self, id: DatasetId, tip: Multihash) -> None:
        """Let a dataset be read up to a block.  Raises what `history` raises."""
        self._pinned[id] = History(self._workspace.dataset(id), tip)

    def history(self, id: DatasetId, at: Multihash | None = None) -> History | None:
        """Return an admitted history that holds a block; None if there is none."""
        found = self._pinned.get(id)
        return None if found is None or (at is not None and at not in found) else found
