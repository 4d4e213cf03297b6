"""Selectable datasets, declared or in the workspace, and their facts, as a graph.  Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Move, Plan
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.select.methods import Selectable
from odfbuild.planner.select.select import SelectionGraph
from odfbuild.planner.select.tree import StateFlag
from odfbuild.planner.select.url_schemes import SourceKind, kind_of_url
from odfbuild.values import dataclass

_NONE: frozenset[StateFlag] = frozenset()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of datasets beyond their definitions; what is not asked for may be empty."""

    state: Mapping[DatasetAlias, frozenset[StateFlag]] = field(default_factory=dict)
    change: Mapping[DatasetAlias, ChangeClass] = field(default_factory=dict)


_NO_FACTS = Facts()


def facts_of(plan: Plan) -> Facts:
    """Return what a plan says of its datasets: new, modified or stale, and the class of change."""
    state: dict[DatasetAlias, set[StateFlag]] = {
        alias: {StateFlag.NEW} if each.based_on is None else set()
        for alias, each in plan.datasets.items()
    }
    checks = plan.checks
    for step in plan.steps:
        flags = state[step.target]
        if not isinstance(step.work, Append | Move):
            flags |= set() if step.id in checks else {StateFlag.STALE}
        elif StateFlag.NEW not in flags:
            flags.add(StateFlag.MODIFIED)
    return Facts(
        {alias: frozenset(flags) for alias, flags in state.items()},
        {
            alias: ChangeClass.NONE if each.assessment is None else each.assessment.change
            for alias, each in plan.datasets.items()
        },
    )


def selection_graph(
    declared: Sequence[Declared],
    known: Mapping[DatasetAlias, DatasetId],
    facts: Facts = _NO_FACTS,
    *,
    existing: Mapping[DatasetAlias, ChainState] | None = None,
) -> SelectionGraph:
    """Return the declared datasets and what they read, of what is among them.

    `known` are the ids of the workspace: an input may be named by its id.  Of `existing` those
    that are not declared are added, with the inputs of their chains.
    """
    by_id = {id: alias for alias, id in known.items()}
    datasets = {each.alias: _selectable(each, facts) for each in declared}
    inputs = {each.alias: _inputs(each.snapshot.metadata, by_id) for each in declared}
    for alias, state in (existing or {}).items():
        if alias not in datasets:
            datasets[alias] = _existing(alias, state, facts)
            inputs[alias] = _inputs(() if state.transform is None else (state.transform,), by_id)
    return SelectionGraph(datasets, inputs)


def _selectable(each: Declared, facts: Facts) -> Selectable:
    return Selectable(
        alias=each.alias,
        kind=each.snapshot.kind,
        file=each.file,
        tags=each.traits.tags,
        owner=each.traits.owner,
        package=each.package,
        sources=frozenset(_sources(each.snapshot.metadata)),
        state=facts.state.get(each.alias, _NONE),
        change=facts.change.get(each.alias),
    )


def _existing(alias: DatasetAlias, state: ChainState, facts: Facts) -> Selectable:
    return Selectable(
        alias=alias,
        kind=state.kind,
        sources=frozenset(_sources(state.sources)),
        state=facts.state.get(alias, _NONE),
    )


def _inputs(
    events: Iterable[MetadataEvent], by_id: Mapping[DatasetId, DatasetAlias]
) -> tuple[DatasetAlias, ...]:
    refs = [
        each.dataset_ref
        for event in events
        if isinstance(event, SetTransform)
        for each in event.inputs
    ]
    found = (by_id.get(ref) if isinstance(ref, DatasetId) else ref for ref in refs)
    return tuple(each for each in found if each is not None)


def _sources(events: Iterable[MetadataEvent]) -> Iterator[SourceKind]:
    for event in events:
        if isinstance(event, AddPushSource):
            yield SourceKind.PUSH
        elif isinstance(event, SetPollingSource):
            yield _source_kind(event.fetch)


def _source_kind(step: FetchStep) -> SourceKind:
    match step:
        case FetchStepUrl():
            return kind_of_url(step.url)
        case FetchStepFilesGlob():
            return SourceKind.FILE
        case FetchStepContainer():
            return SourceKind.CONTAINER
        case FetchStepMqtt():
            return SourceKind.MQTT
        case FetchStepEthereumLogs():
            return SourceKind.ETHEREUM
