"""Visibility of datasets in a store: which of them servers show to nobody without a token.

    private/<id>      an object of some byte; one of no byte is as none

It is in the store, as several servers may serve it.  A mark is written before a dataset is there,
and the list of marks is read after names are.
"""

from typing import Final

from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.view.client import PRIVATE

_MARK: Final = b"private\n"


class StoredVisibility:
    """The private datasets of a workspace: read by one client, written by another."""

    def __init__(self, reading: ObjectClient, writing: ObjectClient) -> None:
        self._reading = reading
        self._writing = writing

    def __contains__(self, id: object) -> bool:
        key = f"{PRIVATE}{id.multibase}" if isinstance(id, DatasetId) else ""
        return any(each.key == key and each.size for each in self._reading.listed(PRIVATE))

    def ids(self) -> frozenset[DatasetId]:
        """Return the private datasets; what has no name of one is none."""
        marks = (
            each.key.removeprefix(PRIVATE) for each in self._reading.listed(PRIVATE) if each.size
        )
        return frozenset(filter(None, map(_dataset_of, marks)))

    def add(self, id: DatasetId) -> None:
        """Make a dataset private."""
        self._writing.put(f"{PRIVATE}{id.multibase}", _MARK)

    def discard(self, id: DatasetId) -> None:
        """Make a dataset public."""
        found = self._writing.facts(f"{PRIVATE}{id.multibase}")
        if found is not None and found.size:
            self._writing.put(f"{PRIVATE}{id.multibase}", b"")


def _dataset_of(mark: str) -> DatasetId | None:
    try:
        return DatasetId.parse(f"did:odf:{mark}")
    except InvalidDatasetIdError:
        return None
