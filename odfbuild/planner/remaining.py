"""Parts of a plan: what a run of it looks at, what is left of it, what of it still fits.  Pure.

As with a selection, steps are dropped and never changed in what they do.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Based, Move, Plan, Step, Transform

__all__ = ["fitting", "reads_of", "remaining", "touched"]


def touched(plan: Plan) -> Plan:
    """Return a plan without the datasets that it neither changes, nor runs, nor reads."""
    names = _names(plan)
    wanted = {step.target for step in plan.steps}
    wanted |= {names[ref] for step in plan.steps for ref in reads_of(step) if ref in names}
    wanted |= {alias for alias, each in plan.datasets.items() if each.assessment is not None}
    return _only(plan, wanted)


def remaining(plan: Plan, done: Collection[str], now: Mapping[DatasetAlias, Based]) -> Plan:
    """Return the plan without the steps that are done, made against where datasets are now.

    `now` has every dataset that there is, by the name that it has now.
    """
    renamed = {s.target for s in plan.steps if s.id in done and isinstance(s.work, Move)}
    datasets = {
        alias: replace(
            each,
            based_on=now.get(alias if alias in renamed else each.moved_from or alias),
            moved_from=None if alias in renamed else each.moved_from,
        )
        for alias, each in plan.datasets.items()
    }
    steps = tuple(
        replace(step, after=tuple(each for each in step.after if each not in done))
        for step in plan.steps
        if step.id not in done
    )
    left = {step.target for step in steps}
    unchanged = tuple(alias for alias in plan.datasets if alias not in left)
    return replace(plan, datasets=datasets, steps=steps, unchanged=unchanged)


def fitting(plan: Plan, stale: Collection[DatasetAlias]) -> Plan:
    """Return what of a plan does not touch datasets that moved since, nor depends on them."""
    names = _names(plan)
    unfit = set(stale)
    dropped: set[str] = set()
    before: set[DatasetAlias] | None = None
    while before != unfit:  # steps of one dataset need not stand together
        before = set(unfit)
        for step in plan.steps:
            reads = {names[ref] for ref in reads_of(step) if ref in names}
            if step.target in unfit or not unfit.isdisjoint(reads) or dropped & {*step.after}:
                unfit.add(step.target)
                dropped.add(step.id)
    if not unfit:
        return plan
    steps = tuple(step for step in plan.steps if step.id not in dropped)
    return _only(replace(plan, steps=steps), plan.datasets.keys() - unfit)


def reads_of(step: Step) -> Iterator[DatasetAlias | DatasetId]:
    """Yield the datasets that a step reads, as it names them."""
    if isinstance(step.work, Transform):
        yield from step.work.inputs
    elif isinstance(step.work, Append):
        for event in step.work.events:
            if isinstance(event, SetTransform):
                yield from (each.dataset_ref for each in event.inputs)


def _names(plan: Plan) -> Mapping[DatasetAlias | DatasetId, DatasetAlias]:
    found: dict[DatasetAlias | DatasetId, DatasetAlias] = {each: each for each in plan.datasets}
    based = ((alias, each.based_on) for alias, each in plan.datasets.items())
    found.update({at.id: alias for alias, at in based if at is not None})
    return found


def _only(plan: Plan, wanted: Collection[DatasetAlias]) -> Plan:
    datasets = {alias: each for alias, each in plan.datasets.items() if alias in wanted}
    if len(datasets) == len(plan.datasets):
        return plan
    return replace(
        plan,
        datasets=datasets,
        unchanged=tuple(alias for alias in plan.unchanged if alias in datasets),
        selected=tuple(datasets),
    )
