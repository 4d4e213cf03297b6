"""What a watermark that moves can bring without new rows: windows that close, rows with versions.

Rows wait for the watermark in event-time windows, and where they meet the versions of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odfbuild.planner.sql.temporal import as_of_joins
from odfbuild.planner.sql.windows import has_windows, longest_window

if TYPE_CHECKING:
    from odfbuild.planner.sql.query import QueryStep

__all__ = ["longest_wait", "waits"]


def waits(steps: Sequence[QueryStep]) -> bool:
    """Tell whether rows of a query wait for the watermark.  Raises SqlTextError."""
    return any(has_windows(step.text) or as_of_joins(step.text) for step in steps)


def longest_wait(texts: Sequence[str]) -> int | None:
    """Return how far behind its own time a row may be waited for, in milliseconds.

    None if windows are as long as an expression says.  Raises SqlTextError.
    """
    lengths = [longest_window(text) if has_windows(text) else 0 for text in texts]
    known = [length for length in lengths if length is not None]
    return max(known, default=0) if len(known) == len(lengths) else None
