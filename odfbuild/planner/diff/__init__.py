"""A declared snapshot against the events in force: what has to be appended, or a refusal.

Pure.  The snapshot says what should hold; what it leaves out and a chain cannot unsay is left as
it is, what a chain can end is ended (ODF 0.34.1, "DisablePollingSource", "DisablePushSource").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import PlanError
from odfbuild.odf.chain.schema import schema_of
from odfbuild.odf.chain.state import (
    ChainState,
    image_digest,
    plain_version,
    vocabulary,
)
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    MetadataEvent,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.values import dataclass


def in_force(event: MetadataEvent, state: ChainState) -> MetadataEvent | None:
    """Return the event that another one would replace or end; None if there is none."""
    match event:
        case SetInfo():
            return state.info
        case SetLicense():
            return state.license
        case SetAttachments():
            return state.attachments
        case SetVocab():
            return vocabulary_event(state)
        case SetPollingSource() | DisablePollingSource():
            return state.polling
        case AddPushSource() | DisablePushSource():
            return state.push.get(event.source_name)
        case SetTransform():
            return state.transform
        case SetDataSchema():
            return state.schema
        case _:
            return None


def vocabulary_event(state: ChainState) -> SetVocab:
    """Return the names of the system columns as the event that would set them."""
    vocab = state.vocab
    return SetVocab(
        offset_column=vocab.offset_column,
        operation_type_column=vocab.operation_type_column,
        system_time_column=vocab.system_time_column,
        event_time_column=vocab.event_time_column,
    )


Resolve = Callable[[DatasetAlias | DatasetId], DatasetAlias | DatasetId]


@dataclass(frozen=True, slots=True)
class EventChange:
    """One event to append, and the index of the declared event that asks for it (None: absence)."""

    event: MetadataEvent
    index: int | None


class KindChangedError(PlanError):
    """A dataset cannot change from root to derivative or back."""

    code = "kind-changed"


class VocabChangedError(PlanError):
    """The names of system columns cannot change once there is data."""

    code = "vocab-changed"


def diff(
    declared: DatasetSnapshot,
    state: ChainState | None,
    resolve: Resolve,
    engines: Mapping[str, str],
) -> tuple[EventChange, ...]:
    """Return the events that bring the chain to what is declared, in the order to append them.

    `state` is None for a dataset that does not exist yet; its Seed is not among the events, since
    only the creation of the dataset gives it an id.  `engines` names the installed engines and
    their versions, and those of images with their digests: a transform without a version gets it.
    Raises KindChangedError, VocabChangedError.
    """
    wanted = [
        EventChange(_complete(event, resolve, engines), index)
        for index, event in enumerate(declared.metadata)
        if not isinstance(event, DisablePollingSource | DisablePushSource)
    ]
    if state is None:
        return tuple(wanted)
    if state.kind is not declared.kind:
        raise _kind_changed(state.kind, declared.kind)
    changed = [change for change in wanted if not _in_force(change.event, state, engines)]
    if any(isinstance(change.event, SetVocab) for change in changed) and state.schema is not None:
        raise _vocab_changed(declared.name)
    return (*_end_events(wanted, state, declared.metadata), *changed)


def own_versions(engines: Mapping[str, str]) -> Mapping[str, str]:
    """Return the engines that are installed here, without those of images."""
    return {name: each for name, each in engines.items() if image_digest(each) is None}


def _complete(event: MetadataEvent, resolve: Resolve, engines: Mapping[str, str]) -> MetadataEvent:
    if isinstance(event, SetTransform):
        inputs = tuple(
            TransformInput(resolve(each.dataset_ref), each.alias) for each in event.inputs
        )
        return replace(event, inputs=inputs, transform=_with_version(event.transform, engines))
    if isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
        own = own_versions(engines)
        return replace(event, preprocess=_with_version(event.preprocess, own))
    return event


def _with_version(transform: TransformSql, engines: Mapping[str, str]) -> TransformSql:
    if transform.version is not None:
        return transform
    return replace(transform, version=engines.get(transform.engine))


def _in_force(event: MetadataEvent, state: ChainState, engines: Mapping[str, str]) -> bool:
    match event:
        case SetInfo():
            return event == (state.info or SetInfo())
        case SetLicense():
            return event == state.license
        case SetAttachments():
            return event == state.attachments
        case SetVocab():
            return vocabulary(event) == state.vocab
        case SetPollingSource():
            return state.polling is not None and _same_source(event, state.polling)
        case AddPushSource():
            known = state.push.get(event.source_name)
            return known is not None and _same_source(event, known)
        case SetTransform():
            return state.transform is not None and _same_transform(event, state.transform, engines)
        case SetDataSchema():
            return state.schema is not None and schema_of(event) == schema_of(state.schema)
        case _:
            return False


def _same_source(
    declared: SetPollingSource | AddPushSource, known: SetPollingSource | AddPushSource
) -> bool:
    """Compare sources; the engine version of a preprocess query is no change of the source."""
    return _without_version(declared) == _without_version(known)


def _without_version(
    event: SetPollingSource | AddPushSource,
) -> SetPollingSource | AddPushSource:
    if event.preprocess is None or is_opaque(event.preprocess):
        return event
    return replace(event, preprocess=replace(event.preprocess, version=None))


def _same_transform(
    declared: SetTransform, known: SetTransform, engines: Mapping[str, str]
) -> bool:
    """Compare queries; another version of an engine of ours is for `engine upgrade`, no change."""
    if is_opaque(known.transform):
        return False
    wanted, made = declared.transform, known.transform
    same_text = replace(wanted, version=None) == replace(made, version=None)
    if declared.inputs != known.inputs or not same_text:
        return False
    if wanted.engine in own_versions(engines):
        return True
    if wanted.version is None:
        return image_digest(made.version) is None
    return wanted.version == plain_version(made.version or "")


def _end_events(
    wanted: list[EventChange], state: ChainState, declared_events: Sequence[MetadataEvent]
) -> list[EventChange]:
    """Return the events that end what is in force and no longer declared, or declared as ended."""
    events = [change.event for change in wanted]
    ended: list[MetadataEvent] = []
    if state.polling is not None and not _any(events, SetPollingSource):
        ended.append(DisablePollingSource())
    declared = {event.source_name for event in events if isinstance(event, AddPushSource)}
    ended += [DisablePushSource(name) for name in state.push if name not in declared]
    if state.info not in (None, SetInfo()) and not _any(events, SetInfo):
        ended.append(SetInfo())
    nothing = SetAttachments(AttachmentsEmbedded(()))
    if state.attachments not in (None, nothing) and not _any(events, SetAttachments):
        ended.append(nothing)
    if (
        state.schema is None
        and state.vocab != vocabulary(SetVocab())
        and not _any(events, SetVocab)
    ):
        ended.append(SetVocab())
    at = {
        event: index
        for index, event in enumerate(declared_events)
        if isinstance(event, DisablePollingSource | DisablePushSource)
    }
    return [
        EventChange(
            event,
            at.get(event) if isinstance(event, DisablePollingSource | DisablePushSource) else None,
        )
        for event in ended
    ]


def _any(events: list[MetadataEvent], kind: type) -> bool:
    return any(isinstance(event, kind) for event in events)


def _kind_changed(was: DatasetKind, now: DatasetKind) -> KindChangedError:
    return KindChangedError(
        what=f"the dataset is a {was.value}, and is declared as a {now.value}",
        why='the kind is part of the first block of a chain (ODF 0.34.1, "Seed")',
        fix="declare it under another name",
    )


def _vocab_changed(name: DatasetAlias) -> VocabChangedError:
    return VocabChangedError(
        what="the names of the system columns differ from those in force",
        why='they cannot change once the dataset has a schema (ODF 0.34.1, "SetVocab")',
        fix=f"a new chain takes the new ones: odfbuild rebuild {name} --full --downstream; or put "
        "the SetVocab event back as it was",
    )
