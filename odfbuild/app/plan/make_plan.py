"""Planning: files and chains in, a plan out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.load_project import (
    known_names,
    load,
    load_at,
    locked_schemas,
    settings_at,
    unsure_of,
    wrong_of,
)
from odfbuild.app.outside_use import disabled_notes, disabled_sources, engine_notes, uses_of
from odfbuild.app.plan.cache import PlanBasis, UnchangedPlan, at_rest, engines, remember
from odfbuild.app.plan.file_snapshot import ProjectFiles, read_at_once
from odfbuild.app.plan.input_history import rewritten_inputs, taken_inputs
from odfbuild.app.plan.late_files import files_notes, reread_files
from odfbuild.app.plan.planned_places import engine_places, repository_uses, step_notes
from odfbuild.app.plan.remote_inputs import (
    as_they_are,
    barred_readers,
    look_up_inputs,
    unpinned_notes,
    without_inputs,
)
from odfbuild.app.plan.rows import rows_of
from odfbuild.app.plan.sources import Files, Links, linked_uses, look, with_foreseen
from odfbuild.app.plan.step_placement import ingest_notes
from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors
from odfbuild.executors.engine.quick_columns import QuickColumns
from odfbuild.executors.ingest.fetch.late_files import SkippedFiles
from odfbuild.host.reading_session import made_of
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetPollingSource
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff.chain_definitions import imagined
from odfbuild.planner.evolution.gate import Allowance
from odfbuild.planner.exclusion import LeftOut, Plannable, Wrong, plannable, with_left_out
from odfbuild.planner.make_plan import (
    GateTerms,
    PlanTerms,
    definition_text,
    hash_of,
    make_plan,
)
from odfbuild.planner.plan import Append, Plan
from odfbuild.planner.plan.policy import last_names
from odfbuild.planner.plan.remote_inputs import NONE_REMOTE, LookMode, RemoteStates
from odfbuild.planner.steps import SourceLook
from odfbuild.project.checks.queries import examined
from odfbuild.project.checks.secrets import literal_secrets
from odfbuild.project.git.revision import at_revision
from odfbuild.project.load import Project
from odfbuild.project.opened import Opened
from odfbuild.state.chain.head_table import HeadTable
from odfbuild.state.memory.origins import pulled_from
from odfbuild.state.partial_inputs import chains_in_part
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.app.plan.query_errors import JudgedDefinitions
    from odfbuild.repositories.inputs import RemoteInputs

_NONE_PASSED: Mapping[DatasetAlias, SkippedFiles] = {}


def _nothing(_: Sequence[Declared]) -> tuple[Allowance, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is asked of a plan.

    `gate` is strict, default or off; `allowed` is what this run lets pass; without `refresh`,
    local sources are not looked at; `repositories` says whether those are asked for inputs that are
    datasets of them: for what is not known at all, always (look), or never (offline); `against` is
    a revision of git to compare with, in place of the workspace; with `engine`, one is asked about
    new queries; with `validates` engines elsewhere are, unless `repositories` is offline.  What is
    let pass depends on the datasets that there are.  With `diverged` datasets of which an input was
    rewritten are in the plan, with steps that would fail.
    """

    gate: str = "default"
    allowed: Callable[[Sequence[Declared]], tuple[Allowance, ...]] = _nothing
    metadata_only: bool = False
    refresh: bool = True
    repositories: LookMode = "known"
    against: str | None = None
    engine: bool = False
    diverged: bool = False
    validates: bool = True


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan, what it was made of, and where to keep what is said of it, if anywhere.

    `left_out` says of datasets why they are not in it, though the project declares them; `files`
    are those of the project, None of a plan that is not for the workspace; `notes` are on how it
    was asked for.
    """

    plan: Plan
    loaded: Project
    known: UnchangedPlan | None = None
    left_out: LeftOut = field(default_factory=dict)
    files: ProjectFiles | None = None
    notes: tuple[Diagnostic, ...] = ()


def make(project: Opened, asked: PlanRequest | None = None) -> Plan:
    """Load the project, look at chains and local sources, and plan.

    A dataset that cannot be planned is an error among the notes: such a plan is not applied.
    Raises ProjectErrors with all that is wrong, and ProjectChangedError.
    """
    made = plan_result(project, asked or PlanRequest())
    return with_left_out(made.plan, made.left_out)


def plan_result(project: Opened, asked: PlanRequest) -> PlanResult:
    """Return a plan with what it was made of; what it was made of is remembered.

    Raises as `make` does.
    """
    if asked.against is not None:
        return _plan_against(project, asked, asked.against)
    with read_at_once(project) as files:
        made, seen = _plan_of_workspace(project, asked, files)
    if seen is None:
        return made
    rows = rows_of(project, made.plan, seen.declared, seen.current)
    return replace(made, known=remember(project, seen, rows, idle=is_idle(made.plan)))


def _plan_of_workspace(
    project: Opened, asked: PlanRequest, files: ProjectFiles
) -> tuple[PlanResult, PlanBasis | None]:
    """Return a plan, and what it was made of if it is one of the whole project."""
    if asked.repositories == "offline":
        asked = replace(asked, validates=False)
    names, heads, table = _heads(project)
    current = project.workspace.states(heads=heads)
    known = known_names(project, current)
    whole = load(project, known, partly=True)
    wrong, remote = wrong_of(project, whole, heads), NONE_REMOTE
    if not any(each.remote for each in whole.declared):
        asked = replace(asked, repositories="known")
    else:
        looked = look_up_inputs(project, whole, current, asked.repositories)
        if looked.is_new:
            whole = load(project, known, partly=True)
            wrong = wrong_of(project, whole, heads)
        remote = looked.remote
        wrong, current = _without_barred(project, whole, looked, wrong, current)
    found = work_out(project, asked, whole, current, wrong, remote)
    rest = found.rest
    seen = None
    if (
        asked == PlanRequest() and not rest.left_out and found.is_checked
    ):  # of a plan that leaves something out, nothing follows for the whole
        seen = PlanBasis(
            files.context,
            files.files,
            names,
            heads,
            table,
            rest.declared,
            {alias: current[alias] for alias in rest.current if alias in current},
            found.looked.sources,
        )
    return PlanResult(found.plan, whole, None, rest.left_out, files), seen


@dataclass(frozen=True, slots=True)
class WorkedOut:
    """A plan, the datasets that it is of, and what was found of the files of sources.

    It is not checked if an engine elsewhere should have looked at a query, and did not.
    """

    plan: Plan
    rest: Plannable
    looked: Files
    is_checked: bool


def work_out(
    project: Opened,
    asked: PlanRequest,
    whole: Project,
    current: Mapping[DatasetAlias, ChainState],
    wrong: Wrong,
    remote: RemoteStates = NONE_REMOTE,
) -> WorkedOut:
    """Plan the datasets of a project as it was read, but for those that cannot be planned.

    `remote` are inputs of repositories.  Raises ProjectErrors.
    """
    current = {**current, **{alias: each.state for alias, each in remote.items()}}
    rest = plannable(whole.declared, current, wrong)
    links: Links = {}
    files_seen = Files()
    renamed = _by_new_names(project, rest.declared, rest.current)
    barred: dict[DatasetAlias, OdfBuildError] = {}
    looks: Mapping[DatasetAlias, SourceLook] = {}
    if asked.refresh:
        looks = look(project, rest.declared, renamed, links, files_seen, barred)
    barred |= chains_in_part(project.workspace, (d.alias for d in rest.declared), renamed)
    if barred:
        wrong = replace(wrong, refused={**wrong.refused, **barred})
        rest = plannable(whole.declared, current, wrong)
    passed = files_seen.passed
    sound = replace(whole, declared=rest.declared)
    plan = _plan_of(project, asked, sound, rest.current, looks, passed, remote=remote)
    judged = _judged(project, asked, whole, plan, rest.current)
    if judged.refused:
        wrong = _with(project, wrong, judged.refused, current)
        rest = plannable(whole.declared, current, wrong)
        sound = replace(whole, declared=rest.declared)
        plan = _plan_of(project, asked, sound, rest.current, looks, passed, remote=remote)
    if judged.unchecked:
        plan = replace(plan, notes=(*plan.notes, *judged.unchecked))
    if links:
        plan = replace(plan, outside=(*plan.outside, *linked_uses(project, links)))
    foreseen = with_foreseen(plan, project.workspace)
    return WorkedOut(foreseen, rest, files_seen, is_checked=not judged.unchecked)


def plan_definitions(
    project: Opened, whole: Project, current: Mapping[DatasetAlias, ChainState]
) -> Plan:
    """Return the plan of the definitions alone, of a project as it was read.

    No source is looked at, and nobody is asked.  A definition that no plan can have is an error
    among the notes.  Raises ProjectErrors.
    """
    wrong, remote = wrong_of(project, whole), NONE_REMOTE
    if any(each.remote for each in whole.declared):
        looked = look_up_inputs(project, whole, current, "offline")
        remote = looked.remote
        wrong, current = _without_barred(project, whole, looked, wrong, current)
    asked = PlanRequest(metadata_only=True, refresh=False, repositories="offline", validates=False)
    found = work_out(project, asked, whole, current, wrong, remote)
    return with_left_out(found.plan, found.rest.left_out)


def _heads(project: Opened) -> tuple[str, Mapping[DatasetId, Multihash], HeadTable]:
    """Return the mark of the names, the heads, and these with facts from before they were read."""
    names, now = project.workspace.names_mark(), time_ns()
    stats, heads = project.workspace.look.stats_with(project.workspace.heads)
    return names, heads, HeadTable.of(heads, stats, now=now)


def _plan_against(project: Opened, asked: PlanRequest, against: str) -> PlanResult:
    """Compare with the project as it was in a revision: no workspace is looked at."""
    name = against.removeprefix("git:")
    with at_revision(project.root, name) as revision:
        called = f"git:{name} ({revision.commit[:12]})"
        loaded = load(project, granted=settings_at(project, revision.root), partly=True)
        before = load_at(project, revision.root, called)
        current: Mapping[DatasetAlias, ChainState] = {}
        if before is not None:
            schemas = locked_schemas(revision.root, before)
            made_by = engines(settings_at(project, revision.root))
            current = imagined(before.declared, engines=made_by, schemas=schemas)
    alone = replace(asked, metadata_only=True)
    wrong = Wrong(
        {},
        refused={a: ProjectErrors(found) for a, found in loaded.wrong.items()},
        unread=loaded.unread,
        unsure=unsure_of(loaded, current, {}),
    )
    rest = plannable(loaded.declared, current, wrong)
    sound = replace(loaded, declared=rest.declared)
    plan = _plan_of(project, alone, sound, rest.current, {}, against=called)
    if refused := _judged(project, asked, loaded, plan, rest.current).refused:
        rest = plannable(loaded.declared, current, _with(project, wrong, refused, current))
        sound = replace(loaded, declared=rest.declared)
        plan = _plan_of(project, alone, sound, rest.current, {}, against=called)
    return PlanResult(plan, loaded, left_out=rest.left_out)


def _with(
    project: Opened,
    wrong: Wrong,
    refused: Mapping[DatasetAlias, OdfBuildError],
    current: Mapping[DatasetAlias, ChainState],
) -> Wrong:
    """Return what is wrong with datasets, and with definitions."""
    names = {**wrong.names, **{alias: state.dataset for alias, state in current.items()}}
    moved = last_names(project.policy.moved)
    return replace(wrong, names=names, moved=moved, refused={**wrong.refused, **refused})


def _without_barred(
    project: Opened,
    whole: Project,
    looked: "RemoteInputs",
    wrong: Wrong,
    current: Mapping[DatasetAlias, ChainState],
) -> tuple[Wrong, Mapping[DatasetAlias, ChainState]]:
    """Return what is wrong and the chains, given inputs of repositories that cannot be used."""
    barred = barred_readers(whole, looked)
    if not barred:
        return wrong, current
    return _with(project, wrong, barred, current), without_inputs(whole, looked, current)


def _by_new_names(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, ChainState]:
    """Return the chains by the names that they have after the moves of a plan."""
    moved = project.policy.moved
    if not moved:
        return current
    from odfbuild.planner.evolution.rules.renames import apply_moved

    return apply_moved(current, moved, [each.alias for each in declared]).current


def _judged(
    project: Opened,
    asked: PlanRequest,
    loaded: Project,
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
) -> "JudgedDefinitions":
    """Return what is wrong with the definitions that a plan would append; most append none."""
    from odfbuild.app.plan.query_errors import JudgedDefinitions

    if not plan.refused and not any(isinstance(step.work, Append) for step in plan.steps):
        return JudgedDefinitions({})
    from odfbuild.app.plan.file_columns import refused_files
    from odfbuild.app.plan.query_errors import judged_definitions, refused_by_engine

    current = _by_new_names(project, loaded.declared, current)
    there = asked.validates and asked.against is None
    judged = judged_definitions(project, loaded, plan, current, elsewhere=there)
    found = dict(judged.refused)
    for alias, secrets in _literal_secrets(project, loaded, plan).items():
        others = found[alias].diagnostics() if alias in found else ()
        found[alias] = ProjectErrors([*secrets, *others])
    if asked.refresh and asked.against is None:
        found = {**refused_files(project, loaded.declared, plan, current), **found}
    if not asked.engine:
        return replace(judged, refused=found)
    from odfbuild.executors.engine.registry import engine_of

    sound = [each for each in loaded.declared if each.alias not in found]
    with engine_of(project) as engine:
        found = {**refused_by_engine(project, sound, plan, engine, current), **found}
    return replace(judged, refused=found)


def _plan_of(
    project: Opened,
    asked: PlanRequest,
    loaded: Project,
    current: Mapping[DatasetAlias, ChainState],
    looks: Mapping[DatasetAlias, SourceLook],
    passed: Mapping[DatasetAlias, SkippedFiles] = _NONE_PASSED,
    *,
    against: str | None = None,
    remote: RemoteStates = NONE_REMOTE,
) -> Plan:
    remote = {alias: each for alias, each in remote.items() if alias in current}
    renamed = _by_new_names(project, loaded.declared, current)
    again = reread_files(loaded.declared, passed)
    disabled = () if against else disabled_sources(project, loaded.declared, renamed)
    plan = make_plan(
        loaded.declared,
        current=current,
        sources=looks,
        engines=engines(project.config),
        project_hash=hash_of(map(_definition_text, loaded.declared)),
        wanted=PlanTerms(
            data=not asked.metadata_only,
            against=against,
            judging=GateTerms(
                project.policy,
                asked.gate,
                asked.allowed(loaded.declared),
                protect=project.config.target(project.target).protect,
            ),
            locked=locked_schemas(project.root, loaded),
            engine=QuickColumns(project),
            examined=examined(loaded.declared, current),
            rewritten={}
            if against
            else rewritten_inputs(project.workspace, as_they_are(current, remote)),
            diverged=asked.diverged,
            disabled=disabled,
            at_rest=() if against else at_rest(project, current),
            reread=again,
            remote=remote,
            pulled={} if against else _pull_origins(project, loaded, renamed),
            taken={}
            if against
            else taken_inputs(project.workspace, loaded.declared, as_they_are(renamed, remote)),
        ),
    )
    if not against:
        plan = replace(plan, places=engine_places(project, loaded.declared, plan, renamed))
    settings = uses_of(project.config, project.target, project.root, loaded.declared)
    return replace(
        plan,
        notes=(
            *loaded.notes,
            *plan.notes,
            *(() if against else unpinned_notes(project, plan)),
            *disabled_notes(project, loaded.declared, disabled),
            *(() if against else engine_notes(project, loaded.declared, plan)),
            *(() if against else ingest_notes(project, loaded.declared, plan, renamed, again)),
            *step_notes(project, loaded.declared, plan),
            *files_notes(loaded.declared, passed),
            *_idle_moves(project, loaded.declared),
        ),
        outside=(*settings, *repository_uses(project, plan)),
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
    )


def _definition_text(each: Declared) -> str:
    return made_of(("definition", each.alias), (each,), None, partial(definition_text, each))


def _pull_origins(
    project: Opened, loaded: Project, current: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, str]:
    own = {each.alias for each in loaded.declared}
    names = {alias: state.dataset for alias, state in current.items() if alias not in own}
    return pulled_from(project.workspace, names)


def _idle_moves(project: Opened, declared: Sequence[Declared]) -> Iterator[Diagnostic]:
    """Yield moves of the project that move nothing."""
    if project.policy.moved:
        from odfbuild.planner.evolution.rules.renames import idle_moves

        yield from idle_moves(declared, project.policy.moved)


def _literal_secrets(
    project: Opened, loaded: Project, plan: Plan
) -> Mapping[DatasetAlias, Sequence[Diagnostic]]:
    """Return the datasets of which the plan would put a credential into a chain."""
    if project.permissions.literal_secrets:
        return {}
    new = {
        step.target
        for step in plan.steps
        if isinstance(step.work, Append)
        and any(isinstance(event, SetPollingSource) for event in step.work.events)
    }
    declared = (each for each in loaded.declared if each.alias in new)
    found = {each.alias: list(literal_secrets(each, Level.ERROR)) for each in declared}
    return {alias: problems for alias, problems in found.items() if problems}


def is_idle(plan: Plan) -> bool:
    """Say whether there is nothing to do, to ask, to warn of or to judge."""
    judged = any(each.assessment is not None for each in plan.datasets.values())
    return not plan.steps and not plan.notes and not judged
