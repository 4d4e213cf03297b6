"""The chains that definitions would make if they were applied now: to compare two revisions.  Pure.

No workspace is needed for that.  Ids are made of the names, so that a dataset and its inputs keep
theirs from one revision to the other; heads are hashes of the definitions.
"""

from collections.abc import Mapping, Sequence

from odfbuild.odf.chain import ChainState, fold, vocabulary
from odfbuild.odf.codec import block_hash, encode_block
from odfbuild.odf.events import (
    DataSchema,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetVocab,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema import system_fields
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import diff

__all__ = ["imagined", "imagined_id"]

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
            events.append(SetDataSchema(schema=_stored(schema, events)))
        states[each.alias] = _folded(events)
    return states


def imagined_id(alias: DatasetAlias) -> DatasetId:
    """Return the id that stands for a dataset of that name."""
    return DatasetId(sha3_256(str(alias).lower().encode()).digest)


def _stored(schema: DataSchema, events: Sequence[MetadataEvent]) -> DataSchema:
    """Put the system columns before the data columns."""
    named = next((event for event in events if isinstance(event, SetVocab)), SetVocab())
    vocab = vocabulary(named)
    times = [field.type for field in schema.fields if field.name == vocab.event_time_column]
    system = system_fields(vocab, *times)
    return DataSchema(
        (*system, *(each for each in schema.fields if each.name != vocab.event_time_column))
    )


def _folded(events: Sequence[MetadataEvent]) -> ChainState:
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
