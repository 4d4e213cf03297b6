"""Declared: a dataset as the project wants it, in normal form, and where it was written.  Pure."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Protocol

from odfbuild.errors import PlanError, SourceSpan
from odfbuild.odf.events import (
    AddPushSource,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import Traits
from odfbuild.planner.plan.remote_inputs import RemoteInput
from odfbuild.values import dataclass

PathSteps = Sequence[str | int]

_NO_TRAITS = Traits()


class NotDeclaredError(PlanError):
    """A dataset has no definition, but needs one."""

    code = "not-declared"


class PathSpans(Protocol):
    """Where values and keys are written, by their path from the top of the manifest."""

    def value(self, path: PathSteps) -> SourceSpan: ...

    def key(self, path: PathSteps) -> SourceSpan: ...

    def inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One dataset of the project.

    `snapshot` is in normal form and is what gets compared; `written` is what the file says.
    `file` is relative to the project, with forward slashes; `document` counts from 0 within it.
    `instance` names one of the datasets that a template makes, `package` where the definition
    comes from if not from the project itself.  `remote` are its inputs that are datasets of
    repositories; in the snapshots their ids stand.
    """

    alias: DatasetAlias
    snapshot: DatasetSnapshot
    written: DatasetSnapshot
    file: str
    document: int
    places: PathSpans = field(compare=False, repr=False)
    traits: Traits = _NO_TRAITS
    instance: str | None = None
    package: str | None = None
    remote: tuple[RemoteInput, ...] = ()

    def span(self, path: PathSteps = ()) -> SourceSpan:
        """Return where a value of the snapshot is written, or its nearest ancestor; of the
        snapshot itself (the empty path), where its name is.
        """
        return self.places.value(("content", *(path or ("name",))))

    def input_span(self, name: str) -> SourceSpan:
        """Return where the input of a name or an id is named; the dataset's name if it is none."""
        called = {str(each.id): str(each.alias) for each in self.remote}
        for at, event in enumerate(self.snapshot.metadata):
            if isinstance(event, SetTransform):
                for number, each in enumerate(event.inputs):
                    ref = str(each.dataset_ref)
                    if name in {ref, called.get(ref)}:
                        return self.span(("metadata", at, "inputs", number, "datasetRef"))
        return self.span()

    def alias_span(self, alias: str) -> SourceSpan:
        """Return where the input is named that a query calls so; the dataset's name if none is."""
        for event in self.snapshot.metadata:
            for each in event.inputs if isinstance(event, SetTransform) else ():
                if alias in {each.alias, str(each.dataset_ref)}:
                    return self.input_span(str(each.dataset_ref))
        return self.span()

    def key_span(self, path: PathSteps) -> SourceSpan:
        """Return where the key of a value of the snapshot is written."""
        return self.places.key(("content", *path))

    def span_inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan:
        """Return where a part of a text is written, such as a name in a query: `text` as read."""
        return self.places.inside(("content", *path), text, offset, length)


def normalize(snapshot: DatasetSnapshot) -> DatasetSnapshot:
    """Return a snapshot in the form in which it goes into a chain.

    A single `query` becomes one step of `queries`; an input without an alias is called as it is
    referred to ("SetTransform").  What is left out stays left out.  A source that a later event
    disables is left out as well: that event is in its place.
    """
    events = in_effect(snapshot.metadata)
    return replace(snapshot, metadata=tuple(_normal_event(each) for each in events))


def in_effect(metadata: Sequence[MetadataEvent]) -> tuple[MetadataEvent, ...]:
    """Return events with each source that a later one disables replaced by that one.

    What a definition disables is what it does not declare, so the end of a source says no more
    than leaving it out (ODF 0.34.1, "DisablePollingSource", "DisablePushSource").
    """
    ends: dict[object, MetadataEvent] = {}
    found: list[MetadataEvent] = []
    for event in reversed(metadata):
        match event:
            case DisablePollingSource():
                ends[SetPollingSource] = event
            case DisablePushSource(source_name=name):
                ends[name] = event
            case SetPollingSource():
                event = ends.get(SetPollingSource, event)  # noqa: PLW2901
            case AddPushSource(source_name=name):
                event = ends.get(name, event)  # noqa: PLW2901
        found.append(event)
    return tuple(reversed(found))


def _normal_event(event: MetadataEvent) -> MetadataEvent:
    if isinstance(event, SetTransform):
        inputs = tuple(_normal_input(each) for each in event.inputs)
        return replace(event, inputs=inputs, transform=_normal_transform(event.transform))
    if isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
        return replace(event, preprocess=_normal_transform(event.preprocess))
    return event


def _normal_input(given: TransformInput) -> TransformInput:
    return given if given.alias is not None else replace(given, alias=str(given.dataset_ref))


def _normal_transform(transform: TransformSql) -> TransformSql:
    if transform.query is None or transform.queries:
        return transform
    return replace(transform, query=None, queries=(SqlQueryStep(query=transform.query),))


def polling_of(each: Declared) -> SetPollingSource | None:
    return next(
        (event for event in each.snapshot.metadata if isinstance(event, SetPollingSource)), None
    )
