"""The checkpoint of a derivative dataset: found for a step, and named in the block of the step.

A step continues from the checkpoint of the one before it, and names the one that it leaves; one
that changes nothing names the same again (ODF 0.34.1, "ExecuteTransform").  The file is a cache: it
can be rebuilt from the inputs, but what others took for it is never trusted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from odfbuild.errors import StateError
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import Checkpoint
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.commit_request import StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError

NEW = "checkpoint.parquet"
"""The name of the file, in the folder for staged files, that an engine writes."""


PreviousCheckpoint: TypeAlias = Callable[[Dataset, ChainState, Callable[[], str]], Path | None]
"""What finds the checkpoint of the step before, as `previous` does."""


class LostCheckpointError(StateError):
    """The checkpoint of a dataset is missing, or has other bytes than were committed."""

    code = "lost-checkpoint"


def previous(output: Dataset, state: ChainState, name: Callable[[], str]) -> Path | None:
    """Return the checkpoint of the step before, whose bytes are those that it left.

    None if it left none, or made it for a query that is in force no more.  Raises
    LostCheckpointError.
    """
    if state.checkpoint is None or state.transform_is_new:
        return None
    try:
        path = output.checkpoint_path(state.checkpoint)
    except CorruptObjectError as error:  # of a store, which gives no file with other bytes
        raise _altered(state.checkpoint, error.actual, name()) from None
    if not path.is_file():
        raise _lost(f"the checkpoint {state.checkpoint} is missing", name())
    named = ((state.checkpoint, path),)
    for _, _, actual in output.stores.checked.unlike(output.stores.checked.unknown(named)):
        raise _altered(state.checkpoint, actual, name())
    return path


def checkpoint_of_step(state: ChainState, work: TransformWork | None) -> Checkpoint | None:
    """Return the checkpoint that a step leaves: that of its engine, or the one before once more.

    `state` is the dataset as it was before the step, `work` is None if no engine ran.
    """
    from odfbuild.odf.hashing import physical_hash

    if work is not None:
        path = work.new_checkpoint
        if path is None or not path.is_file():
            return None
        return Checkpoint(physical_hash(path), path.stat().st_size)
    last = state.last_execute_transform
    return None if last is None or state.transform_is_new else last.new_checkpoint


def staged_checkpoint(
    work: TransformWork | None, checkpoint: Checkpoint | None
) -> tuple[StagedFile, ...]:
    """Return the file of the checkpoint that the engine of a step wrote."""
    if work is None or work.new_checkpoint is None or checkpoint is None:
        return ()
    return (StagedFile(work.new_checkpoint, checkpoint.physical_hash, "checkpoint"),)


def _altered(checkpoint: Multihash, actual: Multihash, name: str) -> LostCheckpointError:
    return _lost(f"the checkpoint {checkpoint} has other bytes: they hash to {actual}", name)


def _lost(what: str, name: str) -> LostCheckpointError:
    return LostCheckpointError(
        what=what,
        why="the step continues from what the step before it counted",
        fix=f"odfbuild rebuild {name} --restore makes it again, in the same chain; or restore the "
        "file from a copy",
    )
