"""Restoration of lost and damaged files of derivatives by a replay of the recorded step.

Data of a derivative is a cache: what its blocks name can be made again from the inputs, and the
chain stays as it is.  A file is put back under its name only if it hashes to it.  The bytes of a
slice may come out otherwise, of another version of an engine or of a library, while its rows have
the recorded logical hash: such a file is valid ("Dataset Validation"), but whoever copies the
dataset by its hashes refuses it, so it is put in place only if that is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.checks.files import file_problems
from odfbuild.executors.engine.context import StepEngine
from odfbuild.executors.verify.history import History, RecordedHistories
from odfbuild.executors.verify.replay import (
    RecordedStep,
    Remade,
    recorded_steps,
    refusal,
    remade,
    replay_work,
)
from odfbuild.odf.events import AddData, Checkpoint, DatasetKind, DataSlice, ExecuteTransform
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import ObjectStore
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_OF_ROOT = "data of a root is made of nothing else"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFile:
    """A file that a block names and that is not there, or not as recorded.

    `step` is what made it, None for data that no step of ours can make: that of a root.
    """

    block: Multihash
    sequence: int
    file: DataSlice | Checkpoint
    is_damaged: bool
    step: RecordedStep | None

    @property
    def hash(self) -> Multihash:
        """Return the physical hash, by which the file is named."""
        return self.file.physical_hash

    @property
    def what(self) -> str:
        """Say what the file is, as people read it."""
        if isinstance(self.file, Checkpoint):
            return "checkpoint"
        interval = self.file.offset_interval
        return f"slice {interval.start}..{interval.end}"


class RestorationOutcome(StrEnum):
    """What became of a lost file."""

    RESTORED = "restored"
    REENCODED = "reencoded"
    """The recorded rows are in place, in other bytes."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Restored:
    """A lost file and what became of it; `why` says why it could not be restored.

    `place` is the engine elsewhere that ran its step, None if that was done here.
    """

    lost: LostFile
    outcome: RestorationOutcome
    why: str | None = None
    place: str | None = None


def lost_files(history: History) -> tuple[LostFile, ...]:
    """Return the files of a dataset that are not as its blocks say, oldest first, each once.

    Every file is read.
    """
    steps = {each.block: each for each in recorded_steps(history)}
    kind = history.state(history.blocks[-1][0]).kind
    found: dict[Multihash, LostFile] = {}
    seen: set[Multihash] = set()
    for hash, block in history.blocks:
        for file in _files(block.event):
            if file.physical_hash in seen:
                continue
            seen.add(file.physical_hash)
            is_damaged = _is_damaged(history.dataset, file, kind)
            if is_damaged is not None:
                found[file.physical_hash] = LostFile(
                    block=hash,
                    sequence=block.sequence_number,
                    file=file,
                    is_damaged=is_damaged,
                    step=steps.get(hash),
                )
    return tuple(found.values())


def _is_damaged(dataset: Dataset, file: DataSlice | Checkpoint, kind: DatasetKind) -> bool | None:
    """Tell whether a lost file is there with other content, None of one that is not lost."""
    if not file_problems(dataset, file, kind)[0]:
        return None
    store = _store(dataset, file)
    return (
        store.path(file.physical_hash).exists()
        if store.is_at_hand
        else store.has(file.physical_hash)
    )


def _files(event: object) -> Iterator[DataSlice | Checkpoint]:
    if isinstance(event, AddData | ExecuteTransform):
        if event.new_data is not None:
            yield event.new_data
        if event.new_checkpoint is not None:
            yield event.new_checkpoint


def foresee(
    lost: Sequence[LostFile], past: RecordedHistories, workspace: Workspace
) -> tuple[Restored, ...]:
    """Say what `restore` would do with the files of one step, as far as it is known without it.

    `past` then takes those that would come back for restored.  That a step gives other bytes or
    rows now only running it shows.
    """
    step = lost[0].step
    if step is None:
        return tuple(Restored(each, RestorationOutcome.FAILED, _OF_ROOT) for each in lost)
    refused = refusal(step, anyway=True)
    why = None if refused is None else refused.why
    if why is None:
        try:
            replay_work(step, past, workspace.root)  # a folder that is only named
        except OdfBuildError as error:
            why = error.what
    if why is not None:
        return tuple(Restored(each, RestorationOutcome.FAILED, why) for each in lost)
    past.assume_restored(step.dataset, (each.file for each in lost))
    return tuple(Restored(each, RestorationOutcome.RESTORED) for each in lost)


def restore(
    lost: Sequence[LostFile],
    past: RecordedHistories,
    engine: StepEngine,
    workspace: Workspace,
    *,
    reencode: bool = False,
) -> tuple[Restored, ...]:
    """Run the step again that made some files, and put those in place that it gives back.

    A step of another version of the engine is run no less: hashes tell whether it gave the same.
    With `reencode` a slice with the recorded rows is put in place whatever its bytes.
    """
    step = lost[0].step
    if step is None:
        raise ValueError("a file that no step made")
    refused = refusal(step, anyway=True)
    if refused is not None:
        return tuple(Restored(each, RestorationOutcome.FAILED, refused.why) for each in lost)
    try:
        with workspace.staging() as staging:
            slice, checkpoint = remade(step, past, engine, staging)
            made = {"slice": slice, "checkpoint": checkpoint}
            found = tuple(_put_back(step.dataset, each, made, reencode=reencode) for each in lost)
    except OdfBuildError as error:
        return tuple(Restored(each, RestorationOutcome.FAILED, error.what) for each in lost)
    past.forget(step.dataset.id, (each.hash for each in lost))
    return found


def _put_back(
    dataset: Dataset,
    lost: LostFile,
    made: Mapping[str, Remade],
    *,
    reencode: bool,
) -> Restored:
    """Put one file in place if it is the recorded one."""
    is_slice = isinstance(lost.file, DataSlice)
    found = made["slice" if is_slice else "checkpoint"]
    if found is None:
        return Restored(lost, RestorationOutcome.FAILED, f"the step gives no {lost.what} now")
    path, logical = found
    if physical_hash(path) == lost.hash:
        _store(dataset, lost.file).put({lost.hash: path})
        return Restored(lost, RestorationOutcome.RESTORED)
    if not isinstance(lost.file, DataSlice):
        why = "it comes out with other bytes, and steps trust a checkpoint by its bytes"
        return Restored(lost, RestorationOutcome.FAILED, why)
    if logical != lost.file.logical_hash:
        why = f"the query gives other rows now: their logical hash is {logical}"
        return Restored(lost, RestorationOutcome.FAILED, why)
    if reencode and not dataset.stores.data.is_at_hand:
        why = "it comes out in other bytes, and in a store a file is what its name says"
        return Restored(lost, RestorationOutcome.FAILED, why)
    if not reencode:
        why = "it comes out with the recorded rows in other bytes, so that its name is not its hash"
        return Restored(lost, RestorationOutcome.FAILED, why)
    _store(dataset, lost.file).put({lost.hash: path})
    return Restored(lost, RestorationOutcome.REENCODED)


def _store(dataset: Dataset, file: DataSlice | Checkpoint) -> ObjectStore:
    return dataset.stores.data if isinstance(file, DataSlice) else dataset.stores.checkpoints
