"""Files of a step that stay in an object store, for an engine that reads them there.

Their sizes and hashes are those of the chain: who reads a file checks it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from odfbuild.executors.data.checks.verified_files import data_files
from odfbuild.executors.transform.checkpoint import previous
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSlice
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import StoredFile


class StoredStepFiles:
    """Names the files of a step without bringing them, and notes which of them are `stored`."""

    def __init__(self) -> None:
        self.stored: dict[Path, StoredFile] = {}

    def of(self, dataset: Dataset, slices: Sequence[DataSlice], owner: str) -> tuple[Path, ...]:
        """Return the paths of slices; where they are at hand, checked as `data_files` does."""
        data = dataset.stores.data
        stored = [data.stored(each.physical_hash, each.size) for each in slices]
        if None in stored:
            return data_files(dataset, slices, owner)
        return tuple(self._noted(each) for each in stored if each is not None)

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

    def _noted(self, stored: StoredFile) -> Path:
        self.stored[stored.path] = stored
        return stored.path
