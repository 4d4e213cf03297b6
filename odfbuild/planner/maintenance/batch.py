"""Resets, compactions or rebuilds as one plan: their order, and who is left behind.  Pure."""

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from odfbuild.errors import PlanError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.maintenance.rewrite import REBUILD, Housekeeping, Stranded
from odfbuild.values import dataclass


class CircularOrderError(PlanError):
    """New definitions and present chains together form a cycle."""

    code = "dependency-cycle"

    def __init__(self, circle: Sequence[DatasetAlias]) -> None:
        super().__init__(
            what=f"these read each other: {', '.join(map(str, circle))}",
            why="the definition of one turns round what the chain of another read",
            fix="retire or rename one of them first, or publish it under another name",
        )


@dataclass(frozen=True, slots=True)
class HousekeepingPlan:
    """At least one step of the same project and target, in the order in which they are done.

    `alone` is that of one dataset which was named: it is saved and printed in a form of its own.
    """

    steps: tuple[Housekeeping, ...]
    alone: bool = False

    @property
    def project(self) -> str:
        return self.steps[0].project

    @property
    def target(self) -> str:
        return self.steps[0].target

    @property
    def workspace(self) -> str:
        return self.steps[0].workspace

    @property
    def stranded(self) -> tuple[Stranded, ...]:
        """Return the datasets that cannot go on after it, and are not rebuilt by it, by name."""
        rebuilt = {step.alias for step in self.steps if step.work == REBUILD}
        found = {each.dataset: each for step in self.steps for each in step.stranded}
        return tuple(found[alias] for alias in sorted(found.keys() - rebuilt))


def in_order(
    states: Mapping[DatasetAlias, ChainState],
    planned: Mapping[DatasetAlias, Collection[DatasetAlias]],
) -> tuple[DatasetAlias, ...]:
    """Return all datasets, each after those that it read or is `planned` to read, then by name.

    Raises CircularOrderError.
    """
    by_id = {state.dataset: alias for alias, state in states.items()}
    graph = {
        alias: sorted(
            {by_id[id] for id in states[alias].progress if id in by_id}
            | {each for each in planned.get(alias, ()) if each in states}
        )
        for alias in sorted(states)
    }
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise CircularOrderError(error.args[1]) from None
