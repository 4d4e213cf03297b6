"""Slices that stay in an object store, for an engine that reads them there.

Their sizes and hashes are those of the chain: who reads a file checks it.
"""

from collections.abc import Sequence
from pathlib import Path

from odfbuild.executors.data.checks.verified_files import data_files
from odfbuild.odf.events import DataSlice
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import StoredFile


class StoredSlices:
    """Names slices without bringing them, and notes which files are `stored`."""

    def __init__(self) -> None:
        self.stored: dict[Path, StoredFile] = {}

    def of(self, dataset: Dataset, slices: Sequence[DataSlice], owner: str) -> tuple[Path, ...]:
        """Return the paths of slices; where they are at hand, checked as `data_files` does."""
        data = dataset.stores.data
        stored = [data.stored(each.physical_hash, each.size) for each in slices]
        if None in stored:
            return data_files(dataset, slices, owner)
        return tuple(self._noted(each) for each in stored if each is not None)

    def _noted(self, stored: StoredFile) -> Path:
        self.stored[stored.path] = stored
        return stored.path
