"""Queries for which earlier revisions of the engine may have produced wrong rows.  Pure.

Up to revision 1 a star passed any name through, also one that the query excludes or gives to
another column; so steps read the rows of wrong keys.  The state of `min` and `max` had one zero,
also where the query computed -0.0 from its columns.  Versions of an input that had been corrected
became valid again when the correction was removed or had an earlier time.

Up to revision 4 a session lost the rows that its condition, or the watermark, excluded.

Up to revision 1 of DataFusion `min` and `max` of floating-point numbers in groups depended on the
order of rows where one was NaN.  Up to revision 5 functions for JSON took the last of equal keys,
and null from a text that is damaged after the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.aggregates.text import loses_zeros
from odfbuild.sql.analysis.keys.group_names import is_misread
from odfbuild.sql.analysis.keys.keyed import QueryParts
from odfbuild.sql.analysis.windows import has_sessions
from odfbuild.sql.datafusion.extremes import ordered_extremes
from odfbuild.sql.datafusion.json_calls import has_json_calls
from odfbuild.sql.text.as_of_joins import tables_of
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import DATAFUSION, QueryStep, is_of_spark

_REVISION = re.compile(r"\+odfbuild\.(\d+)")
_MENDED, _SESSIONS_MENDED, _JSON_MENDED = 2, 5, 6


class RevisionFault(Enum):
    """The fault of an earlier revision in the rows of a query."""

    COLUMNS = "confused columns of its query"
    VERSIONS = "used versions of its tables that had been corrected"
    SESSIONS = "left out rows of sessions beyond the watermark, or beyond a condition"
    EXTREMES = "computed min and max of groups by the order of rows where one was NaN"
    JSON = "took the last of equal keys in JSON, and null from a text that is damaged further on"


def affected(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None], version: str | None
) -> RevisionFault | None:
    """Return why steps of a query may have produced other rows than a full run; None if not.

    `inputs` are the columns of the inputs as far as they are known, `version` is that of the
    engine that is recorded with the query, None if none is.
    """
    revision = _REVISION.search(version or "")
    number = 0 if revision is None else int(revision[1])
    if number < _SESSIONS_MENDED and is_of_spark(steps) and _any_sessions(steps):
        return RevisionFault.SESSIONS
    if not is_of_spark(steps):
        return _in_datafusion([step.text for step in steps if step.engine == DATAFUSION], number)
    if number >= _MENDED:
        return None
    try:
        shapes = [(step.alias, step.statement.shape) for step in steps]
        versioned = {table for step in steps for table in tables_of(step.statement)}
    except SqlTextError:
        return None
    if not shapes:
        return None
    named = {name: shape for name, shape in shapes if name is not None}
    if versioned - named.keys():
        return RevisionFault.VERSIONS
    parts = QueryParts(named, inputs, dict(steps[0].temporal))
    part = parts.query(shapes[-1][1])
    if part.name == "linear":
        return None
    misread = part.group is not None and (
        is_misread(part.group) or loses_zeros(part.group, shapes, inputs)
    )
    return RevisionFault.COLUMNS if misread or parts.asked & parts.redefined else None


def _in_datafusion(texts: Sequence[str], number: int) -> RevisionFault | None:
    """Return the fault of a revision in the rows of a query for DataFusion."""
    try:
        if number < _MENDED and any(ordered_extremes(text) != text for text in texts):
            return RevisionFault.EXTREMES
        if number < _JSON_MENDED and any(map(has_json_calls, texts)):
            return RevisionFault.JSON
    except SqlTextError:  # of a chain from elsewhere, whose query nobody here can run
        return None
    return None


def _any_sessions(steps: Sequence[QueryStep]) -> bool:
    try:
        return any(
            "session" in each.text.lower() and has_sessions(each.statement) for each in steps
        )
    except SqlTextError:
        return False
