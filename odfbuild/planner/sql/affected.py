"""Queries that earlier revisions of the engine took for ones that work by other columns.  Pure.

Up to revision 1 a star passed any name through, also one that the query leaves out beside it or
gives to something else; so steps looked at the rows of other keys than those that they touched.
The state of `min` and `max` had one zero, also where the query made -0.0 of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.planner.sql.arguments import loses_zeros
from odfbuild.planner.sql.group_names import is_misread
from odfbuild.planner.sql.keyed import Parts
from odfbuild.planner.sql.query import QueryStep
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read

__all__ = ["affected"]

_REVISION = re.compile(r"\+odfbuild\.(\d+)")
_MENDED = 2


def affected(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None], version: str | None
) -> bool:
    """Tell whether steps of a query may have left other rows than the query gives in full.

    `inputs` are the columns of the inputs as far as they are known, `version` is that of the
    engine that is recorded with the query, None if none is.
    """
    revision = _REVISION.search(version or "")
    if revision is not None and int(revision[1]) >= _MENDED:
        return False
    try:
        shapes = [(step.alias, read(step.text).shape) for step in steps]
    except SqlTextError:
        return False
    if not shapes:
        return False
    named = {name: shape for name, shape in shapes if name is not None}
    parts = Parts(named, inputs, dict(steps[0].temporal))
    part = parts.query(shapes[-1][1])
    if part.name == "linear":
        return False
    misread = part.group is not None and (
        is_misread(part.group) or loses_zeros(part.group, shapes, inputs)
    )
    return misread or bool(parts.asked & parts.redefined)
