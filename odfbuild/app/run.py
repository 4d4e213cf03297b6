"""Take in what sources have and derive what follows, by the definitions that are in force."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from odfbuild.app.disabled_sources import disabled_notes, disabled_sources
from odfbuild.app.load_project import known_names, load, wrong_of
from odfbuild.app.plan.cache import at_rest, engines
from odfbuild.app.plan.divergence import rewritten_inputs
from odfbuild.app.plan.file_snapshot import ProjectFiles, read_at_once
from odfbuild.app.plan.late_files import files_again, files_notes
from odfbuild.app.plan.partial_inputs import partial_inputs
from odfbuild.app.plan.sources import Files, look, with_foreseen
from odfbuild.errors import OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff.chain_definitions import as_in_force
from odfbuild.planner.exclusion import LeftOut, Wrong, plannable
from odfbuild.planner.make_plan import Judging, Wanted, make_plan, project_hash
from odfbuild.planner.plan import Append, Plan
from odfbuild.planner.plan.policy import Policy
from odfbuild.project.opened import Opened


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


def data_plan(project: Opened) -> Data:
    """Plan what sources and inputs have brought, for the declared datasets that there are.

    Raises ProjectErrors with all that is wrong with the project, and ProjectChangedError.
    """
    with read_at_once(project) as files:
        return _data_plan(project, files)


def _data_plan(project: Opened, files: ProjectFiles) -> Data:
    current = project.workspace.states()
    loaded = load(project, known_names(project, current), partly=True)
    rest = plannable(loaded.declared, current, wrong_of(project, loaded))
    loaded, current = replace(loaded, declared=rest.declared), rest.current
    moved = {each.new: each.old for each in project.policy.moved}
    found = as_in_force(loaded.declared, current, moved, engines())
    known = {each.alias: current[each.alias] for each in found.declared}
    seen = Files()
    barred: dict[DatasetAlias, OdfBuildError] = {}
    looks = look(project, found.declared, known, files=seen, barred=barred)
    barred |= partial_inputs(project, found.declared, known)
    if barred:
        ids = {alias: state.dataset for alias, state in current.items()}
        kept = plannable(found.declared, current, Wrong({}, ids, refused=barred))
        rest = replace(rest, left_out={**rest.left_out, **kept.left_out})
        found, current = replace(found, declared=kept.declared), kept.current
        known = {each.alias: current[each.alias] for each in found.declared}
    disabled = disabled_sources(project, found.declared, known)
    plan = make_plan(
        found.declared,
        current=current,
        sources=looks,
        engines=engines(),
        project_hash=project_hash(loaded.declared),
        wanted=Wanted(
            judging=Judging(Policy(today=project.policy.today, now=project.policy.now), "off"),
            rewritten=rewritten_inputs(project.workspace, current),
            disabled=disabled,
            at_rest=at_rest(project, current),
            again=files_again(found.declared, seen.passed),
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
        _without_others(plan, {d.alias for d in found.declared}), project.workspace
    )
    return Data(plan, found.declared, found.pending, found.missing, files, rest.left_out)


def _without_others(plan: Plan, wanted: Collection[DatasetAlias]) -> Plan:
    """Leave out what is in the workspace and not declared: it is not for this command."""
    datasets = {
        alias: replace(each, assessment=None)
        for alias, each in plan.datasets.items()
        if alias in wanted
    }
    unchanged = tuple(a for a in datasets if a not in {step.target for step in plan.steps})
    return replace(plan, datasets=datasets, unchanged=unchanged)
