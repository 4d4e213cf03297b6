"""What the steps of a plan may bring, as each chain's own last slices say."""

from contextlib import suppress
from dataclasses import replace

from odfbuild.errors import OdfBuildError
from odfbuild.odf.events import AddData, DataSlice, ExecuteTransform
from odfbuild.planner.plan import Append, Foreseen, Move, Plan
from odfbuild.state.block_refs import back
from odfbuild.state.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["with_foreseen"]

_SLICES = 10
_BLOCKS = 100  # a chain of definitions only is not searched to its start


def with_foreseen(plan: Plan, workspace: Workspace) -> Plan:
    """Return the plan with the mean rows and bytes of the last slices of what will run.

    Datasets whose source has only to be asked are left out: most of those bring nothing.
    """
    checks = plan.checks
    found = {}
    for step in plan.steps:
        if isinstance(step.work, Append | Move) or step.id in checks:
            continue
        based = plan.datasets[step.target].based_on
        if based is not None:
            with suppress(OdfBuildError, OSError):  # of a damaged chain, its step says so
                found[step.target] = _foreseen(workspace.dataset(based.id))
    datasets = {
        alias: replace(planned, foreseen=found[alias]) if alias in found else planned
        for alias, planned in plan.datasets.items()
    }
    return replace(plan, datasets=datasets) if found else plan


def _foreseen(dataset: Dataset) -> Foreseen | None:
    head = dataset.head()
    if head is None:
        return None
    slices: list[DataSlice] = []
    for number, (_, block) in enumerate(back(dataset, head)):
        if number == _BLOCKS or len(slices) == _SLICES:
            break
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data:
            slices.append(block.event.new_data)
    if not slices:
        return None
    rows = sum(each.offset_interval.end - each.offset_interval.start + 1 for each in slices)
    size = sum(each.size for each in slices)
    return Foreseen(len(slices), rows // len(slices), size // len(slices))
