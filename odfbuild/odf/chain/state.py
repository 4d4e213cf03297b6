"""Chain state: the fold of the blocks of a metadata chain, oldest first.

A ChainState holds all that later blocks depend on, so its size does not grow with the chain.
Nothing else interprets blocks: plan, commit, verification and the cache all go through `fold`.
"""

from collections.abc import Mapping
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import Any

from odfbuild.odf.chain.errors import (
    AppendingSeedBlockToNonEmptyChainError,
    FirstBlockMustBeSeedError,
)
from odfbuild.odf.chain.partial_inputs import source_state_of
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DatasetVocabulary,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

RESTATE = ".restate"
"""What the version ends with of a query that restates all that was written before it."""

CONTINUED = ".continued"
"""What the version ends with of a query that another engine computed so far, with the same rows."""

_DIGEST = "sha256:"


def plain_version(version: str) -> str:
    """Return the version of an engine as it is installed, without what else is recorded in it."""
    return version.removesuffix(RESTATE).removesuffix(CONTINUED)


def image_digest(version: str | None) -> str | None:
    """Return the digest of the image that a version names, None if it names none."""
    plain = plain_version(version or "")
    return plain if plain.startswith(_DIGEST) else None


def is_continued(event: SetTransform) -> bool:
    """Say whether an event records that its engine gave all rows that another one had given."""
    return not is_opaque(event.transform) and (event.transform.version or "").endswith(CONTINUED)


