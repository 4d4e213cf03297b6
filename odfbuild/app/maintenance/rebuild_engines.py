"""Engines of rebuilds: those here, and where the steps of a project are carried out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetPollingSource, SetTransform, TransformSql
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.diff.query_change import upgraded
from odfbuild.planner.plan.places import EnginePlace, united
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


def version_upgrade(state: ChainState) -> SetTransform | None:
    """Return the event that records the installed version of the engine; None if it is recorded."""
    known = state.transform
    if known is None or is_opaque(known.transform):
        return None
    installed = engine_version(known.transform.engine)
    return None if installed is None else upgraded(state, installed)


@contextmanager
def rebuild_engines(project: Opened, places: Sequence[EnginePlace]) -> Iterator[RebuildEngines]:
    """Give the engines of rebuilds, each of which starts when it is needed.

    `places` are those that were worked out for them, whatever the definitions say by now.  Raises
    NotPermittedError of one that may not be used.
    """
    from odfbuild.executors.engine.contract.job.steps import placement_of_plan
    from odfbuild.executors.engine.registry import engine_of

    order = tuple(project.config.engines)
    placed = sorted(united(places), key=lambda each: order.index(each.engine))
    placement = placement_of_plan(project, placed) if placed else None
    with engine_of(project) as engine:
        yield RebuildEngines(engine, placement)
