"""Lineage: where datasets come from and what was made of them; the model and its store."""

from typing import TYPE_CHECKING, Any

from odfbuild.lineage.ids import DSID, node_id
from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
)
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.resource import (
    AbstractBulkLineageResource,
    AbstractLineageResource,
    BatchStatus,
    LineageIndex,
)

if TYPE_CHECKING:
    from odfbuild.lineage.store import KnownDataset, LineageFile, SqliteLineageResource


__all__ = [
    "DSID",
    "AbstractBulkLineageResource",
    "AbstractLineageResource",
    "BatchStatus",
    "InconsistentLineageException",
    "KnownDataset",
    "LineageDirection",
    "LineageFile",
    "LineageIDPair",
    "LineageIndex",
    "LineageRelation",
    "LineageRelations",
    "LineageTree",
    "SqliteLineageResource",
    "node_id",
]


def __getattr__(name: str) -> Any:
    """Import what is about SQLite when it is first used."""
    if name not in ("KnownDataset", "LineageFile", "SqliteLineageResource"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odfbuild.lineage import store

    return getattr(store, name)