DEFAULT_VOCABULARY = DatasetVocabulary(
    offset_column="offset",
    operation_type_column="op",
    system_time_column="system_time",
    event_time_column="event_time",
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a dataset goes: its last offset and its watermark; by default before any record."""

    offset: int | None = None
    watermark: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """Everything that later blocks of a chain depend on, as of the block `head`.

    `last_offset`, `watermark` and `checkpoint` are those of the latest data event of either type;
    `source_state` has the last state of each source; `progress` has for every input ever read how
    far it was read, as `new_block_hash` and `new_offset` (the `prev_` fields are not used there).
    `transform_is_new` says that the transform in force has not run yet; one that only records
    another version of the engine, or another engine that gives the same rows, is not new.
    """

    dataset: DatasetId
    kind: DatasetKind
    head: Multihash
    sequence: int
    system_time: Timestamp
    vocab: DatasetVocabulary = DEFAULT_VOCABULARY
    schema: SetDataSchema | None = None
    transform: SetTransform | None = None
    polling: SetPollingSource | None = None
    push: Mapping[str, AddPushSource] = field(default_factory=dict)
    info: SetInfo | None = None
    license: SetLicense | None = None
    attachments: SetAttachments | None = None
    last_offset: int | None = None
    watermark: Timestamp | None = None
    checkpoint: Multihash | None = None
    source_state: Mapping[str, SourceState] = field(default_factory=dict)
    progress: Mapping[DatasetId, ExecuteTransformInput] = field(default_factory=dict)
    last_add_data: AddData | None = None
    last_execute_transform: ExecuteTransform | None = None
    transform_is_new: bool = False

    @property
    def position(self) -> Position:
        """Return how far the dataset goes."""
        return Position(self.last_offset, self.watermark)

    @property
    def sources(self) -> tuple[SetPollingSource | AddPushSource, ...]:
        """Return the sources in force: the one that is asked, then those that are pushed to."""
        return (*(() if self.polling is None else (self.polling,)), *self.push.values())

    @property
    def has_data(self) -> bool:
        """Say whether the dataset has any record."""
        return self.last_offset is not None

    @property
    def next_offset(self) -> int:
        """Return the offset that the next record gets."""
        return 0 if self.last_offset is None else self.last_offset + 1


_NAMES = tuple(each.name for each in fields(ChainState))
_facts = attrgetter(*_NAMES)
_PUTS = tuple(getattr(ChainState, name).__set__ for name in _NAMES)
_PUT = dict(zip(_NAMES, _PUTS, strict=True))


def fold(state: ChainState | None, block: MetadataBlock, block_hash: Multihash) -> ChainState:
    """Return the state after one more block; None is the state before the first.

    The block is taken as it is: whether it may stand there is for `check_append` to say.  Only a
    chain that does not start with its one Seed has no state, and is refused.  An event that this
    version does not know changes nothing that it knows.
    """
    if state is None:
        return _state_of_seed(block, block_hash)
    changes = {} if is_opaque(block.event) else _changes(state, block.event)
    changes["head"] = block_hash
    changes["sequence"] = block.sequence_number
    changes["system_time"] = block.system_time
    return _with_facts(state, changes)


def _with_facts(state: ChainState, changes: Mapping[str, object]) -> ChainState:
    """Return a state with some facts changed: `dataclasses.replace` is slower by half."""
    new = object.__new__(ChainState)
    for put, value in zip(_PUTS, _facts(state), strict=True):
        put(new, value)
    for name, value in changes.items():
        _PUT[name](new, value)
    return new


def input_name(source: TransformInput) -> str:
    """Return the name by which queries read an input: its alias, or else what it refers to."""
    return source.alias or str(source.dataset_ref)


def vocabulary(event: SetVocab) -> DatasetVocabulary:
    """Return the column names that a SetVocab puts in force: what it leaves out is the default."""
    default = DEFAULT_VOCABULARY
    return DatasetVocabulary(
        offset_column=event.offset_column or default.offset_column,
        operation_type_column=event.operation_type_column or default.operation_type_column,
        system_time_column=event.system_time_column or default.system_time_column,
        event_time_column=event.event_time_column or default.event_time_column,
    )


def _state_of_seed(block: MetadataBlock, block_hash: Multihash) -> ChainState:
    seed = block.event
    if not isinstance(seed, Seed):
        raise FirstBlockMustBeSeedError(
            what=f"the chain starts with {type(seed).__name__}",
            why='a Seed gives the dataset its identity and comes first (ODF 0.34.1, "Seed")',
            fix="start the chain with a Seed",
        )
    return ChainState(
        dataset=seed.dataset_id,
        kind=seed.dataset_kind,
        head=block_hash,
        sequence=block.sequence_number,
        system_time=block.system_time,
    )


def _changes(state: ChainState, event: MetadataEvent) -> dict[str, Any]:  # noqa: PLR0912
    """Return the facts that an event makes new."""
    match event:
        case AddData():
            return _after_add_data(state, event)
        case ExecuteTransform():
            return _after_execute_transform(state, event)
        case SetPollingSource():
            return {"polling": event}
        case DisablePollingSource():
            return {"polling": None}
        case AddPushSource():
            return {"push": {**state.push, event.source_name: event}}
        case DisablePushSource():
            left = {name: push for name, push in state.push.items() if name != event.source_name}
            return {"push": left}
        case SetTransform():
            return {"transform": event, "transform_is_new": _is_new(state, event)}
        case SetDataSchema():
            return {"schema": event}
        case SetVocab():
            return {"vocab": vocabulary(event)}
        case SetInfo():
            return {"info": event}
        case SetLicense():
            return {"license": event}
        case SetAttachments():
            return {"attachments": event}
        case Seed():
            raise second_seed()


def _is_new(state: ChainState, event: SetTransform) -> bool:
    """Say whether a transform is to run for the first time."""
    known = state.transform
    if known is None or state.transform_is_new or is_opaque(known.transform):
        return True
    if is_opaque(event.transform) or event.inputs != known.inputs:
        return True
    if (event.transform.version or "").endswith(RESTATE):
        return True
    engine = known.transform.engine if is_continued(event) else event.transform.engine
    said = replace(event.transform, version=None, engine=engine)
    return said != replace(known.transform, version=None)


def second_seed() -> AppendingSeedBlockToNonEmptyChainError:
    """Return the refusal of a Seed that is not the first block."""
    return AppendingSeedBlockToNonEmptyChainError(
        what="a Seed follows another block",
        why='a dataset has one identity, given by its first block (ODF 0.34.1, "Seed")',
        fix="start a new dataset, or leave the Seed out",
    )


def _after_add_data(state: ChainState, event: AddData) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "last_offset": last_offset_of(event),
        "watermark": event.new_watermark,
        "checkpoint": checkpoint_of(event),
        "last_add_data": event,
    }
    new = source_state_of(event)
    if new is not None:
        facts["source_state"] = {**state.source_state, new.source_name: new}
    return facts


def _after_execute_transform(state: ChainState, event: ExecuteTransform) -> dict[str, Any]:
    read = {each.dataset_id: _read_so_far(state, each) for each in event.query_inputs}
    return {
        "last_offset": last_offset_of(event),
        "watermark": event.new_watermark,
        "checkpoint": checkpoint_of(event),
        "progress": {**state.progress, **read},
        "last_execute_transform": event,
        "transform_is_new": False,
    }


def _read_so_far(state: ChainState, new: ExecuteTransformInput) -> ExecuteTransformInput:
    """Return how far an input is read after a step: what the step leaves out stays as it was."""
    block, offset = last_block_of(new), last_offset_read(new)
    known = state.progress.get(new.dataset_id)
    if known is not None:
        block = known.new_block_hash if block is None else block
        offset = known.new_offset if offset is None else offset
    return ExecuteTransformInput(dataset_id=new.dataset_id, new_block_hash=block, new_offset=offset)


def last_offset_of(event: AddData | ExecuteTransform) -> int | None:
    """Return the dataset's last offset after a data event."""
    return event.prev_offset if event.new_data is None else event.new_data.offset_interval.end


def checkpoint_of(event: AddData | ExecuteTransform | None) -> Multihash | None:
    """Return the hash of the checkpoint that a data event leaves, if any."""
    if event is None or event.new_checkpoint is None:
        return None
    return event.new_checkpoint.physical_hash


def last_block_of(read: ExecuteTransformInput) -> Multihash | None:
    """Return the last block of an input that is read after a step."""
    return read.prev_block_hash if read.new_block_hash is None else read.new_block_hash


def last_offset_read(read: ExecuteTransformInput) -> int | None:
    """Return the last offset of an input that is read after a step."""
    return read.prev_offset if read.new_offset is None else read.new_offset
