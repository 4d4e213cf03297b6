"""Chains for tests: short names for events, and chains that hypothesis grows by the rules."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from hypothesis import strategies as st

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.state import ChainState, fold, vocabulary
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    AttachmentEmbedded,
    AttachmentsEmbedded,
    Checkpoint,
    DataField,
    DataSchema,
    DatasetKind,
    DataSlice,
    DataTypeInt64,
    DataTypeOption,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    ReadStepNdJson,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block

OUR_ID = DatasetId(bytes(range(32)))
INPUTS = (DatasetId(b"\x01" * 32), DatasetId(b"\x02" * 32), DatasetId(b"\x03" * 32))
NOON = Timestamp.parse("2024-01-01T12:00:00Z")
SCHEMA = SetDataSchema(
    schema=DataSchema(
        fields=(DataField("offset", DataTypeInt64()), DataField("a", DataTypeInt64()))
    )
)
ROOT = Seed(dataset_id=OUR_ID, dataset_kind=DatasetKind.ROOT)
DERIVATIVE = Seed(dataset_id=OUR_ID, dataset_kind=DatasetKind.DERIVATIVE)
POLLING = SetPollingSource(
    fetch=FetchStepUrl(url="https://example.org/a.json"),
    read=ReadStepNdJson(ddl_schema=("a BIGINT",)),
    merge=MergeStrategyAppend(),
)
PUSH = AddPushSource(
    source_name="devices",
    read=ReadStepNdJson(ddl_schema=("a BIGINT",)),
    merge=MergeStrategyLedger(primary_key=("a",)),
)


@dataclass(frozen=True, slots=True)
class Link:
    """One block of a chain: its hash, its bytes and what they mean."""

    hash: Multihash
    data: bytes
    block: MetadataBlock


def later(seconds: int) -> Timestamp:
    return Timestamp(NOON.nanos + seconds * 10**9)


def some_hash(text: str) -> Multihash:
    return sha3_256(text.encode())


def after(state: ChainState | None, event: MetadataEvent, at: Timestamp = NOON) -> Link:
    """Put an event into the block that follows a state, allowed or not."""
    block = MetadataBlock(
        system_time=at,
        prev_block_hash=None if state is None else state.head,
        sequence_number=0 if state is None else state.sequence + 1,
        event=event,
    )
    data = encode_block(block)
    return Link(block_hash(data), data, block)


def grown(*events: MetadataEvent) -> ChainState:
    """Return the state after events that all have to be allowed."""
    links = chain_of(*events)
    state = folded(links)
    assert state is not None
    return state


def chain_of(*events: MetadataEvent) -> list[Link]:
    state, links = None, []
    for event in events:
        link = after(state, event)
        check_append(state, link.block)
        state = fold(state, link.block, link.hash)
        links.append(link)
    return links


def folded(links: Sequence[Link], state: ChainState | None = None) -> ChainState | None:
    for link in links:
        state = fold(state, link.block, link.hash)
    return state


def slice_of(start: int, end: int, size: int = 100) -> DataSlice:
    return DataSlice(
        logical_hash=some_hash(f"logical {start}"),
        physical_hash=some_hash(f"physical {start}"),
        offset_interval=OffsetInterval(start, end),
        size=size,
    )


def checkpoint_of(text: str) -> Checkpoint:
    return Checkpoint(physical_hash=some_hash(text), size=len(text))


def set_transform(*inputs: DatasetId) -> SetTransform:
    return SetTransform(
        inputs=tuple(TransformInput(each, f"in{n}") for n, each in enumerate(inputs)),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
    )


def read_of(
    dataset: DatasetId, prev: int | None, new: int | None, *, block: bool = True
) -> ExecuteTransformInput:
    """Read an input from after offset `prev` up to `new`; blocks are named after the offsets."""
    return ExecuteTransformInput(
        dataset_id=dataset,
        prev_block_hash=None if prev is None else some_hash(f"{dataset} {prev}"),
        new_block_hash=some_hash(f"{dataset} {new}") if block and new is not None else None,
        prev_offset=prev,
        new_offset=new,
    )


_texts = st.text(min_size=1, max_size=8)
_vocabularies = st.builds(
    SetVocab, offset_column=st.none() | _texts, event_time_column=st.none() | _texts
).filter(lambda named: len({*_names(named)}) == len(_names(named)))


def _names(named: SetVocab) -> tuple[str, ...]:
    """Return the names of all system columns that an event puts in force."""
    vocab = vocabulary(named)
    return tuple(getattr(vocab, each.name) for each in fields(vocab))


_annotations = st.one_of(
    st.builds(SetInfo, description=st.none() | _texts, keywords=st.none() | st.just(("a", "b"))),
    st.builds(SetLicense, short_name=_texts, name=_texts, website_url=st.just("https://e.org/")),
    st.builds(
        SetAttachments,
        attachments=st.builds(
            AttachmentsEmbedded,
            items=st.lists(st.builds(AttachmentEmbedded, path=_texts, content=_texts)).map(tuple),
        ),
    ),
)


@st.composite
def chains(draw: st.DrawFn, min_size: int = 1, max_size: int = 14) -> list[Link]:
    """A chain of either kind that the rules allow."""
    seed = draw(st.sampled_from([ROOT, DERIVATIVE]))
    links, state = [after(None, seed)], folded([after(None, seed)])
    for n in range(1, draw(st.integers(min_size, max_size))):
        assert state is not None
        event = draw(_next_event(state, n))
        links.append(after(state, event, at=later(draw(st.integers(0, 5)) + 10 * n)))
        state = fold(state, links[-1].block, links[-1].hash)
    return links


def _next_event(state: ChainState, n: int) -> st.SearchStrategy[MetadataEvent]:
    own = _of_root if state.kind is DatasetKind.ROOT else _of_derivative
    options: list[st.SearchStrategy[MetadataEvent]] = [_annotations, _wider_schema(state)]
    if state.schema is None:
        options.append(_vocabularies)
    return st.one_of(options + own(state, n))


def _wider_schema(state: ChainState) -> st.SearchStrategy[MetadataEvent]:
    if state.schema is None or state.schema.schema is None:
        return st.just(SCHEMA)
    fields = state.schema.schema.fields
    added = DataField(f"f{len(fields)}", DataTypeOption(DataTypeInt64()))
    return st.just(SetDataSchema(schema=DataSchema(fields=(*fields, added))))


def _of_root(state: ChainState, n: int) -> list[st.SearchStrategy[MetadataEvent]]:
    options = [_add_data(state, n)]
    if state.push:
        options.append(st.sampled_from(sorted(state.push)).map(DisablePushSource))
    elif state.polling is not None:
        options.append(st.just(DisablePollingSource()))
    else:
        options.append(st.just(POLLING))
    if state.polling is None:
        name = f"source-{n}"
        options.append(st.just(AddPushSource(source_name=name, read=PUSH.read, merge=PUSH.merge)))
    return options


@st.composite
def _add_data(draw: st.DrawFn, state: ChainState, n: int) -> MetadataEvent:
    rows = draw(st.integers(0, 5)) if state.schema is not None else 0
    start = state.next_offset
    checkpoint = draw(st.booleans())
    return AddData(
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_data=slice_of(start, start + rows - 1) if rows else None,
        new_checkpoint=checkpoint_of(f"checkpoint {n}") if checkpoint else None,
        new_watermark=later(n),  # always new, so that no event is without effect
        new_source_state=draw(st.none() | _source_states(state)),
    )


def _source_states(state: ChainState) -> st.SearchStrategy[SourceState]:
    """States of sources that are, or were, declared; only push sources have names of their own."""
    names = st.sampled_from(sorted({*state.push, *state.source_state})) if state.push else _texts
    return st.builds(SourceState, source_name=names, kind=_texts, value=_texts)


def _of_derivative(state: ChainState, n: int) -> list[st.SearchStrategy[MetadataEvent]]:
    wanted = st.lists(st.sampled_from(INPUTS), min_size=1, unique=True)
    options: list[st.SearchStrategy[MetadataEvent]] = [wanted.map(lambda ids: set_transform(*ids))]
    if state.transform is not None:
        options.append(_execute_transform(state, n))
    return options


@st.composite
def _execute_transform(draw: st.DrawFn, state: ChainState, n: int) -> MetadataEvent:
    assert state.transform is not None
    rows = draw(st.integers(0, 5)) if state.schema is not None else 0
    start = state.next_offset
    reads = []
    for each in state.transform.inputs:
        assert isinstance(each.dataset_ref, DatasetId)
        known = state.progress.get(each.dataset_ref)
        prev = None if known is None else known.new_offset
        new = (-1 if prev is None else prev) + draw(st.integers(1, 9))
        reads.append(read_of(each.dataset_ref, prev, draw(st.none() | st.just(new))))
    return ExecuteTransform(
        query_inputs=tuple(reads),
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_data=slice_of(start, start + rows - 1) if rows else None,
        new_checkpoint=checkpoint_of(f"checkpoint {n}") if draw(st.booleans()) else None,
        new_watermark=later(n),
    )
