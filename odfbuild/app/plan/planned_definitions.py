"""Definitions as a plan records them, to carry out a saved plan without reading the project."""

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetSnapshot,
    DisablePollingSource,
    MetadataEvent,
    SetPollingSource,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, PathSteps
from odfbuild.planner.plan import Append, Plan, Planned
from odfbuild.values import dataclass


def planned_definitions(
    plan: Plan, states: Mapping[DatasetAlias, ChainState]
) -> tuple[Declared, ...]:
    """Return the definitions of the datasets to whose chains a plan appends.

    They are the events of the plan, and those in force that these leave; all of one is at the place
    that the plan has of it.
    """
    given: dict[DatasetAlias, list[MetadataEvent]] = {}
    for step in plan.steps:
        if isinstance(step.work, Append):
            given.setdefault(step.target, []).extend(step.work.events)
    now = {state.dataset: state for state in states.values()}
    found = []
    for alias, events in given.items():
        planned = plan.datasets[alias]
        state = None if planned.based_on is None else now.get(planned.based_on.id)
        found.append(_definition(alias, planned, [*_remaining_events(state, events), *events]))
    return tuple(found)


def _remaining_events(
    state: ChainState | None, events: Sequence[MetadataEvent]
) -> Iterator[MetadataEvent]:
    """Yield the events in force that others leave in force."""
    if state is None:
        return
    vocab = state.vocab
    names = SetVocab(
        offset_column=vocab.offset_column,
        operation_type_column=vocab.operation_type_column,
        system_time_column=vocab.system_time_column,
        event_time_column=vocab.event_time_column,
    )
    replaced = {(type(each), getattr(each, "source_name", None)) for each in events}
    if any(isinstance(each, DisablePollingSource) for each in events):
        replaced.add((SetPollingSource, None))
    for each in (state.transform, *state.sources, names):
        if each is not None and (type(each), getattr(each, "source_name", None)) not in replaced:
            yield each


def _definition(alias: DatasetAlias, planned: Planned, events: Sequence[MetadataEvent]) -> Declared:
    span = planned.place or SourceSpan(file=str(alias), line=1)
    snapshot = DatasetSnapshot(name=alias, kind=planned.kind, metadata=tuple(events))
    return Declared(
        alias=alias,
        snapshot=snapshot,
        written=snapshot,
        file=span.file,
        document=0,
        places=_OnePlace(span),
        instance=span.instance,
    )


@dataclass(frozen=True, slots=True)
class _OnePlace:
    """The one place that is known of a definition, for all of its values."""

    span: SourceSpan

    def value(self, path: PathSteps) -> SourceSpan:  # noqa: ARG002
        return self.span

    def key(self, path: PathSteps) -> SourceSpan:  # noqa: ARG002
        return self.span

    def inside(
        self,
        path: PathSteps,  # noqa: ARG002
        text: str,  # noqa: ARG002
        offset: int,  # noqa: ARG002
        length: int = 1,  # noqa: ARG002
    ) -> SourceSpan:
        return self.span
