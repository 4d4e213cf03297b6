"""What a newer version of the format adds: kept, shown, copied; never understood or written."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from odfbuild.cli.render.dataset import block_text
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.snapshot import from_bytes, to_bytes
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DataField,
    DataSchema,
    DataTypeInt32,
    FetchStepUrl,
    MergeStrategyAppend,
    MetadataBlock,
    MetadataEvent,
    PrepStepPipe,
    ReadStepParquet,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetPollingSource,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.errors import ManifestErrors
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.merge_strategies import (
    compared_columns,
    key_of,
    only_adds,
    reads_operations,
)
from odfbuild.odf.opaque import (
    Opaque,
    UnsupportedVariantError,
    is_opaque,
    opaque_parts,
    refuse_opaque,
)
from odfbuild.odf.record import Record
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.schema.types import type_name
from odfbuild.odf.wire.blocks import (
    block_hash,
    decode_block,
    decode_table,
    encode_block,
    encode_table,
)
from odfbuild.odf.wire.layout import TABLES
from tests.support.data.chains import NOON, ROOT, SCHEMA, Link, after, chains, folded, grown, later
from tests.support.values.newer import as_newer, in_envelope

POLLING = SetPollingSource(
    fetch=FetchStepUrl(url="https://example.org"),
    prepare=(PrepStepPipe(command=("cat",)),),
    read=ReadStepParquet(),
    preprocess=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
    merge=MergeStrategyAppend(),
)
TYPED = SetDataSchema(schema=DataSchema((DataField("a", DataTypeInt32()),)))
MEMBERS = [
    pytest.param(POLLING, "FetchStep", "fetch", id="fetch"),
    pytest.param(POLLING, "PrepStep", "prepare", id="prepare"),
    pytest.param(POLLING, "ReadStep", "read", id="read"),
    pytest.param(POLLING, "Transform", "preprocess", id="preprocess"),
    pytest.param(POLLING, "MergeStrategy", "merge", id="merge"),
    pytest.param(TYPED, "DataType", "schema", id="type"),
    pytest.param(
        SetAttachments(attachments=AttachmentsEmbedded(items=())),
        "Attachments",
        "attachments",
        id="attachments",
    ),
]


def newer_block(
    state: ChainState | None, seconds: int = 100, tag: int = 14
) -> tuple[bytes, MetadataBlock]:
    """Return a block with an event of a newer version that follows a state."""
    known = after(state, Seed(dataset_id=ROOT.dataset_id, dataset_kind=ROOT.dataset_kind)).block
    block = replace(known, system_time=later(seconds))
    data = in_envelope(as_newer(block, "MetadataEvent", tag))
    return data, decode_block(data)


@pytest.mark.parametrize("tag", [14, 99, 255])
def test_an_event_of_a_newer_version_is_kept_by_its_number(tag: int) -> None:
    _, block = newer_block(None, tag=tag)
    event: object = block.event
    assert event == Opaque("MetadataEvent", tag)
    assert is_opaque(event)
    assert (block.sequence_number, block.system_time) == (0, later(100))


def test_a_merge_strategy_of_a_newer_version_may_take_rows_back_and_names_no_columns() -> None:
    merge = decode_table(type(POLLING), as_newer(POLLING, "MergeStrategy", 200)).merge
    assert key_of(merge) == compared_columns(merge) == ()
    assert not only_adds(merge)
    assert not reads_operations(merge)


@pytest.mark.parametrize(("value", "union", "name"), MEMBERS)
def test_a_member_of_any_union_may_be_of_a_newer_version(
    value: Record, union: str, name: str
) -> None:
    read = decode_table(type(value), as_newer(value, union, 200))
    assert list(opaque_parts(read)) == [Opaque(union, 200)]
    others = [slot.name for slot in TABLES[type(value)].slots if slot.name != name]
    assert [getattr(read, each) for each in others] == [getattr(value, each) for each in others]


@pytest.mark.parametrize(("value", "union", "name"), MEMBERS)
def test_what_is_not_known_is_shown_by_its_number(value: Record, union: str, name: str) -> None:
    read = decode_table(type(value), as_newer(value, union, 200))
    shown = json.dumps(to_mapping(read))
    assert json.dumps({"kind": "Unknown", "union": union, "tag": 200}) in shown


@pytest.mark.parametrize(("value", "union", "name"), MEMBERS)
def test_what_is_not_known_is_never_written(value: Record, union: str, name: str) -> None:
    read = decode_table(type(value), as_newer(value, union, 200))
    with pytest.raises(UnsupportedVariantError, match=f"{union} has no variant number 200"):
        encode_table(read)
    with pytest.raises(UnsupportedVariantError) as caught:
        refuse_opaque(read)
    assert (caught.value.type_name, caught.value.tag) == (union, 200)
    refuse_opaque(value)


def test_a_block_with_an_event_that_is_not_known_is_never_written() -> None:
    _, block = newer_block(None)
    with pytest.raises(UnsupportedVariantError, match="MetadataEvent has no variant number 14"):
        encode_block(block)


def test_what_is_not_known_is_not_read_from_a_manifest() -> None:
    with pytest.raises(ManifestErrors, match="Unknown"):
        from_mapping(MetadataEvent, {"kind": "Unknown", "union": "MetadataEvent", "tag": 14})


@given(chains())
def test_an_event_that_is_not_known_moves_the_head_and_nothing_else(
    links: list[Link],
) -> None:
    state = folded(links)
    assert state is not None
    raw, block = newer_block(state, seconds=1000)
    check_append(state, block)
    moved = fold(state, block, block_hash(raw))
    assert (moved.head, moved.sequence) == (block_hash(raw), state.sequence + 1)
    assert moved.system_time == later(1000)
    back = replace(moved, head=state.head, sequence=state.sequence, system_time=state.system_time)
    assert back == state
    assert from_bytes(to_bytes(moved)) == moved


def test_a_chain_does_not_start_with_an_event_that_is_not_known() -> None:
    raw, block = newer_block(None)
    with pytest.raises(Exception, match="starts with Opaque"):
        fold(None, block, block_hash(raw))


@pytest.mark.parametrize(("value", "union", "name"), MEMBERS[:6])
def test_definitions_with_parts_that_are_not_known_may_stand_in_a_chain(
    value: MetadataEvent, union: str, name: str
) -> None:
    state = grown(ROOT)
    block = after(state, value).block
    data = in_envelope(as_newer(block, union, 200))
    read = decode_block(data)
    check_append(state, read)
    moved = fold(state, read, block_hash(data))
    assert from_bytes(to_bytes(moved)) == moved
    assert list(opaque_parts(moved.polling or moved.schema)) == [Opaque(union, 200)]


def test_push_sources_that_differ_in_what_is_not_known_are_not_taken_for_equal() -> None:
    source = AddPushSource(source_name="a", read=ReadStepParquet(), merge=MergeStrategyAppend())
    state = grown(ROOT)
    for _ in range(2):
        data = in_envelope(as_newer(after(state, source).block, "MergeStrategy", 77))
        check_append(state, decode_block(data))
        state = fold(state, decode_block(data), block_hash(data))


def test_schemas_that_differ_in_what_is_not_known_are_not_taken_for_equal() -> None:
    state = grown(ROOT)
    for _ in range(2):
        data = in_envelope(as_newer(after(state, TYPED).block, "DataType", 77))
        check_append(state, decode_block(data))
        state = fold(state, decode_block(data), block_hash(data))


def test_a_type_that_is_not_known_has_a_name_for_people_but_no_bytes() -> None:
    schema = decode_table(SetDataSchema, as_newer(TYPED, "DataType", 77)).schema
    assert schema is not None
    assert type_name(schema.fields[0].type) == "Unknown(77)"
    for convert in (arrow_bytes, to_arrow):
        with pytest.raises(UnsupportedVariantError, match="DataType has no variant number 77"):
            convert(schema)


@pytest.mark.parametrize(
    ("event", "union", "shown"),
    [
        (ROOT, "MetadataEvent", "Unknown\n    union: MetadataEvent\n    tag: 77\n"),
        (POLLING, "FetchStep", "    fetch:\n      kind: Unknown\n      union: FetchStep\n"),
        (SCHEMA, "DataType", "kind: Unknown\n"),
    ],
    ids=["event", "fetch", "type"],
)
def test_the_log_shows_what_is_not_known(event: MetadataEvent, union: str, shown: str) -> None:
    block = MetadataBlock(system_time=NOON, sequence_number=0, event=event)
    data = in_envelope(as_newer(block, union, 77))
    assert shown in block_text(block_hash(data), decode_block(data))
