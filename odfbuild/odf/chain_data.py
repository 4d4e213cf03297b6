"""Whether a data event may follow a chain state: watermarks, offsets, checkpoints and inputs."""

from odfbuild.odf.chain_errors import (
    InvalidEventError,
    OffsetsAreNotSequentialError,
    WatermarkIsNotMonotonicError,
    invalid,
    no_op,
)
from odfbuild.odf.chain_profile import Profile
from odfbuild.odf.chain_state import (
    ChainState,
    checkpoint_of,
    last_block_of,
    last_offset_read,
)
from odfbuild.odf.events import AddData, ExecuteTransform, ExecuteTransformInput

__all__ = ["check_add_data", "check_execute_transform"]


def _check_data(state: ChainState, event: AddData | ExecuteTransform) -> None:
    """Check what both data events have in common, against the latest event of either type."""
    _check_watermark(state, event)
    _check_offsets(state, event)
    if event.new_data is not None and state.schema is None:
        raise invalid(
            event,
            "adds data to a dataset without a schema",
            'the schema of a slice is set before the slice (ODF 0.34.1, "SetDataSchema")',
            "append a SetDataSchema first",
        )


def _check_watermark(state: ChainState, event: AddData | ExecuteTransform) -> None:
    old, new = state.watermark, event.new_watermark
    if old is None or (new is not None and new >= old):
        return
    raise WatermarkIsNotMonotonicError(
        what=f"the watermark {old} is dropped" if new is None else f"{new} is before {old}",
        why=f'watermarks are carried and never go back (ODF 0.34.1, "{type(event).__name__}")',
        fix=f"carry the watermark {old}, or set a later one",
    )


def _check_offsets(state: ChainState, event: AddData | ExecuteTransform) -> None:
    if event.prev_offset != state.last_offset:
        raise invalid(
            event,
            f"prevOffset is {event.prev_offset}, the last offset is {state.last_offset}",
            f'it is the end of the last slice (ODF 0.34.1, "{type(event).__name__}")',
            "build the event on the head of the chain",
        )
    if event.new_data is None:
        return
    interval = event.new_data.offset_interval
    expected = 0 if event.prev_offset is None else event.prev_offset + 1
    if interval.start != expected:
        raise OffsetsAreNotSequentialError(expected, interval.start)
    if interval.end < interval.start:
        raise invalid(
            event,
            f"the slice ends at {interval.end}, before its start {interval.start}",
            'both ends of an OffsetInterval belong to it (ODF 0.34.1, "OffsetInterval")',
            "leave newData out when there are no records",
        )


def _check_prev_checkpoint(
    event: AddData | ExecuteTransform, last: AddData | ExecuteTransform | None
) -> None:
    expected = checkpoint_of(last)
    if event.prev_checkpoint != expected:
        raise invalid(
            event,
            f"prevCheckpoint is {event.prev_checkpoint}, the last checkpoint is {expected}",
            "a step continues from the checkpoint of the step before it",
            "build the event on the head of the chain",
        )


def _brings_nothing_new(
    event: AddData | ExecuteTransform, last: AddData | ExecuteTransform | None
) -> bool:
    return (
        event.new_data is None
        and checkpoint_of(event) == event.prev_checkpoint
        and event.new_watermark == (None if last is None else last.new_watermark)
    )


def check_add_data(state: ChainState, event: AddData) -> None:
    new = (event.new_data, event.new_checkpoint, event.new_watermark, event.new_source_state)
    if new == (None, None, None, None):
        raise no_op(event, "is empty")
    _check_data(state, event)
    last = state.last_add_data
    _check_prev_checkpoint(event, last)
    last_source_state = None if last is None else last.new_source_state
    if _brings_nothing_new(event, last) and event.new_source_state == last_source_state:
        raise no_op(event, "moves neither data, checkpoint, watermark nor source state")


def check_execute_transform(state: ChainState, event: ExecuteTransform, profile: Profile) -> None:
    if (event.new_data, event.new_checkpoint, event.new_watermark) == (None, None, None):
        raise no_op(event, "is empty")
    _check_data(state, event)
    _check_input_ids(state, event)
    _check_input_intervals(state, event, profile)
    last = state.last_execute_transform
    _check_prev_checkpoint(event, last)
    # the reference of 2024 did not count moved inputs as news
    counts_inputs = profile is not Profile.REFERENCE_2024
    moved = counts_inputs and any(each.new_block_hash is not None for each in event.query_inputs)
    if _brings_nothing_new(event, last) and not moved:
        raise no_op(event, "moves neither data, inputs, checkpoint nor watermark")


def _check_input_ids(state: ChainState, event: ExecuteTransform) -> None:
    declared = _declared_inputs(state)
    if declared is None:
        raise invalid(
            event,
            "no SetTransform comes before it",
            "an execution needs to know what it executes",
            "append a SetTransform first",
        )
    if tuple(each.dataset_id for each in event.query_inputs) != declared:
        raise invalid(
            event,
            "its inputs are not those of SetTransform, in the same order",
            'every input is accounted for in each step (ODF 0.34.1, "ExecuteTransform")',
            "list the inputs as SetTransform does",
        )


def _declared_inputs(state: ChainState) -> tuple[object, ...] | None:
    if state.transform is not None:
        return tuple(each.dataset_ref for each in state.transform.inputs)
    last = state.last_execute_transform
    return None if last is None else tuple(each.dataset_id for each in last.query_inputs)


def _check_input_intervals(state: ChainState, event: ExecuteTransform, profile: Profile) -> None:
    for new, known in _paired(state, event, profile):
        if new.new_block_hash is not None and new.new_block_hash == new.prev_block_hash:
            raise _bad_interval(event, new, "its block interval is empty, yet has an end")
        if new.new_offset is not None and new.new_offset == new.prev_offset:
            raise _bad_interval(event, new, "its offset interval is empty, yet has an end")
        if new.prev_block_hash != (None if known is None else last_block_of(known)):
            raise _bad_interval(event, new, "prevBlockHash is not the last block read before")
        if new.prev_offset != (None if known is None else last_offset_read(known)):
            raise _bad_interval(event, new, "prevOffset is not the last offset read before")
        if new.new_offset is not None and new.new_block_hash is None:
            raise _bad_interval(event, new, "it has new records without a new block")


def _paired(
    state: ChainState, event: ExecuteTransform, profile: Profile
) -> tuple[tuple[ExecuteTransformInput, ExecuteTransformInput | None], ...]:
    """Pair each input with how far it was read before.

    The references go by place and leave the first execution alone.  That confuses inputs when a
    SetTransform has changed them, so we go by id and by all that was ever read.
    """
    if profile is Profile.SPEC:
        read = state.progress
        return tuple((each, read.get(each.dataset_id)) for each in event.query_inputs)
    last = state.last_execute_transform
    return () if last is None else tuple(zip(event.query_inputs, last.query_inputs, strict=False))


def _bad_interval(
    event: ExecuteTransform, read: ExecuteTransformInput, what: str
) -> InvalidEventError:
    return invalid(
        event,
        f"input {read.dataset_id}: {what}",
        'each step reads on where the last one stopped (ODF 0.34.1, "ExecuteTransformInput")',
        "build the event on the head of the chain",
    )
