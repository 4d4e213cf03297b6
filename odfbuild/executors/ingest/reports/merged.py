"""Findings on the rows that a merge made of an input: what a report needs of the input for."""

from typing import TYPE_CHECKING

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.cut_times import column_sources
from odfbuild.executors.ingest.reports.event_times import TimelessRows
from odfbuild.executors.ingest.reports.recorded_keys import LeftOut, left_out
from odfbuild.executors.ingest.reports.repeated_keys import repeated_key
from odfbuild.odf.events import MergeStrategy, Transform
from odfbuild.odf.merge_strategies import key_of, skips_keys
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFindings:
    """What is reported of an input that was merged.

    `columns` are those of the input as it was read, `gives_time` tells whether one of them gives
    the event time.  `repeated` is the first key that the input has several times, in words,
    `left_out` the rows that were left out as their keys are recorded, `timeless_row` the number of
    the first row of the input without an event time, where all such rows are added.
    """

    columns: tuple[str, ...]
    gives_time: bool
    repeated: str | None = None
    left_out: LeftOut | None = None
    timeless_row: int | None = None


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Rows that a merge made of an input, and what was found of them."""

    rows: Frame
    findings: MergeFindings


def found_of(
    read: Frame,
    merged: Frame,
    *,
    merge: MergeStrategy,
    preprocess: Transform | None,
    event_time: str,
    name: str,
) -> MergedRows:
    """Return merged rows with what is found of them.

    `read` are the rows of the input as they were read, `event_time` is the column of that name,
    `name` that of the input.
    """
    as_read = read if preprocess is None else None
    gives_time = _gives(preprocess, event_time, read.schema)
    timeless = TimelessRows.among(merged, event_time) if gives_time else None
    findings = MergeFindings(
        columns=tuple(read.schema.names),
        gives_time=gives_time,
        repeated=repeated_key(merge, merged, as_read, name),
        left_out=_left_out(read, merged, merge, preprocess),
        timeless_row=None if timeless is None else timeless.number_in(as_read),
    )
    return MergedRows(merged, findings)


def _left_out(
    read: Frame, merged: Frame, merge: MergeStrategy, preprocess: Transform | None
) -> LeftOut | None:
    if not skips_keys(merge):
        return None
    if preprocess is not None and (merged.offered or merged.left_out) is None:
        return None
    return left_out(merged.offered or read, merged, key_of(merge))


def _gives(preprocess: Transform | None, column: str, read: "pa.Schema") -> bool:
    """Tell whether a source gives a column, which rows may have of the history as well."""
    if preprocess is None:
        return column in read.names
    made = column_sources(preprocess, read)
    return made is None or column in made
