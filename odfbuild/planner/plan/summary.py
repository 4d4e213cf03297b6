"""Summary of a plan: the action of each dataset, its steps, and their number.  Pure."""

from collections.abc import Sequence

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Ingest, Move, Plan, Planned, Pull, Step, Transform


def action_of(planned: Planned, steps: Sequence[Step]) -> str:
    """Say in one word what happens to a dataset."""
    works = [step.work for step in steps]
    if any(isinstance(work, Append) and work.creates is not None for work in works):
        return "create"
    if planned.is_retired:
        return "retire"
    if any(isinstance(work, Append) for work in works):
        return "change"
    if any(isinstance(work, Move) for work in works):
        return "move"
    return "run" if works else "none"


def steps_by_target(plan: Plan) -> dict[DatasetAlias, list[Step]]:
    """Return the steps of each dataset that has some, in their order."""
    grouped: dict[DatasetAlias, list[Step]] = {}
    for step in plan.steps:
        grouped.setdefault(step.target, []).append(step)
    return grouped


def summary_of(plan: Plan) -> dict[str, int]:
    """Count what the plan does, by action of the datasets and by work of the steps."""
    works = [step.work for step in plan.steps]
    pulled = sum(isinstance(work, Pull) for work in works)
    created = sum(isinstance(work, Append) and work.creates is not None for work in works)
    return {
        "create": created,
        "change": sum(isinstance(work, Append) for work in works) - created,
        "move": sum(isinstance(work, Move) for work in works),
        "retire": sum(each.is_retired for each in plan.datasets.values()),
        "ingest": sum(isinstance(work, Ingest) for work in works),
        "transform": sum(isinstance(work, Transform) for work in works),
        "unchanged": len(plan.unchanged),
        **({"pull": pulled} if pulled else {}),
    }
