"""Make anew what was stranded by a rebuild: dataset after dataset, each before its readers."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from graphlib import TopologicalSorter

from odfbuild import app
from odfbuild.app.diverged import rewritten_inputs
from odfbuild.app.housekeeping import Prepared, Rebuild, prepare
from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.housekeeping import readers

__all__ = ["rebuild_readers"]


def rebuild_readers(project: app.Opened, dataset: DatasetId, do: Callable[..., int]) -> None:
    """Rebuild what is made of a dataset and cannot go on; `do` carries out one rebuild.

    The error of the first that fails ends it, after it was said what is left to be done.
    """
    states = project.workspace.states()
    left = list(_ordered(states, readers(dataset, states)))
    while left:
        each = left[0]
        states = project.workspace.states()
        if each in rewritten_inputs(project.workspace, states):
            prepared = prepare(project, str(each), Rebuild())
            if prepared is not None:
                _do(project, prepared, left, do)
        left.pop(0)


def _do(
    project: app.Opened, prepared: Prepared, left: list[DatasetAlias], do: Callable[..., int]
) -> None:
    try:
        do(project, prepared, as_json=False)
    except OdfBuildError:
        names = ", ".join(map(str, left))
        sys.stderr.write(
            f"Not made anew: {names}. Once it can be: odfbuild rebuild {left[0]} --downstream\n"
        )
        raise


def _ordered(
    states: Mapping[DatasetAlias, ChainState], wanted: Collection[DatasetAlias]
) -> Iterator[DatasetAlias]:
    """Yield datasets, each after those of them that it is made of."""
    by_id = {states[each].dataset: each for each in wanted if each in states}
    graph = {
        each: [by_id[id] for id in states[each].progress if id in by_id] for each in by_id.values()
    }
    yield from TopologicalSorter(graph).static_order()
