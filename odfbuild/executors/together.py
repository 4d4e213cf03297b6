"""Whether the files of a source may go through the engine together, and which do.

Thousands of small files would be thousands of small jobs.  Where each row of a file is handled for
itself, one job for many files gives what one job for each would: a preprocess query that works row
by row, and a merge that compares with nothing, or with keys alone.  Each file still is a commit of
its own, in its own order.
"""

from collections.abc import Sequence
from typing import Final

from odfbuild.executors.frames import Frame
from odfbuild.odf.events import (
    FetchStepFilesGlob,
    MergeStrategyAppend,
    MergeStrategyLedger,
    SetPollingSource,
    Transform,
)

__all__ = ["MOST_BYTES", "MOST_FILES", "goes_together", "has_room", "may_follow"]

MOST_FILES: Final = 256
MOST_BYTES: Final = 16 << 20
"""How much one job takes, in files and in bytes of rows in memory."""


def goes_together(source: SetPollingSource) -> bool:
    """Tell whether several files of a source may be taken in by one job."""
    return (
        isinstance(source.fetch, FetchStepFilesGlob)
        and isinstance(source.merge, MergeStrategyAppend | MergeStrategyLedger)
        and _is_by_row(source.preprocess)
    )


def has_room(frames: Sequence[Frame], size: int) -> bool:
    """Tell whether a file of so many bytes is worth reading, to follow those before it.

    What was read and then does not fit is read again in its own turn.
    """
    tables = [frame.table for frame in frames if frame.table is not None]
    if len(tables) < len(frames) or len(frames) >= MOST_FILES:
        return False
    held: int = sum(table.nbytes for table in tables)
    return held + size < MOST_BYTES


def may_follow(frames: Sequence[Frame], following: Frame) -> bool:
    """Tell whether a file's rows fit beside those of the files before it."""
    tables = [frame.table for frame in (*frames, following)]
    if any(table is None for table in tables):
        return False
    if sum(table.nbytes for table in tables if table is not None) > MOST_BYTES:
        return False
    return all(frame.schema.equals(following.schema) for frame in frames[:1])


def _is_by_row(preprocess: Transform | None) -> bool:
    if preprocess is None:
        return True
    from odfbuild.planner.queries import PREPROCESS_INPUT
    from odfbuild.planner.sql.query import examine, steps_of

    facts = examine(steps_of(preprocess), [PREPROCESS_INPUT])
    return not facts.findings and not facts.ordered
