"""What is in force in a chain in the place that an event would take.  Pure."""

from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import (
    AddPushSource,
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
)

__all__ = ["in_force", "vocabulary_event"]


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
