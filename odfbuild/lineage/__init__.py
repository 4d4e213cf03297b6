"""Where datasets come from and what was made of them: the lineage model and its store."""

from odfbuild.lineage.ids import DSID, node_id
from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
)
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.resource import AbstractLineageResource, BatchStatus, LineageIndex

__all__ = [
    "DSID",
    "AbstractLineageResource",
    "BatchStatus",
    "InconsistentLineageException",
    "LineageDirection",
    "LineageIDPair",
    "LineageIndex",
    "LineageRelation",
    "LineageRelations",
    "LineageTree",
    "node_id",
]
