"""Make the plan: desired snapshots against current chains.  Pure.

For each dataset, in topological order: the events to append (diff), whether its source has news or
has to be asked, whether its inputs moved on (rebuild) or may do so within this plan.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import DatasetKind, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.manifest import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change, diff
from odfbuild.planner.plan import Append, Based, Ingest, Plan, Planned, Step, Transform
from odfbuild.planner.queries import check_queries
from odfbuild.planner.reasons import (
    DefinitionChanged,
    FirstRun,
    InputMayAdvance,
    NotYetCreated,
    Reason,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.planner.rebuild import InputNow, why_stale

__all__ = ["ODF_VERSION", "SourceLook", "ToAsk", "make_plan", "project_hash"]

ODF_VERSION = "0.34.1"


@dataclass(frozen=True, slots=True)
class ToAsk:
    """A source that only a fetch can look at; `origin` is printable and holds no secret."""

    origin: str


SourceLook = tuple[str, ...] | ToAsk


@dataclass(slots=True)
class _Making:
    current: Mapping[DatasetAlias, ChainState]
    by_id: Mapping[DatasetId, DatasetAlias]
    op_columns: frozenset[str]  # the names of the operation column anywhere: a query may mean any
    steps: list[Step] = field(default_factory=list)
    last_step: dict[DatasetAlias, str] = field(default_factory=dict)
    moves: set[DatasetAlias] = field(default_factory=set)
    found: list[Diagnostic] = field(default_factory=list)


def make_plan(
    declared: Sequence[Declared],
    *,
    current: Mapping[DatasetAlias, ChainState],
    sources: Mapping[DatasetAlias, SourceLook],
    engines: Mapping[str, str],
    project_hash: str,
) -> Plan:
    """Return the plan for datasets given in topological order.

    `current` holds every dataset of the workspace, also those that the project does not declare;
    `sources` what a look at each polling source found: names not ingested yet, or that it has to
    be asked.  Raises ProjectErrors with everything that refuses the plan.
    """
    making = _Making(
        current,
        {state.dataset: alias for alias, state in current.items()},
        frozenset({"op"} | {state.vocab.operation_type_column for state in current.values()}),
    )
    for each in declared:
        try:
            _plan_dataset(making, each, sources.get(each.alias, ()), engines)
        except OdfBuildError as error:
            making.found += _placed(each, error)
    if making.found:
        raise ProjectErrors(making.found)
    names = [each.alias for each in declared]
    touched = {step.target for step in making.steps}
    return Plan(
        odf_version=ODF_VERSION,
        project_hash=project_hash,
        datasets={each.alias: _planned(each, current.get(each.alias)) for each in declared},
        steps=tuple(making.steps),
        unchanged=tuple(alias for alias in names if alias not in touched),
        notes=tuple(_unmanaged(alias) for alias in sorted(set(current) - set(names))),
    )


def project_hash(declared: Sequence[Declared]) -> str:
    """Return the sha3-256 multihash of all declared manifests, in the order given."""
    forms = [to_mapping(each.snapshot) for each in declared]
    text = json.dumps(forms, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(sha3_256(text.encode()))


def _plan_dataset(
    making: _Making, each: Declared, look: SourceLook, engines: Mapping[str, str]
) -> None:
    state = making.current.get(each.alias)

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        known = making.current.get(ref) if isinstance(ref, DatasetAlias) else None
        return ref if known is None else known.dataset

    changes = diff(each.snapshot, state, resolve, engines)
    making.found += check_queries(each, changes, making.op_columns)
    if state is None or changes:
        creates = each.snapshot.kind if state is None else None
        reasons = _why_append(each, state, changes)
        events = tuple(change.event for change in changes)
        _add(making, each, "append", Append(creates, events), (), reasons)
    if each.snapshot.kind is DatasetKind.ROOT:
        _plan_ingest(making, each, state, look)
    else:
        _plan_transform(making, each, state)


def _plan_ingest(
    making: _Making, each: Declared, state: ChainState | None, look: SourceLook
) -> None:
    if not any(isinstance(event, SetPollingSource) for event in each.snapshot.metadata):
        return
    reasons: list[Reason] = []
    if state is None or (state.last_offset is None and not state.source_state):
        reasons.append(FirstRun())
    if isinstance(look, ToAsk):
        reasons.append(SourceToAsk(look.origin))
    elif look:
        reasons.append(SourceHasNews(look))
    if reasons:
        _add(making, each, "ingest", Ingest(), (), tuple(reasons))
        making.moves.add(each.alias)


def _plan_transform(making: _Making, each: Declared, state: ChainState | None) -> None:
    transform = next(
        (event for event in each.snapshot.metadata if isinstance(event, SetTransform)), None
    )
    if transform is None:
        return
    inputs = [(source.alias, _alias_of(making, source.dataset_ref)) for source in transform.inputs]
    reasons: list[Reason] = [
        InputMayAdvance(alias)
        for _, alias in inputs
        if isinstance(alias, DatasetAlias) and alias in making.moves
    ]
    present = [making.current.get(alias) for _, alias in inputs if isinstance(alias, DatasetAlias)]
    known = [input_state for input_state in present if input_state is not None]
    if state is None:
        reasons.insert(0, FirstRun())
    elif len(known) == len(inputs):
        now = [
            InputNow(name or str(alias), input_state)
            for (name, alias), input_state in zip(inputs, known, strict=True)
        ]
        reasons[:0] = why_stale(state, now)
    if not reasons:
        return
    after = tuple(
        making.last_step[alias]
        for _, alias in inputs
        if isinstance(alias, DatasetAlias) and alias in making.last_step
    )
    refs = tuple(source.dataset_ref for source in transform.inputs)
    _add(making, each, "transform", Transform(refs), after, tuple(reasons))
    making.moves.add(each.alias)


def _add(
    making: _Making,
    each: Declared,
    verb: str,
    work: Append | Ingest | Transform,
    after: tuple[str, ...],
    reasons: tuple[Reason, ...],
) -> None:
    before = making.last_step.get(each.alias)
    if isinstance(work, Append):
        after = _inputs_created(making, work)
    step = Step(
        id=f"{verb}:{each.alias}",
        target=each.alias,
        work=work,
        after=tuple(dict.fromkeys((*after, *((before,) if before else ())))),
        reasons=reasons,
    )
    making.steps.append(step)
    making.last_step[each.alias] = step.id


def _inputs_created(making: _Making, work: Append) -> tuple[str, ...]:
    """A SetTransform needs the ids of its inputs, so it waits for those that are created."""
    refs = [
        source.dataset_ref
        for event in work.events
        if isinstance(event, SetTransform)
        for source in event.inputs
        if isinstance(source.dataset_ref, DatasetAlias)
    ]
    return tuple(f"append:{ref}" for ref in dict.fromkeys(refs) if ref in making.last_step)


def _alias_of(making: _Making, ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
    return making.by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref


def _why_append(
    each: Declared, state: ChainState | None, changes: Sequence[Change]
) -> tuple[Reason, ...]:
    if state is None:
        return (NotYetCreated(str(each.span(()))),)
    return tuple(
        DefinitionChanged(
            type(change.event).__name__,
            str(each.span(() if change.index is None else ("metadata", change.index))),
        )
        for change in changes
    )


def _planned(each: Declared, state: ChainState | None) -> Planned:
    based = None if state is None else Based(state.dataset, state.head)
    return Planned(kind=each.snapshot.kind, place=each.span(()), based_on=based)


def _placed(each: Declared, error: OdfBuildError) -> list[Diagnostic]:
    return [
        Diagnostic(
            code=found.code,
            what=f"{each.alias}: {found.what}",
            why=found.why,
            fix=found.fix,
            span=found.span or each.span(()),
        )
        for found in error.diagnostics()
    ]


def _unmanaged(alias: DatasetAlias) -> Diagnostic:
    return Diagnostic(
        code="unmanaged",
        what=f"{alias} is in the workspace and no longer declared",
        why="removing a definition deletes nothing: history is permanent",
        fix="declare it again to go on with it",
        level=Level.NOTE,
    )
