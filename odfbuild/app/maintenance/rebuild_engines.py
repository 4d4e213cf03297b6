"""Engines of rebuilds: those here, and where the steps of a project are carried out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odfbuild.odf.events import SetPollingSource, SetTransform, TransformSql
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job.steps import Placement
    from odfbuild.executors.engine.registry import EnginesByName


@dataclass(frozen=True, slots=True)
class RebuildEngines:
    """What makes the rows of rebuilds; `placement` says what is done elsewhere, None if nothing."""

    engine: "EnginesByName"
    placement: "Placement | None"

    def prepare(
        self,
        alias: DatasetAlias,
        transform: SetTransform | None,
        source: SetPollingSource | None = None,
    ) -> None:
        """Start what the rebuild of a dataset needs, which is nothing if it is done elsewhere.

        `source` is that of a root.
        """
        query = None if transform is None else transform.transform
        placed = (
            self.placement is not None
            and isinstance(query, TransformSql)
            and self.placement.takes(alias, query)
        )
        if self.placement is not None and query is None and source is not None:
            placed = self.placement.takes_source(alias, source)
        if not placed:
            self.engine.prepare()


@contextmanager
def rebuild_engines(project: Opened) -> Iterator[RebuildEngines]:
    """Give the engines of rebuilds, each of which starts when it is needed.

    Raises NotPermittedError of one that may not be used.
    """
    from odfbuild.app.plan.step_placement import step_placement
    from odfbuild.executors.engine.registry import engine_of

    placement = step_placement(project)
    with engine_of(project) as engine:
        yield RebuildEngines(engine, placement)
