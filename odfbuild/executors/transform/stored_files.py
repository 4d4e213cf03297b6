"""Files of a step that stay in an object store, for an engine that reads them there."""

from collections.abc import Callable
from pathlib import Path

from odfbuild.executors.data.checks.stored_slices import StoredSlices
from odfbuild.executors.transform.checkpoint import previous
from odfbuild.odf.chain.state import ChainState
from odfbuild.state.chain.dataset import Dataset


class StoredStepFiles(StoredSlices):
    """Names the files of a step without bringing them, and notes which of them are `stored`."""

    def checkpoint(
        self, output: Dataset, state: ChainState, name: Callable[[], str]
    ) -> Path | None:
        """Return the path of the checkpoint of the step before, as `previous` does."""
        last = state.last_execute_transform
        left = None if last is None else last.new_checkpoint
        if left is None or left.physical_hash != state.checkpoint:
            return previous(output, state, name)
        stored = output.stores.checkpoints.stored(left.physical_hash, left.size)
        if stored is None or state.transform_is_new:
            return previous(output, state, name)
        return self._noted(stored)
