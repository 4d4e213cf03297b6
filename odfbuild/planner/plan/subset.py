"""Parts of a plan: the selected datasets, the remaining ones, those that still fit.  Pure.

Steps are dropped, never added or changed in what they do: `apply c` works on c alone.

As with a selection, steps are dropped and never changed in what they do.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import Diagnostic, PlanError
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, BaseHead, Move, Plan, Planned, Pull, Step, Transform
from odfbuild.planner.plan.changes import Hit, Judgement, Verdict
from odfbuild.planner.plan.places import places_of
from odfbuild.planner.plan.reasons import InputMayAdvance, Reason


def touched(plan: Plan) -> Plan:
    """Return a plan without the datasets that it neither changes, nor runs, nor reads."""
    names = _names(plan)
    wanted = {step.target for step in plan.steps}
    wanted |= {names[ref] for step in plan.steps for ref in reads_of(step) if ref in names}
    wanted |= {alias for alias, each in plan.datasets.items() if each.assessment is not None}
    return _only_datasets(plan, wanted)


def remaining(plan: Plan, done: Collection[str], now: Mapping[DatasetAlias, BaseHead]) -> Plan:
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
    return _only_datasets(replace(plan, steps=steps), plan.datasets.keys() - unfit)


def reads_of(step: Step) -> Iterator[DatasetAlias | DatasetId]:
    """Yield the datasets that a step reads, as it names them."""
    if isinstance(step.work, Transform):
        yield from step.work.inputs
    elif isinstance(step.work, Append):
        for event in step.work.events:
            if isinstance(event, SetTransform):
                yield from (each.dataset_ref for each in event.inputs)


def names_of(plan: Plan) -> tuple[set[DatasetAlias], set[DatasetAlias]]:
    """Return the names of the datasets that a plan changes, and of those that it only reads."""
    names = _names(plan)
    written = {step.target for step in plan.steps}
    written |= {step.work.old for step in plan.steps if isinstance(step.work, Move)}
    read = {names.get(ref, ref) for step in plan.steps for ref in reads_of(step)}
    return written, {each for each in read if isinstance(each, DatasetAlias)} - written


def _names(plan: Plan) -> Mapping[DatasetAlias | DatasetId, DatasetAlias]:
    found: dict[DatasetAlias | DatasetId, DatasetAlias] = {each: each for each in plan.datasets}
    based = ((alias, each.based_on) for alias, each in plan.datasets.items())
    found.update({at.id: alias for alias, at in based if at is not None})
    found.update({s.work.id: s.target for s in plan.steps if isinstance(s.work, Pull)})
    return found


def _only_datasets(plan: Plan, wanted: Collection[DatasetAlias]) -> Plan:
    datasets = {alias: each for alias, each in plan.datasets.items() if alias in wanted}
    if len(datasets) == len(plan.datasets):
        return plan
    return replace(
        plan,
        datasets=datasets,
        unchanged=tuple(alias for alias in plan.unchanged if alias in datasets),
        selected=tuple(datasets),
    )


class UnchosenInputError(PlanError):
    """A selected dataset reads others that are neither selected nor created yet."""

    code = "unchosen-input"

    def __init__(self, found: Sequence[Diagnostic]) -> None:
        first = found[0]
        super().__init__(first.what, first.why, first.fix, first.span)
        self.found = tuple(found)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.found


def restrict(plan: Plan, chosen: Collection[DatasetAlias]) -> Plan:
    """Return the part of a plan that is about the chosen datasets.

    Choosing every declared dataset is not choosing: the plan comes back as it is.  Inputs that are
    datasets of repositories have no definition to choose and come with what reads them.  What
    waited for a step that is gone no longer does, and a reason that rested on one is gone, with the
    step if it had no other.  The gate's verdict counts the chosen datasets only.  Raises
    UnchosenInputError with every dataset that would have to be created first.
    """
    wanted = frozenset(chosen)
    if all(alias in wanted for alias, each in plan.datasets.items() if each.place is not None):
        return plan
    wanted |= frozenset(_remote_inputs(plan, wanted))
    _refuse_missing(plan, wanted)
    steps = tuple(_remaining_steps(plan.steps, wanted))
    touched = {step.target for step in steps}
    datasets = {alias: each for alias, each in plan.datasets.items() if alias in wanted}
    return replace(
        plan,
        datasets=datasets,
        steps=steps,
        unchanged=tuple(alias for alias in datasets if alias not in touched),
        verdict=_verdict(plan.verdict, datasets),
        selected=tuple(datasets),
        places=places_of(plan.places, touched),
    )


def _remote_inputs(plan: Plan, wanted: Collection[DatasetAlias]) -> Iterator[DatasetAlias]:
    names = _names(plan)
    for step in plan.steps:
        for ref in reads_of(step) if step.target in wanted else ():
            alias = names.get(ref)
            if alias is not None and plan.datasets[alias].origin is not None:
                yield alias


def _remaining_steps(steps: Sequence[Step], wanted: Collection[DatasetAlias]) -> Iterator[Step]:
    """Yield the steps that are left; they come in an order in which inputs come first."""
    kept: set[str] = set()
    moving: set[DatasetAlias] = set()
    for step in steps:
        if step.target not in wanted:
            continue
        reasons = tuple(each for each in step.reasons if _holds(each, moving))
        if not reasons:
            continue
        kept.add(step.id)
        if not isinstance(step.work, Append | Move):
            moving.add(step.target)
        yield replace(
            step, reasons=reasons, after=tuple(each for each in step.after if each in kept)
        )


def _holds(reason: Reason, moving: Collection[DatasetAlias]) -> bool:
    return not isinstance(reason, InputMayAdvance) or reason.dataset in moving


def _refuse_missing(plan: Plan, wanted: Collection[DatasetAlias]) -> None:
    found = [
        _missing(plan, step.target, missing)
        for step in plan.steps
        if step.target in wanted and isinstance(step.work, Append)
        if (missing := [each for each in _not_yet(plan, step.work) if each not in wanted])
    ]
    if found:
        raise UnchosenInputError(found)


def _not_yet(plan: Plan, work: Append) -> Iterator[DatasetAlias]:
    """Yield the inputs that events name and that the plan has to create first."""
    for event in work.events:
        if isinstance(event, SetTransform):
            for each in event.inputs:
                ref = each.dataset_ref
                known = plan.datasets.get(ref) if isinstance(ref, DatasetAlias) else None
                if isinstance(ref, DatasetAlias) and known is not None and known.based_on is None:
                    yield ref


def _missing(plan: Plan, reader: DatasetAlias, missing: Sequence[DatasetAlias]) -> Diagnostic:
    names = ", ".join(map(str, missing))
    are = "is" if len(missing) == 1 else "are"
    return Diagnostic(
        code=UnchosenInputError.code,
        what=f"{reader} reads {names}, which {are} not created yet and not selected",
        why='a transform names its inputs by their ids (ODF 0.34.1, "SetTransform")',
        fix=f"select what feeds it, too: +{reader}",
        span=plan.datasets[reader].place,
    )


def _verdict(whole: Verdict, datasets: Mapping[DatasetAlias, Planned]) -> Verdict:
    hits = [
        hit
        for each in datasets.values()
        if each.assessment is not None
        for hit in each.assessment.hits
    ]
    return Verdict(
        whole.gate,
        refused=_count(hits, Judgement.REFUSED, Judgement.EXPIRED),
        warned=_count(hits, Judgement.WARNED),
        accepted=_count(hits, Judgement.ACCEPTED),
    )


def _count(hits: Sequence[Hit], *judged: Judgement) -> int:
    return sum(hit.judged in judged for hit in hits)
