"""Engines that queries can be written for: the only list of their names."""

from collections.abc import Mapping
from typing import Final

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """An engine: its module, the package that it runs on, and the revision of what is around it.

    The module is below `executors/engine` and has `open_engine(project)`.  The revision grows with
    every change of a pinned setting, of a class of queries or of row order.  One that starts at
    once is asked about every new query, the others where that is wanted.
    """

    module: str
    distribution: str
    revision: int
    starts_at_once: bool = False


DEFAULT_ENGINE: Final = "spark"
"""The engine of questions, and of merges where the project does not say otherwise."""

MERGERS: Final = (DEFAULT_ENGINE, "arrow", "auto")
"""What a project may say of merges; `auto` is `arrow`, unless a query of the run needs Spark."""

ENGINES: Final[Mapping[str, RegisteredEngine]] = {
    "spark": RegisteredEngine("spark.engine", distribution="pyspark", revision=5),
    "datafusion": RegisteredEngine(
        "datafusion.engine", distribution="datafusion", revision=6, starts_at_once=True
    ),
}
