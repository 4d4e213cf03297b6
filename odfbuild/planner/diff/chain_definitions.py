"""Definitions as chains have them in force, and chains as definitions would make them.  Pure.

The inverse of `diff`: what a chain took from its engine (the schema of its data, the version that
made it) is left out, and so is what holds by itself.

No workspace is needed for that.  Ids are made of the names, so that a dataset and its inputs keep
theirs from one revision to the other; heads are hashes of the definitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import PlanError
from odfbuild.odf.chain.state import ChainState, fold, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DataSchema,
    DatasetSnapshot,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.opaque import is_opaque, opaque_parts
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.columns import system_fields
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import diff, vocabulary_event
from odfbuild.values import dataclass

_THEN = Timestamp(0)


def imagined(
    declared: Sequence[Declared],
    *,
    engines: Mapping[str, str],
    schemas: Mapping[DatasetAlias, DataSchema],
) -> Mapping[DatasetAlias, ChainState]:
    """Return the states of datasets in topological order, each with its definition in force.

    `schemas` are the data schemas that are known, such as those of the lock file, without system
    columns but for the event time.
    """
    ids = {each.alias: imagined_id(each.alias) for each in declared}

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return ids.get(ref, ref) if isinstance(ref, DatasetAlias) else ref

    states: dict[DatasetAlias, ChainState] = {}
    for each in declared:
        events: list[MetadataEvent] = [Seed(ids[each.alias], each.snapshot.kind)]
        events += [change.event for change in diff(each.snapshot, None, resolve, engines)]
        schema = schemas.get(each.alias)
        if schema is not None and not any(isinstance(event, SetDataSchema) for event in events):
            events.append(SetDataSchema(schema=_stored_schema(schema, events)))
        states[each.alias] = _state_of(events)
    return states


def imagined_id(alias: DatasetAlias) -> DatasetId:
    """Return the id that stands for a dataset of that name."""
    return DatasetId(sha3_256(str(alias).lower().encode()).digest)


def _stored_schema(schema: DataSchema, events: Sequence[MetadataEvent]) -> DataSchema:
    """Put the system columns before the data columns."""
    named = next((event for event in events if isinstance(event, SetVocab)), SetVocab())
    vocab = vocabulary(named)
    times = [field.type for field in schema.fields if field.name == vocab.event_time_column]
    system = system_fields(vocab, *times)
    return DataSchema(
        (*system, *(each for each in schema.fields if each.name != vocab.event_time_column))
    )


def _state_of(events: Sequence[MetadataEvent]) -> ChainState:
    state: ChainState | None = None
    for number, event in enumerate(events):
        block = MetadataBlock(
            system_time=_THEN,
            prev_block_hash=None if state is None else state.head,
            sequence_number=number,
            event=event,
        )
        state = fold(state, block, block_hash(encode_block(block)))
    if state is None:
        raise ValueError("a chain has at least its Seed")
    return state


@dataclass(frozen=True, slots=True)
class InForce:
    """The declared datasets as their chains have them; of these, `pending` are declared otherwise.

    `missing` are declared and not made yet.  A dataset that is to get another name has its old one,
    and is among the pending.
    """

    declared: tuple[Declared, ...]
    pending: tuple[DatasetAlias, ...]
    missing: tuple[DatasetAlias, ...]


def as_in_force(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    moved: Mapping[DatasetAlias, DatasetAlias],
    engines: Mapping[str, str],
) -> InForce:
    """Return the definitions in force of declared datasets; `moved` has old names by new ones."""
    found, pending, missing = [], [], []
    for each in declared:
        old = moved.get(each.alias)
        alias = old if each.alias not in current and old in current else each.alias
        assert alias is not None  # noqa: S101 - an old name that is not there is not taken
        state = current.get(alias)
        if state is None:
            missing.append(each.alias)
            continue
        snapshot = replace(
            each.snapshot, name=alias, kind=state.kind, metadata=_events_of_state(state)
        )
        if alias != each.alias or _differs(each, state, current, engines):
            pending.append(alias)
        found.append(replace(each, alias=alias, snapshot=snapshot))
    return InForce(tuple(found), tuple(pending), tuple(missing))


def _events_of_state(state: ChainState) -> tuple[MetadataEvent, ...]:
    given = (
        *state.sources,
        state.transform,
        state.info,
        state.license,
        state.attachments,
        vocabulary_event(state),
    )
    return tuple(event for event in given if event is not None)


def _differs(
    each: Declared,
    state: ChainState,
    current: Mapping[DatasetAlias, ChainState],
    engines: Mapping[str, str],
) -> bool:
    """Say whether an apply would append to a chain, or refuse to."""
    from odfbuild.errors import PlanError

    names = {alias: known.dataset for alias, known in current.items()}
    try:
        return bool(
            diff(
                each.snapshot,
                state,
                lambda ref: names.get(ref, ref) if isinstance(ref, DatasetAlias) else ref,
                engines,
            )
        )
    except PlanError:
        return True


_NOTHING = SetAttachments(AttachmentsEmbedded(()))


class UndeclarableError(PlanError):
    """What is in force in a chain cannot be expressed by a definition."""

    code = "undeclarable"


def inputs_of(state: ChainState) -> tuple[DatasetId, ...]:
    """Return the datasets that the transform in force reads, each once, in its order."""
    given = () if state.transform is None else state.transform.inputs
    ids = (each.dataset_ref for each in given)
    return tuple(dict.fromkeys(each for each in ids if isinstance(each, DatasetId)))


def snapshot_of(
    state: ChainState, name: DatasetAlias, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetSnapshot:
    """Return the definition of a chain as it stands, under a name.

    Inputs are called by their `names`, by their ids where they have none.  Raises UndeclarableError
    when the chain says something that only a newer version understands.
    """
    snapshot = DatasetSnapshot(name, state.kind, tuple(_events(state, names)))
    for each in opaque_parts(snapshot):
        raise UndeclarableError(
            what=f"{name} has a {each.union} of a kind that is not known (number {each.tag})",
            why="a newer version of the format has it, and a definition must say what it is",
            fix="update odfbuild; with --no-definition the chain is imported for reading",
        )
    return snapshot


def _events(state: ChainState, names: Mapping[DatasetId, DatasetAlias]) -> Iterator[MetadataEvent]:
    yield from map(_written_source, state.sources)
    if state.transform is not None:
        yield _written_transform(state.transform, names)
    if (vocab := _written_vocab(state)) != SetVocab():
        yield vocab
    if state.info not in (None, SetInfo()):
        yield state.info
    if state.license is not None:
        yield state.license
    if state.attachments not in (None, _NOTHING):
        yield state.attachments


def _written_source(event: SetPollingSource | AddPushSource) -> SetPollingSource | AddPushSource:
    if event.preprocess is None or is_opaque(event.preprocess):
        return event
    return replace(event, preprocess=_written_query(event.preprocess))


def _written_transform(
    event: SetTransform, names: Mapping[DatasetId, DatasetAlias]
) -> SetTransform:
    inputs = tuple(
        TransformInput(_alias_of(each.dataset_ref, names), each.alias) for each in event.inputs
    )
    if is_opaque(event.transform):
        return replace(event, inputs=inputs)
    return replace(event, inputs=inputs, transform=_written_query(event.transform))


def _alias_of(
    ref: DatasetAlias | DatasetId, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetAlias | DatasetId:
    return names.get(ref, ref) if isinstance(ref, DatasetId) else ref


def _written_query(transform: TransformSql) -> TransformSql:
    """Return a query as people write it: one step in the short form, without a version."""
    plain = replace(transform, version=None)
    steps = plain.queries or ()
    if plain.query is None and len(steps) == 1 and steps[0].alias is None:
        return replace(plain, query=steps[0].query, queries=None)
    return plain


def _written_vocab(state: ChainState) -> SetVocab:
    """Return the names of system columns that are not the usual ones."""
    usual, vocab = vocabulary(SetVocab()), state.vocab
    return SetVocab(
        offset_column=_unless(vocab.offset_column, usual.offset_column),
        operation_type_column=_unless(vocab.operation_type_column, usual.operation_type_column),
        system_time_column=_unless(vocab.system_time_column, usual.system_time_column),
        event_time_column=_unless(vocab.event_time_column, usual.event_time_column),
    )


def _unless(name: str | None, usual: str | None) -> str | None:
    return None if name == usual else name
