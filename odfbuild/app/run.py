"""Runs without planning: sources and derivatives by the definitions that are in force."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from odfbuild.app.load_project import known_names, load, wrong_of
from odfbuild.app.outside_use import disabled_notes, disabled_sources
from odfbuild.app.plan.cache import at_rest, engines
from odfbuild.app.plan.changed_inputs import refused_changes
from odfbuild.app.plan.file_snapshot import ProjectFiles, read_at_once
from odfbuild.app.plan.input_history import rewritten_inputs, taken_inputs
from odfbuild.app.plan.late_files import files_notes, reread_files
from odfbuild.app.plan.remote_inputs import (
    as_they_are,
    barred_readers,
    look_up_inputs,
    without_inputs,
)
from odfbuild.app.plan.sources import Files, look, with_foreseen
from odfbuild.errors import OdfBuildError, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff.chain_definitions import as_in_force
from odfbuild.planner.exclusion import LeftOut, Wrong, plannable
from odfbuild.planner.make_plan import GateTerms, PlanTerms, make_plan, project_hash
from odfbuild.planner.plan import Append, Plan
from odfbuild.planner.plan.policy import Policy
from odfbuild.planner.plan.remote_inputs import NONE_REMOTE, LookMode, RemoteInput, RemoteStates
from odfbuild.project.opened import Opened
from odfbuild.state.partial_inputs import chains_in_part
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Data:
    """A plan that only runs data, and the declared datasets whose definitions wait for an apply.

    `pending` go on by what is in force, under the name that they have; `missing` are not made yet;
    `left_out` says why others are not planned.  `files` are those of the project.
    """

    plan: Plan
    declared: tuple[Declared, ...]
    pending: tuple[DatasetAlias, ...]
    missing: tuple[DatasetAlias, ...]
    files: ProjectFiles
    left_out: LeftOut = field(default_factory=dict)


def data_plan(project: Opened, repositories: LookMode = "look") -> Data:
    """Plan what sources and inputs have brought, for the declared datasets that there are.

    `repositories` says whether those are asked for inputs that are datasets of them.  What a change
    of an input breaks is left out, as the gate refuses it to an apply.  Raises ProjectErrors with
    all that is wrong with the project, and ProjectChangedError.
    """
    with read_at_once(project) as files:
        return _data_plan(project, files, repositories)


def _data_plan(project: Opened, files: ProjectFiles, repositories: LookMode) -> Data:
    heads = project.workspace.heads()
    current = project.workspace.states(heads=heads)
    loaded = load(project, known_names(project, current), partly=True)
    wrong = wrong_of(project, loaded, heads)
    inputs = list(_remote_inputs(loaded.declared, current))
    remote: RemoteStates = NONE_REMOTE
    if inputs:
        looked = look_up_inputs(project, loaded, current, repositories, among=inputs)
        remote = looked.remote
        if unreadable := barred_readers(loaded, looked):
            names = {**wrong.names, **{alias: state.dataset for alias, state in current.items()}}
            wrong = replace(wrong, names=names, refused={**wrong.refused, **unreadable})
            current = without_inputs(loaded, looked, current)
    current = {**current, **{alias: each.state for alias, each in remote.items()}}
    rest = plannable(loaded.declared, current, wrong)
    loaded, current = replace(loaded, declared=rest.declared), rest.current
    moved = {each.new: each.old for each in project.policy.moved}
    found = as_in_force(loaded.declared, current, moved, engines(project.config))
    known = {each.alias: current[each.alias] for each in found.declared}
    seen = Files()
    barred: dict[DatasetAlias, OdfBuildError] = {}
    looks = look(project, found.declared, known, files=seen, barred=barred)
    barred |= chains_in_part(project.workspace, (d.alias for d in found.declared), known)
    barred |= _broken_readers(project, found.declared, current, remote)
    if barred:
        ids = {alias: state.dataset for alias, state in current.items()}
        kept = plannable(found.declared, current, Wrong({}, ids, refused=barred))
        rest = replace(rest, left_out={**rest.left_out, **kept.left_out})
        found, current = replace(found, declared=kept.declared), kept.current
        known = {each.alias: current[each.alias] for each in found.declared}
    disabled = disabled_sources(project, found.declared, known)
    read = {each.id for each in _remote_inputs(found.declared, current)}
    remote = {alias: each for alias, each in remote.items() if each.id in read}
    plan = make_plan(
        found.declared,
        current=current,
        sources=looks,
        engines=engines(project.config),
        project_hash=project_hash(loaded.declared),
        wanted=PlanTerms(
            judging=GateTerms(Policy(today=project.policy.today, now=project.policy.now), "off"),
            rewritten=rewritten_inputs(project.workspace, as_they_are(current, remote)),
            disabled=disabled,
            at_rest=at_rest(project, current),
            reread=reread_files(found.declared, seen.passed),
            remote=remote,
        ),
    )
    steps = tuple(step for step in plan.steps if not isinstance(step.work, Append))
    plan = replace(
        plan,
        steps=steps,
        notes=(
            *(note for note in plan.notes if note.code != "unmanaged"),
            *disabled_notes(project, found.declared, disabled),
            *files_notes(found.declared, seen.passed),
        ),
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
    )
    plan = with_foreseen(
        _without_others(plan, {*remote, *(d.alias for d in found.declared)}), project.workspace
    )
    return Data(plan, found.declared, found.pending, found.missing, files, rest.left_out)


def _remote_inputs(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Iterator[RemoteInput]:
    """Yield the inputs of repositories that definitions in force read."""
    for each in declared:
        state = current.get(each.alias)
        transform = None if state is None else state.transform
        ids = () if transform is None else {given.dataset_ref for given in transform.inputs}
        yield from (given for given in each.remote if given.id in ids)


def _broken_readers(
    project: Opened,
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    remote: RemoteStates,
) -> Mapping[DatasetAlias, OdfBuildError]:
    """Return the datasets whose inputs changed in a way that the gate refuses, and why."""
    taken = taken_inputs(project.workspace, declared, as_they_are(current, remote))
    if not taken and all(each.incoming is None for each in remote.values()):
        return {}
    judged = make_plan(
        declared,
        current=current,
        sources={},
        engines=engines(project.config),
        project_hash=project_hash(declared),
        wanted=PlanTerms(
            data=False,
            judging=GateTerms(
                project.policy, protect=project.config.target(project.target).protect
            ),
            remote=remote,
            taken=taken,
        ),
    )
    found = {each.alias: list(refused_changes(judged, each.alias)) for each in declared}
    return {alias: ProjectErrors(errors) for alias, errors in found.items() if errors}


def _without_others(plan: Plan, wanted: Collection[DatasetAlias]) -> Plan:
    """Leave out what is in the workspace and not declared: it is not for this command."""
    datasets = {
        alias: replace(each, assessment=None)
        for alias, each in plan.datasets.items()
        if alias in wanted
    }
    unchanged = tuple(a for a in datasets if a not in {step.target for step in plan.steps})
    return replace(plan, datasets=datasets, unchanged=unchanged)
