"""Whether an event may follow a chain state.

The profiles agree but for the places that say `profile`.
"""

from odfbuild.odf.chain_data import check_add_data, check_execute_transform
from odfbuild.odf.chain_definitions import (
    check_disable,
    check_polling_source,
    check_push_source,
    check_set_data_schema,
    check_set_transform,
    check_set_vocab,
)
from odfbuild.odf.chain_errors import invalid
from odfbuild.odf.chain_profile import Profile
from odfbuild.odf.chain_state import ChainState
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
)

__all__ = ["check_event"]


def check_event(state: ChainState | None, event: MetadataEvent, profile: Profile) -> None:
    """Refuse an event that may not follow the state; annotations always may."""
    if state is None:
        return
    if profile is Profile.SPEC:
        _check_kind(state, event)
    match event:
        case AddData():
            check_add_data(state, event)
        case ExecuteTransform():
            check_execute_transform(state, event, profile)
        case SetPollingSource():
            check_polling_source(state, event, profile)
        case AddPushSource():
            check_push_source(state, event, profile)
        case DisablePollingSource() | DisablePushSource():
            check_disable(state, event, profile)
        case SetTransform():
            check_set_transform(event, profile)
        case SetDataSchema():
            check_set_data_schema(state, event, profile)
        case SetVocab() if profile is Profile.SPEC:
            check_set_vocab(state, event)
        case _:
            pass


_ROOT_ONLY = (AddData, SetPollingSource, AddPushSource, DisablePollingSource, DisablePushSource)
_DERIVATIVE_ONLY = (ExecuteTransform, SetTransform)


def _check_kind(state: ChainState, event: MetadataEvent) -> None:
    """The references leave this open; the specification words each event for one kind."""
    refused = _DERIVATIVE_ONLY if state.kind is DatasetKind.ROOT else _ROOT_ONLY
    if isinstance(event, refused):
        raise invalid(
            event,
            f"does not belong into a {state.kind.value} dataset",
            'roots take in data, derivatives transform it (ODF 0.34.1, "MetadataEvent")',
            "check the kind of the dataset",
        )
