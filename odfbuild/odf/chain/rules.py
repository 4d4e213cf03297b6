"""The rules by which an event may follow a chain state.

The profiles agree but for the places that say `profile`.
"""

from dataclasses import fields

from odfbuild.odf.chain.errors import (
    ChainProfile,
    InvalidEventError,
    OffsetsAreNotSequentialError,
    WatermarkIsNotMonotonicError,
    invalid,
    no_op,
)
from odfbuild.odf.chain.schema import check_forms, check_schema
from odfbuild.odf.chain.state import (
    ChainState,
    checkpoint_of,
    last_block_of,
    last_offset_read,
    vocabulary,
)
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    FetchStepEthereumLogs,
    MetadataEvent,
    ReadStep,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Transform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque, opaque_parts


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


def check_add_data(state: ChainState, event: AddData, profile: ChainProfile) -> None:
    new = (event.new_data, event.new_checkpoint, event.new_watermark, event.new_source_state)
    if new == (None, None, None, None):
        raise no_op(event, "is empty")
    _check_data(state, event)
    last = state.last_add_data
    _check_prev_checkpoint(event, last)
    last_source_state = None if last is None else last.new_source_state
    if _brings_nothing_new(event, last) and event.new_source_state == last_source_state:
        raise no_op(event, "moves neither data, checkpoint, watermark nor source state")
    if profile is ChainProfile.SPEC:
        _check_source(state, event)


def _check_source(state: ChainState, event: AddData) -> None:
    """Refuse the state of a source that was never declared, in a dataset that is pushed to.

    Polling sources have no names, so their state may have any (`default` is usual, RFC-009 has
    `odf/polling`), and the references write states without sources.  Of a source that has ended,
    the state may be carried.
    """
    new, last = event.new_source_state, state.last_add_data
    carried = None if last is None else last.new_source_state
    known = {*state.push, *state.source_state}
    if carried is not None:
        known.add(carried.source_name)
    if new is None or not state.push or new.source_name in known:
        return
    raise invalid(
        event,
        f"it has the state of a source {new.source_name!r}, which was never declared",
        'a state belongs to a source of the dataset (ODF 0.34.1, "SourceState")',
        f"give the state of one that is declared: {', '.join(sorted(state.push))}",
    )


def check_execute_transform(
    state: ChainState, event: ExecuteTransform, profile: ChainProfile
) -> None:
    if (event.new_data, event.new_checkpoint, event.new_watermark) == (None, None, None):
        raise no_op(event, "is empty")
    _check_data(state, event)
    _check_input_ids(state, event)
    _check_input_intervals(state, event, profile)
    last = state.last_execute_transform
    _check_prev_checkpoint(event, last)
    # the reference of 2024 did not count moved inputs as news
    counts_inputs = profile is not ChainProfile.REFERENCE_2024
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


def _check_input_intervals(
    state: ChainState, event: ExecuteTransform, profile: ChainProfile
) -> None:
    for new, known in _with_progress(state, event, profile):
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


def _with_progress(
    state: ChainState, event: ExecuteTransform, profile: ChainProfile
) -> tuple[tuple[ExecuteTransformInput, ExecuteTransformInput | None], ...]:
    """Pair each input with how far it was read before.

    The references go by place and leave the first execution alone.  That confuses inputs when a
    SetTransform has changed them, so we go by id and by all that was ever read.
    """
    if profile is ChainProfile.SPEC:
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


def check_polling_source(state: ChainState, event: SetPollingSource, profile: ChainProfile) -> None:
    _check_reading(event, event.read, event.preprocess, profile)
    if isinstance(event.fetch, FetchStepEthereumLogs) and (
        event.fetch.chain_id is None and event.fetch.node_url is None
    ):
        raise invalid(
            event,
            "the source names neither chainId nor nodeUrl",
            "logs are read from one chain, so it has to be known",
            "give chainId or nodeUrl",
        )
    if state.push:
        raise invalid(
            event,
            f"the dataset has push sources: {', '.join(sorted(state.push))}",
            "a dataset is either polled or pushed to",
            "disable the push sources first",
        )


def check_push_source(state: ChainState, event: AddPushSource, profile: ChainProfile) -> None:
    _check_reading(event, event.read, event.preprocess, profile)
    if profile is ChainProfile.REFERENCE_2024 and _lacks_ddl(event.read):
        raise invalid(
            event,
            "the read step has no schema",
            "the reference of 2024 did not infer schemas of pushed data",
            "give read.schema",
        )
    if state.polling is not None:
        raise invalid(
            event,
            "the dataset has a polling source",
            "a dataset is either polled or pushed to",
            "disable the polling source first",
        )
    if profile is not ChainProfile.REFERENCE_2024 and _is_same(
        state.push.get(event.source_name), event
    ):
        raise no_op(event, f"the source {event.source_name!r} is already so")


