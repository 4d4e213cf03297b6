"""Findings of the gate on readers whose undeclared inputs changed since they last read them.

A plan judges that; commands that plan nothing warn of it, and an apply that lets it pass remembers
that it was accepted.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level, OdfBuildError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan, Pull
from odfbuild.planner.plan.at_rest import examined
from odfbuild.planner.plan.changes import Hit, Judgement
from odfbuild.project.opened import Opened
from odfbuild.state.memory.accepted_inputs import accepted_inputs, note_accepted

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState

_REFUSED = (Judgement.REFUSED, Judgement.EXPIRED)
_STANDS = (*_REFUSED, Judgement.WARNED)


def changed_inputs(
    project: Opened,
    current: Mapping[DatasetAlias, "ChainState"],
    among: Collection[DatasetId] | None = None,
) -> Mapping[DatasetAlias, tuple[Diagnostic, ...]]:
    """Return warnings, by reader: findings of changes that some inputs, by default all, brought.

    `current` are the states of all datasets, read just now.  No repository is asked.  Of a project
    that cannot be planned nothing is said.
    """
    heads = {each.dataset: each.head for each in current.values()}
    if not any(_has_more_to_take(project, each, heads) for each in current.values()):
        return {}
    from odfbuild.app.load_project import load
    from odfbuild.app.plan.input_history import taken_inputs
    from odfbuild.app.plan.make_plan import PlanRequest, plan_result

    try:
        declared = load(project, partly=True).declared
        taken = taken_inputs(project.workspace, declared, current)
        wanted = [
            reader for reader, inputs in taken.items() if among is None or set(among) & set(inputs)
        ]
        if not wanted:
            return {}
        asked = PlanRequest(metadata_only=True, refresh=False, repositories="offline")
        plan = plan_result(project, asked).plan
    except OdfBuildError:
        return {}
    found = {reader: tuple(_diagnostics(plan, reader, _STANDS, Level.WARNING)) for reader in wanted}
    return {reader: each for reader, each in found.items() if each}


def refused_changes(plan: Plan, reader: DatasetAlias) -> Iterator[Diagnostic]:
    """Yield what the gate refuses of the changes of a reader's inputs; the reader is not named."""
    return _diagnostics(plan, reader, _REFUSED, Level.ERROR)


def remember_accepted(project: Opened, plan: Plan) -> None:
    """Remember of the readers in a plan that passed that the changes of their inputs were accepted.

    To be called before its steps are done.
    """
    judged = [alias for alias in examined(plan.datasets) if _is_accepted(plan, alias)]
    if not judged or not plan.verdict.passed:
        return
    workspace = project.workspace
    heads: dict[DatasetId, Multihash] = dict(workspace.heads())
    for step in plan.steps:
        if isinstance(step.work, Pull) and step.work.head is not None:
            heads[step.work.id] = step.work.head
    for alias in judged:
        reader = workspace.open(alias)
        state = None if reader is None else reader.state()
        if state is not None:
            known = {id: heads[id] for id in state.progress if id in heads}
            before = accepted_inputs(workspace, state.dataset)
            note_accepted(workspace, state.dataset, {**before, **known})


def _has_more_to_take(
    project: Opened, reader: "ChainState", heads: Mapping[DatasetId, Multihash]
) -> bool:
    """Say whether a dataset has not taken all of one that was not made here."""
    return any(
        (read.new_block_hash or read.prev_block_hash) not in (None, heads.get(input))
        and not project.workspace.keys.has(input)
        for input, read in reader.progress.items()
    )


def _hits(plan: Plan, alias: DatasetAlias) -> tuple[Hit, ...]:
    from odfbuild.planner.evolution.rules.upstream import PASSED_ON

    planned = examined(plan.datasets).get(alias)
    assessed = None if planned is None else planned.assessment
    hits = () if assessed is None else assessed.hits
    return tuple(each for each in hits if each.code in PASSED_ON)


def _is_accepted(plan: Plan, alias: DatasetAlias) -> bool:
    return any(each.judged in (Judgement.ACCEPTED, Judgement.WARNED) for each in _hits(plan, alias))


def _diagnostics(
    plan: Plan, reader: DatasetAlias, judged: Collection[Judgement], level: Level
) -> Iterator[Diagnostic]:
    for each in _hits(plan, reader):
        if each.judged in judged:
            yield Diagnostic(
                code=each.code,
                what=each.message if level is Level.ERROR else f"{reader}: {each.message}",
                why=each.why,
                fix="; ".join(each.ways),
                span=each.span,
                level=level,
            )
