"""The query of a step on rows that are chosen for it, however it is computed otherwise."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from odfbuild.executors.spark.quick import Quick
from odfbuild.executors.touched import Inputs

__all__ = ["Chosen"]


class Chosen(Quick):
    """A query, and the rows that it runs over: never more than fit into memory."""

    __slots__ = ()

    def results(self, many: Sequence[Inputs]) -> tuple[pa.Table, ...]:
        """Return what the query gives of each selection of rows."""
        return tuple(replace(self, given=each)._run(each) for each in many)
