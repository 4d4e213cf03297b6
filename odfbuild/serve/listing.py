"""The index of a server: its datasets, in the form that `repositories.catalogue` reads.

The blocks of a chain are counted once, and later only new ones.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.catalogue import CatalogueEntry, index_document
from odfbuild.repositories.protocol import files_of, records_of
from odfbuild.state.chain.dataset import NotInChainError
from odfbuild.state.homes import UnreadableChainError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class CountedChain:
    """The content of a chain up to a head: records, and bytes of files."""

    head: Multihash
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class DamagedDataset:
    """A dataset of which the chain or the name cannot be read, and the code of the error."""

    id: DatasetId | None
    code: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Datasets as an index has them, and those that are damaged."""

    entries: tuple[CatalogueEntry, ...]
    damaged: Mapping[DatasetAlias, DamagedDataset]


class ServerIndex:
    """The index of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[DatasetId, CountedChain] = {}
        self._lock = Lock()

    def document(
        self,
        states: Mapping[DatasetAlias, ChainState],
        shows: Callable[[DatasetAlias, DatasetId], bool],
    ) -> dict[str, Any]:
        """Return the index of the datasets to show; damaged ones are left out."""
        return index_document(self.listing(states, shows).entries)

    def listing(
        self,
        states: Mapping[DatasetAlias, ChainState],
        shows: Callable[[DatasetAlias, DatasetId], bool],
    ) -> "Listing":
        """Return the datasets to show, those of which the chain cannot be read by themselves."""
        found: list[CatalogueEntry] = []
        damaged: dict[DatasetAlias, DamagedDataset] = {}
        with self._lock:
            for alias, state in sorted(states.items()):
                if shows(alias, state.dataset):
                    try:
                        found.append(self._entry(alias, state))
                    except OdfBuildError as error:
                        damaged[alias] = DamagedDataset(state.dataset, error.code)
                    except OSError:
                        damaged[alias] = DamagedDataset(state.dataset, UnreadableChainError.code)
        return Listing(tuple(found), damaged)

    def _entry(self, alias: DatasetAlias, state: ChainState) -> CatalogueEntry:
        counted = self._counted(state.dataset, state.head)
        return CatalogueEntry(
            alias=alias,
            id=state.dataset,
            kind=state.kind,
            head=state.head,
            sequence=state.sequence,
            records=counted.records,
            size=counted.size,
            time=state.system_time,
        )

    def _counted(self, id: DatasetId, head: Multihash) -> CountedChain:
        known = self._known.get(id)
        if known is None or known.head != head:
            try:
                known = self._count(id, head, known)
            except NotInChainError:  # it was set back or rewritten
                known = self._count(id, head, None)
            self._known[id] = known
        return known

    def _count(self, id: DatasetId, head: Multihash, known: CountedChain | None) -> CountedChain:
        records, size = (0, 0) if known is None else (known.records, known.size)
        after = None if known is None else known.head
        for _, block in self._workspace.dataset(id).blocks(after, head):
            records += records_of(block.event)
            size += sum(each.size for each in files_of(block.event))
        return CountedChain(head, records, size)
