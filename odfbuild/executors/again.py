"""What an engine does to tell where a row came from: a step, or its query, again on chosen rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from odfbuild.executors.engine import TransformWork
from odfbuild.executors.frames import Frame

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.executors.touched import Inputs

__all__ = ["POSITION_SHIFT", "Again"]

POSITION_SHIFT = 48  # the number of an input is above it in a position, the offset below


class Again(Protocol):
    """An engine as far as it runs something again.

    Raises InvalidQueryError for what a query does with the rows, EngineFailedError for all else.
    """

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with the position of what each was made of last.

        A position is the number of the input, then the offset of its row.
        """

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "Sequence[pa.Table]":
        """Return what the query of a step gives of each of several selections of rows.

        Rows are in no order; watermark and columns are those of the step.
        """
