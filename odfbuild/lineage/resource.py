"""Lineage interface of an index (Open Data Cube, EP-08): trees, merges and homes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from odfbuild.lineage.ids import DSID
from odfbuild.lineage.model import LineageDirection, LineageRelation, LineageTree
from odfbuild.lineage.relations import LineageRelations


class LineageIndex(Protocol):
    """An index whose lineage a resource keeps."""

    @property
    def supports_external_lineage(self) -> bool: ...


class BatchStatus(NamedTuple):
    """What became of a bulk write: records written, records that were there, and the time taken."""

    completed: int
    skipped: int
    seconds_elapsed: float
    safe: Mapping[str, "BatchStatus"] | None = None


class AbstractLineageResource(ABC):
    """Lineage of datasets by id; they need not be in the index, nor anywhere that it knows."""

    def __init__(self, index: LineageIndex) -> None:
        if not index.supports_external_lineage:
            raise ValueError("the index does not support external lineage")
        self._index = index

    @abstractmethod
    def get_derived_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
        """Return what was made of a dataset, as a tree of at most `max_depth` relations (0: all).

        Without lineage the tree is a lone node.
        """

    @abstractmethod
    def get_source_tree(self, id: DSID, max_depth: int = 0) -> LineageTree:
        """Return what a dataset was made of, as a tree of at most `max_depth` relations (0: all).

        Without lineage the tree is a lone node.
        """

    @abstractmethod
    def merge(
        self, rels: LineageRelations, allow_updates: bool = False, validate_only: bool = False
    ) -> None:
        """Add a collection: all of it, or nothing if it contradicts what is stored.

        With `allow_updates` the collection is right where classifiers or homes differ; with
        `validate_only` nothing is written; both together are a ValueError.  Raises
        InconsistentLineageException for contradictions and for cycles.
        """

    @abstractmethod
    def add(self, tree: LineageTree, max_depth: int = 0, allow_updates: bool = False) -> None:
        """Add a tree, to some depth (0: all), in the manner of `merge`."""

    @abstractmethod
    def remove(self, id_: DSID, direction: LineageDirection, max_depth: int = 0) -> None:
        """Remove the relations from a dataset on, `max_depth` of them deep (0: all); homes stay."""

    @abstractmethod
    def set_home(self, home: str, *args: DSID, allow_updates: bool = False) -> int:
        """Set the home of datasets and return how many records were written.

        Without `allow_updates` that is all of them, or none if one has a home or is given twice.
        """

    @abstractmethod
    def clear_home(self, *args: DSID, home: str | None = None) -> int:
        """Forget the homes of datasets, or all homes of this value, and return how many there were.

        Raises ValueError if both datasets and a value are given.
        """

    @abstractmethod
    def get_homes(self, *args: DSID) -> Mapping[UUID, str]:
        """Return the homes of those of the datasets that have one."""

    # The proposal ends here.

    def get_source_ids(self, id: DSID) -> Mapping[str, list[UUID]]:
        """Return what a dataset was made of directly, by classifier."""
        return self.get_source_tree(id, 1).to_eo3_doc()

    def get_derived_ids(self, id: DSID) -> Mapping[str, list[UUID]]:
        """Return what was made of a dataset directly, by classifier."""
        return self.get_derived_tree(id, 1).to_eo3_doc()


class AbstractBulkLineageResource(AbstractLineageResource):
    """A resource that is also read and written as flat records: relations and homes."""

    @abstractmethod
    def get_all_lineage(self, batch_size: int = 1000) -> Iterator[LineageRelation]:
        """Yield every relation, as they are at one moment, in the order of their ids."""

    @abstractmethod
    def get_all_homes(self, batch_size: int = 1000) -> Iterator[tuple[UUID, str]]:
        """Yield every home, as they are at one moment, in the order of their ids."""

    @abstractmethod
    def bulk_add(self, relations: Iterable[LineageRelation], batch_size: int = 1000) -> BatchStatus:
        """Add many relations: all of them, or nothing if one closes a cycle.

        Those between datasets that have one count as skipped, and keep their classifier: `merge`
        tells of another one.  Raises InconsistentLineageException.
        """

    @abstractmethod
    def bulk_add_homes(
        self, homes: Iterable[tuple[UUID, str]], batch_size: int = 1000
    ) -> BatchStatus:
        """Add many homes: all of them, or nothing if a dataset has another one.

        Those that are stored count as skipped.  Raises InconsistentLineageException.
        """