def check_set_vocab(state: ChainState, event: SetVocab) -> None:
    """Refuse a name of two system columns, and other names once there are columns ("SetVocab")."""
    _check_names(event)
    if state.schema is not None and vocabulary(event) != state.vocab:
        raise invalid(
            event,
            "the dataset has a schema, whose system columns have other names",
            "every slice has to be read with one vocabulary",
            "set the vocabulary before the first data, or start a new dataset",
        )


def _check_names(event: SetVocab) -> None:
    vocab = vocabulary(event)
    names = [getattr(vocab, each.name) for each in fields(vocab)]
    twice = next((name for name in names if names.count(name) > 1), None)
    empty = any(getattr(event, each.name) == "" for each in fields(event))
    if twice is not None or empty:
        raise invalid(
            event,
            "a system column has an empty name"
            if twice is None
            else f"{twice!r} is the name of two system columns",
            'a record has all four of them (ODF 0.34.1, "DatasetVocabulary")',
            "give each its own name",
        )


def _lacks_ddl(read: ReadStep) -> bool:
    return not is_opaque(read) and read.ddl_schema is None


def _is_same(known: AddPushSource | None, new: AddPushSource) -> bool:
    """Say whether sources are equal; of parts that we do not know, only the kind is compared."""
    return known == new and not any(opaque_parts(new))


def _check_reading(
    event: SetPollingSource | AddPushSource,
    read: ReadStep,
    preprocess: Transform | None,
    profile: ChainProfile,
) -> None:
    if preprocess is not None and not is_opaque(preprocess):
        _check_normal_form(event, preprocess)
    if is_opaque(read):
        return
    both = read.ddl_schema is not None and read.schema is not None
    if both and profile is not ChainProfile.REFERENCE_2024:
        raise invalid(
            event,
            "the read step has both a DDL and an ODF schema",
            "two schemas may contradict each other",
            "keep one of them",
        )


def check_disable(
    state: ChainState, event: DisablePollingSource | DisablePushSource, profile: ChainProfile
) -> None:
    if profile is not ChainProfile.SPEC:
        raise invalid(
            event,
            "the reference cannot append it",
            "it does not implement the end of a source",
            "use the rules of the specification",
        )
    known = (
        state.polling is not None
        if isinstance(event, DisablePollingSource)
        else event.source_name in state.push
    )
    if not known:
        raise invalid(
            event,
            "there is no such source",
            f'it ends a source that is in force (ODF 0.34.1, "{type(event).__name__}")',
            "leave the event out, or check the name of the source",
        )


def check_set_transform(event: SetTransform, profile: ChainProfile) -> None:
    if not event.inputs:
        raise invalid(
            event,
            "has no inputs",
            "a derivative dataset is made of others",
            "name at least one input",
        )
    ids = [each.dataset_ref for each in event.inputs]
    if len(set(ids)) < len(ids) and profile is not ChainProfile.REFERENCE_2024:
        raise invalid(
            event,
            "names an input twice",
            "progress is kept for each input by its id",
            "name the input once and use it twice in the query",
        )
    for each in event.inputs:
        if not isinstance(each.dataset_ref, DatasetId) or each.alias is None:
            raise invalid(
                event,
                f"input {each.dataset_ref} is not resolved",
                "names can change their meaning, so blocks keep the id and an alias"
                ' (ODF 0.34.1, "TransformInput")',
                "give the id of the input and the name that the query uses",
            )
    if not is_opaque(event.transform):
        _check_normal_form(event, event.transform)


def _check_normal_form(event: MetadataEvent, transform: Transform) -> None:
    steps = transform.queries or ()
    why = 'blocks keep queries as a list of steps (ODF 0.34.1, "Transform::Sql")'
    if transform.query is not None:
        raise invalid(event, "`query` is a short form", why, "put the query into `queries`")
    if not steps:
        raise invalid(event, "has no query", why, "give at least one query")
    if steps[-1].alias is not None:
        raise invalid(event, "the last query has an alias", why, "leave the last alias out")
    if any(each.alias is None for each in steps[:-1]):
        raise invalid(event, "a query before the last has no alias", why, "give it an alias")


def check_set_data_schema(state: ChainState, event: SetDataSchema, profile: ChainProfile) -> None:
    if event.raw_arrow_schema is None and event.schema is None:
        raise invalid(event, "has no schema", "it sets one", "give a schema")
    if profile is ChainProfile.SPEC:
        check_forms(event)
    if profile is ChainProfile.REFERENCE_2024 or state.schema is None:
        return
    if event.schema is None and profile is ChainProfile.REFERENCE_HEAD:
        return
    check_schema(state.schema, event)


def check_event(state: ChainState | None, event: MetadataEvent, profile: ChainProfile) -> None:
    """Refuse an event that may not follow the state; annotations always may."""
    if state is None:
        return
    if profile is ChainProfile.SPEC:
        _check_kind(state, event)
    match event:
        case AddData():
            check_add_data(state, event, profile)
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
        case SetVocab() if profile is ChainProfile.SPEC:
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
            'roots ingest data, derivatives transform it (ODF 0.34.1, "MetadataEvent")',
            "check the kind of the dataset",
        )
