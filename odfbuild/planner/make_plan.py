"""Planning: desired snapshots against current chains.  Pure.

For each dataset, in topological order: the events to append (diff), what their change means to
others (assess), whether its source has news or has to be checked, whether its inputs moved on
(rebuild) or may do so within this plan.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date

from odfbuild.errors import Diagnostic, Level, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSchema, SetVocab
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, PathSteps
from odfbuild.planner.diff import EventChange, KindChangedError, VocabChangedError, diff
from odfbuild.planner.diff.asked_version import asked_version_problems
from odfbuild.planner.diff.engine_change import engine_change_notes
from odfbuild.planner.diff.query_change import forward_problems, outdated_notes
from odfbuild.planner.diff.restate import with_restating
from odfbuild.planner.drift import unmanaged_fix
from odfbuild.planner.evolution.assess import Assessed, TakenInputs, assess
from odfbuild.planner.evolution.columns.answers import EngineColumns
from odfbuild.planner.evolution.columns.inputs import waiting_notes
from odfbuild.planner.evolution.gate import DEFAULT, Allowance, verdict
from odfbuild.planner.evolution.rules.renames import Moves, apply_moved, unfinished_moves
from odfbuild.planner.plan import BaseHead, Plan, Planned, Step
from odfbuild.planner.plan.changes import Assessment, ChangeClass
from odfbuild.planner.plan.policy import Policy, Severity
from odfbuild.planner.plan.remote_inputs import RemoteState, RemoteStates
from odfbuild.planner.queries import Examined, check_queries
from odfbuild.planner.staleness import diverged_datasets
from odfbuild.planner.steps import RereadFiles, SourceLook, Steps
from odfbuild.values import dataclass

ODF_VERSION = "0.34.1"

_NO_POLICY = Policy(today=date.min)
_MANY = 500  # so many new queries are not resolved to columns unless something hangs on them


@dataclass(frozen=True, slots=True)
class GateTerms:
    """By what changes are judged: the project's policy, the gate's mode, what is let pass once.

    A protected target honours neither `off` nor what is let pass.
    """

    policy: Policy = _NO_POLICY
    gate: str = DEFAULT
    allowed: tuple[Allowance, ...] = ()
    protect: bool = False


_BY_DEFAULT = GateTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """What is wanted of a plan.

    Without `data`, nothing is run. `against` names a revision that `current` stands for, in place
    of chains. `locked` are data schemas that an engine gave for the definitions as declared,
    `engine` is asked about queries that no text tells the columns of, `examined` facts of queries
    that were worked out before, `rewritten` the inputs of datasets that no longer hold the block
    that was read from them last, with `diverged` these are in the plan all the same, `disabled` the
    datasets whose sources are not used, `reread` the files that a rule has read though their order
    passes them over, `at_rest` the derivatives whose next step is known to change nothing, `remote`
    the inputs that are datasets of repositories, `pulled` where undeclared datasets were pulled
    from, `taken` undeclared inputs whose definition changed, as they were when their readers read
    of them.
    """

    data: bool = True
    against: str | None = None
    judging: GateTerms = _BY_DEFAULT
    locked: Mapping[DatasetAlias, DataSchema] = field(default_factory=dict)
    engine: EngineColumns | None = None
    examined: Examined = field(default_factory=dict)
    rewritten: Mapping[DatasetAlias, Collection[DatasetId]] = field(default_factory=dict)
    diverged: bool = False
    disabled: Collection[DatasetAlias] = ()
    reread: Mapping[DatasetAlias, RereadFiles] = field(default_factory=dict)
    at_rest: Collection[DatasetId] = ()
    remote: RemoteStates = field(default_factory=dict)
    pulled: Mapping[DatasetAlias, str] = field(default_factory=dict)
    taken: TakenInputs = field(default_factory=dict)


def make_plan(
    declared: Sequence[Declared],
    *,
    current: Mapping[DatasetAlias, ChainState],
    sources: Mapping[DatasetAlias, SourceLook],
    engines: Mapping[str, str],
    project_hash: str,
    wanted: PlanTerms | None = None,
) -> Plan:
    """Return the plan for datasets given in topological order.

    `current` holds every dataset of the workspace, also those that the project does not declare,
    and those of repositories as they will be;
    `sources` what a look at each polling source found: names not ingested yet, or that it has to
    be checked.  Definitions that cannot be carried out are in `refused` of the plan, which is then
    to be made without them.  Raises ProjectErrors with all else that refuses the plan.
    """
    wanted = wanted or PlanTerms()
    policy = wanted.judging.policy
    moves = apply_moved(current, policy.moved, [each.alias for each in declared])
    compared = _compare(declared, moves.current, engines, wanted)
    assessed = _assess(declared, moves.current, compared.changes, wanted)
    if badly_moved := tuple(unfinished_moves(declared, policy.moved)) or moves.problems:
        raise ProjectErrors(badly_moved)
    steps = _steps(declared, moves, compared.changes, sources, policy, wanted)
    asked = {each.alias: _asked_versions(each, moves, engines) for each in declared}
    going_on = (
        ()
        if wanted.against
        else forward_problems(declared, moves.current, compared.changes, engines)
    )
    found = tuple(going_on)
    notes = (
        *assessed.notes,
        *(each for _, each in found if each.level is not Level.ERROR),
        *outdated_notes(declared, steps, moves.current, engines),
        *(
            engine_change_notes(declared, moves.current, compared.changes, engines)
            if wanted.against is None
            else ()
        ),
        *waiting_notes(declared, steps, moves.current),
    )
    plan = _plan(declared, moves, assessed, steps, project_hash, wanted, notes)
    refused = {
        **{alias: (each,) for alias, each in found if each.level is Level.ERROR},
        **({} if wanted.diverged else dict(diverged_datasets(declared, steps))),
        **assessed.refusals,
        **{alias: problems for alias, problems in asked.items() if problems},
        **compared.refused,
    }
    return replace(plan, refused=refused)


def _asked_versions(
    each: Declared, moves: Moves, engines: Mapping[str, str]
) -> tuple[Diagnostic, ...]:
    return tuple(asked_version_problems(each, moves.current.get(each.alias), engines))


def definition_text(each: Declared) -> str:
    """Return the manifest of a dataset as JSON, on one line."""
    form = to_mapping(each.snapshot)
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def project_hash(declared: Sequence[Declared]) -> str:
    """Return the sha3-256 multihash of all declared manifests, in the order given."""
    return hash_of(map(definition_text, declared))


def hash_of(definitions: Iterable[str]) -> str:
    """Return the hash of a project, given its manifests as JSON in order."""
    return str(sha3_256(f"[{','.join(definitions)}]".encode()))


def op_columns(current: Mapping[DatasetAlias, ChainState]) -> frozenset[str]:
    """Return the names of the operation column anywhere: a query may mean any of them."""
    return frozenset({"op"} | {state.vocab.operation_type_column for state in current.values()})


@dataclass(slots=True)
class _Compared:
    """The events to append to each dataset that changes, and what is wrong with them."""

    changes: dict[DatasetAlias, tuple[EventChange, ...]] = field(default_factory=dict)
    refused: dict[DatasetAlias, tuple[Diagnostic, ...]] = field(default_factory=dict)


def _compare(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    engines: Mapping[str, str],
    wanted: PlanTerms,
) -> _Compared:
    compared = _Compared()
    names = op_columns(current)

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        known = current.get(ref) if isinstance(ref, DatasetAlias) else None
        return ref if known is None else known.dataset

    for each in declared:
        state = current.get(each.alias)
        try:
            changes = diff(each.snapshot, state, resolve, engines)
            changes = changes if state is None else with_restating(each, state, changes)
        except (KindChangedError, VocabChangedError) as error:
            if wanted.against is None:
                compared.refused[each.alias] = _placed_errors(each, error)
            compared.changes[each.alias] = ()  # against a revision the rules say what it means
            continue
        if state is None or changes:
            compared.changes[each.alias] = changes
            if found := tuple(check_queries(each, changes, names, wanted.examined)):
                compared.refused[each.alias] = found
    return compared


def _placed_errors(
    each: Declared, error: KindChangedError | VocabChangedError
) -> tuple[Diagnostic, ...]:
    """Return why a chain cannot take a definition, at the key that says so."""
    events = enumerate(each.snapshot.metadata)
    at = next((number for number, event in events if isinstance(event, SetVocab)), None)
    path: PathSteps = ("kind",)
    if isinstance(error, VocabChangedError):
        path = () if at is None else ("metadata", at)
    return tuple(replace(found, span=each.span(path)) for found in error.diagnostics())


def _assess(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, tuple[EventChange, ...]],
    wanted: PlanTerms,
) -> Assessed:
    judging = wanted.judging
    created = sum(alias not in current for alias in changes)
    return assess(
        declared,
        current,
        changes,
        policy=judging.policy,
        locked=wanted.locked,
        engine=wanted.engine,
        gate=judging.gate,
        remote=wanted.remote,
        pulled=wanted.pulled,
        taken=wanted.taken,
        allowed=judging.allowed,
        protect=judging.protect,
        against=wanted.against is not None,
        full=created <= _MANY,
    )


def _steps(
    declared: Sequence[Declared],
    moves: Moves,
    changes: Mapping[DatasetAlias, tuple[EventChange, ...]],
    sources: Mapping[DatasetAlias, SourceLook],
    policy: Policy,
    wanted: PlanTerms,
) -> tuple[Step, ...]:
    by_id = {state.dataset: alias for alias, state in moves.current.items()}
    entries = {each.new: each for each in policy.moved}
    steps = Steps(
        moves.current,
        by_id,
        wanted.rewritten,
        wanted.disabled,
        wanted.reread,
        wanted.at_rest,
        None if wanted.against else policy.now,
    )
    for remote in wanted.remote.values() if wanted.data else ():
        steps.pull(remote)
    for each in declared:
        if each.alias in moves.old:
            old = moves.old[each.alias]
            steps.move(each, replace(entries[each.alias], old=old))
        steps.append(each, changes.get(each.alias, ()))
        if wanted.data:
            steps.run(each, sources.get(each.alias, ()))
    return tuple(steps.steps)


def _plan(
    declared: Sequence[Declared],
    moves: Moves,
    assessed: Assessed,
    steps: tuple[Step, ...],
    project_hash: str,
    wanted: PlanTerms,
    notes: tuple[Diagnostic, ...],
) -> Plan:
    touched = {step.target for step in steps}
    datasets = {alias: _remote(each, assessed) for alias, each in wanted.remote.items()}
    datasets |= {each.alias: _plan_dataset(each, moves, assessed) for each in declared}
    retired = {
        alias: _plan_retired(moves.current[alias], each)
        for alias, each in assessed.assessments.items()
        if alias not in datasets and any(hit.severity is not Severity.OFF for hit in each.hits)
    }
    told = {*datasets, *retired}
    return Plan(
        odf_version=ODF_VERSION,
        project_hash=project_hash,
        datasets={**datasets, **retired},
        steps=steps,
        unchanged=tuple(alias for alias in datasets if _is_unchanged(alias, touched, assessed)),
        notes=(
            *notes,
            *(
                _unmanaged_note(alias, wanted.pulled.get(alias))
                for alias in sorted(set(moves.current) - told)
            ),
        ),
        verdict=verdict(assessed.assessments, wanted.judging.gate, assessed.notes),
        against=wanted.against,
    )


def _is_unchanged(
    alias: DatasetAlias, touched: Collection[DatasetAlias], assessed: Assessed
) -> bool:
    found = assessed.assessments.get(alias)
    return alias not in touched and (found is None or found.change is ChangeClass.NONE)


def _plan_dataset(each: Declared, moves: Moves, assessed: Assessed) -> Planned:
    state = moves.current.get(each.alias)
    return Planned(
        kind=each.snapshot.kind,
        place=each.span(()),
        based_on=None if state is None else BaseHead(state.dataset, state.head),
        assessment=assessed.assessments.get(each.alias),
        moved_from=moves.old.get(each.alias),
    )


def _remote(each: RemoteState, assessed: Assessed) -> Planned:
    here = each.here
    return Planned(
        kind=each.state.kind,
        place=None,
        based_on=None if here is None else BaseHead(here.dataset, here.head),
        assessment=assessed.assessments.get(each.alias),
        origin=str(each.ref),
    )


def _plan_retired(state: ChainState, assessment: Assessment) -> Planned:
    return Planned(
        kind=state.kind,
        place=None,
        based_on=BaseHead(state.dataset, state.head),
        assessment=assessment,
    )


def _unmanaged_note(alias: DatasetAlias, place: str | None) -> Diagnostic:
    if place is not None:
        return Diagnostic(
            code="unmanaged",
            what=f"{alias} is not declared: it was pulled from {place}",
            why="it stays as the last pull left it, and what reads it takes that",
            fix=f"odfbuild pull {alias} brings it up to date; a query that names `{place}` as its "
            "input has plan and apply do so",
            level=Level.NOTE,
        )
    return Diagnostic(
        code="unmanaged",
        what=f"{alias} is in the workspace and no longer declared",
        why="removing a definition deletes nothing: history is permanent",
        fix=unmanaged_fix(alias),
        level=Level.NOTE,
    )
