"""Where datasets come from and what was made of them: the lineage model and its store."""

from odfbuild.lineage.model import (
    InconsistentLineageException,
    LineageDirection,
    LineageIDPair,
    LineageRelation,
    LineageTree,
)
from odfbuild.lineage.relations import LineageRelations

__all__ = [
    "InconsistentLineageException",
    "LineageDirection",
    "LineageIDPair",
    "LineageRelation",
    "LineageRelations",
    "LineageTree",
]
