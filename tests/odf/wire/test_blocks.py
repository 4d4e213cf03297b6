"""Blocks as bytes: published bytes, laws, a second opinion, and bytes of ill will."""

import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import (
    AddData,
    DatasetVocabulary,
    DataType,
    DataTypeInt32,
    DataTypeList,
    DataTypeOption,
    DataTypeTimestamp,
    FetchStepUrl,
    Manifest,
    MergeStrategyAppend,
    MetadataBlock,
    OffsetInterval,
    PrepStepPipe,
    ReadStepParquet,
    SetInfo,
    SetPollingSource,
    SetVocab,
    TimeUnit,
)
from odfbuild.odf.identity import Multicodec
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.record import Record
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import (
    UnsupportedVersionError,
    block_hash,
    decode_block,
    decode_link,
    decode_table,
    encode_block,
    encode_table,
)
from odfbuild.odf.wire.layout import TABLES
from odfbuild.odf.wire.reader import MalformedBytesError
from odfbuild.odf.wire.writer import UnwritableValueError
from tests.odf.wire import plain_flatbuffers as stock
from tests.support.cases import load
from tests.support.effort import examples
from tests.support.values.strategies import blocks, records

CLASSES = sorted(TABLES, key=lambda cls: cls.__name__)
PUBLISHED = [
    pytest.param(case["block"], case["expected"][f"manifest_v{version}"], version)
    for case in load("flatbuffers-blocks")["vectors"]
    for version in (2, 3)
]
EMPTY = MetadataBlock(
    system_time=Timestamp.parse("2024-12-31T00:00:01.000000001Z"),
    sequence_number=0,
    event=AddData(),
)
POLLING = SetPollingSource(
    fetch=FetchStepUrl(url="https://example.org"),
    read=ReadStepParquet(),
    merge=MergeStrategyAppend(),
)


def of_class() -> st.SearchStrategy[Record]:
    return st.sampled_from(CLASSES).flatmap(records)


@pytest.mark.parametrize(("block", "expected", "version"), PUBLISHED)
def test_vector_blocks_become_the_published_bytes_and_hashes(
    block: dict[str, Any], expected: dict[str, Any], version: int
) -> None:
    written = encode_block(from_mapping(MetadataBlock, block), version)
    assert written.hex() == expected["hex"]
    assert str(block_hash(written)) == expected["block_hash"]


@pytest.mark.parametrize(("block", "expected", "version"), PUBLISHED)
def test_vector_bytes_become_the_published_blocks(
    block: dict[str, Any], expected: dict[str, Any], version: int
) -> None:
    read = decode_block(bytes.fromhex(expected["hex"]))
    assert to_mapping(read) == block
    assert encode_block(read, version).hex() == expected["hex"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_reading_what_was_written_gives_the_same_value(cls: type[Record]) -> None:
    @settings(max_examples=examples(8, 500))
    @given(records(cls), st.sampled_from([2, 3]))
    def law(value: Record, version: int) -> None:
        again = decode_table(cls, encode_table(value, version))
        assert again == value
        assert repr(again) == repr(value)  # names are equal in any spelling, so look at that too

    law()


@given(blocks, st.sampled_from([2, 3]))
def test_a_block_survives_its_envelope(block: MetadataBlock, version: int) -> None:
    assert decode_block(encode_block(block, version)) == block


@given(blocks, st.sampled_from([2, 3]))
def test_writing_what_was_read_gives_the_same_bytes(block: MetadataBlock, version: int) -> None:
    written = encode_block(block, version)
    assert encode_block(decode_block(written), version) == written
    assert decode_link(written) == block.prev_block_hash


@given(of_class(), st.sampled_from([(2, 1), (3, 4)]))
def test_the_stock_builder_writes_the_same_bytes(value: Record, how: tuple[int, int]) -> None:
    version, time_align = how
    name = type(value).__name__
    assert encode_table(value, version) == stock.write(name, stock.plain(value), time_align)


@given(st.integers(0, 60).map(bytes), st.sampled_from([2, 3]), st.integers(0, 2**63 - 1))
def test_an_envelope_says_what_it_holds_whatever_its_size(
    content: bytes, version: int, kind: int
) -> None:
    data = encode_table(Manifest(kind=kind, version=version, content=content), 3)
    assert decode_table(Manifest, data).content == content
    if kind != int(Multicodec.ODF_METADATA_BLOCK):
        with pytest.raises(MalformedBytesError, match=f"kind {kind:#x}"):
            decode_block(data)


@given(of_class(), st.sampled_from([2, 3]))
def test_the_stock_runtime_reads_our_bytes_by_the_published_schema(
    value: Record, version: int
) -> None:
    name = type(value).__name__
    assert stock.read(name, encode_table(value, version)) == stock.plain(value)


def test_an_empty_list_is_not_an_absent_one() -> None:
    empty, absent = SetInfo(keywords=()), SetInfo()
    assert decode_table(SetInfo, encode_table(empty)).keywords == ()
    assert decode_table(SetInfo, encode_table(absent)).keywords is None


@pytest.mark.parametrize("prepare", [None, (), (PrepStepPipe(command=()),)])
def test_steps_of_preparation_may_be_absent_none_or_some(
    prepare: tuple[PrepStepPipe, ...] | None,
) -> None:
    source = replace(POLLING, prepare=prepare)
    assert decode_table(SetPollingSource, encode_table(source)).prepare == prepare


@pytest.mark.parametrize("offset", [None, 0, 2**64 - 1])
def test_offset_zero_is_not_an_absent_offset(offset: int | None) -> None:
    event = AddData(prev_offset=offset)
    assert decode_table(AddData, encode_table(event)).prev_offset == offset


@pytest.mark.parametrize("unit", [None, *TimeUnit])
def test_the_unit_of_a_time_is_kept_even_if_it_is_the_first(unit: TimeUnit | None) -> None:
    assert decode_table(DataTypeTimestamp, encode_table(DataTypeTimestamp(unit))).unit is unit


def test_times_are_aligned_in_version_3_only() -> None:
    block = replace(EMPTY, event=AddData(prev_offset=1, new_watermark=EMPTY.system_time))
    second, third = encode_table(block, 2), encode_table(block, 3)
    assert second != third
    assert decode_table(MetadataBlock, second) == decode_table(MetadataBlock, third) == block


def test_an_absent_name_of_a_system_column_is_the_usual_one() -> None:
    sparse = encode_table(SetVocab(offset_column="o"))  # the same slots, all optional
    assert decode_table(DatasetVocabulary, sparse) == DatasetVocabulary(offset_column="o")


@pytest.mark.parametrize("version", [1, 4, -1])
def test_other_versions_are_refused_when_reading_and_writing(version: int) -> None:
    manifest = Manifest(
        kind=int(Multicodec.ODF_METADATA_BLOCK), version=version, content=encode_table(EMPTY)
    )
    with pytest.raises(UnsupportedVersionError, match=str(version)) as caught:
        decode_block(encode_table(manifest))
    assert caught.value.version == version
    with pytest.raises(UnsupportedVersionError):
        encode_block(EMPTY, version)


def test_another_kind_of_object_is_not_taken_for_a_block() -> None:
    manifest = Manifest(kind=0x400001, version=2, content=encode_table(EMPTY))
    with pytest.raises(MalformedBytesError, match="0x400001"):
        decode_block(encode_table(manifest))


def test_an_unknown_later_slot_is_skipped() -> None:
    newer = encode_table(SetVocab(offset_column="a", operation_type_column="b"))
    assert decode_table(MergeStrategyAppend, newer) == MergeStrategyAppend()


def test_a_missing_required_field_is_named() -> None:
    with pytest.raises(MalformedBytesError, match="FetchStepUrl lacks url"):
        decode_table(FetchStepUrl, encode_table(MergeStrategyAppend()))


def nested(levels: int) -> DataType:
    inner: DataType = DataTypeInt32()
    for _ in range(levels):
        inner = DataTypeOption(inner)
    return inner


def test_types_may_nest_as_deep_as_other_readers_follow() -> None:
    deep = DataTypeList(item_type=nested(62))
    assert decode_table(DataTypeList, encode_table(deep)) == deep
    with pytest.raises(UnwritableValueError, match="64 levels"):
        encode_table(DataTypeList(item_type=nested(63)))


@pytest.mark.parametrize(
    "value",
    [
        OffsetInterval(-1, 0),
        OffsetInterval(0, 2**64),
        SetInfo(description="\ud800"),
        SetVocab(offset_column="\udfff"),
    ],
)
def test_values_that_do_not_fit_the_format_are_refused(value: Record) -> None:
    with pytest.raises(UnwritableValueError):
        encode_table(value)


def refused_or_read(cls: type[Record], data: bytes) -> None:
    """Only a ProtocolError may come of bytes; what was read must be a value that can be written."""
    try:
        value = decode_table(cls, data)
    except ProtocolError:
        return
    assert type(value) is cls
    encode_table(value)


@settings(max_examples=examples(200, 2_000))
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    refused_or_read(MetadataBlock, data)


@settings(max_examples=examples(200, 2_000))
@given(st.sampled_from(PUBLISHED), st.data())
def test_damaged_blocks_are_read_or_refused(published: Any, data: st.DataObject) -> None:
    block = bytearray.fromhex(published.values[1]["hex"])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(block) - 1))
        block[at] = data.draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    with suppress(ProtocolError):
        decode_block(bytes(block))
    refused_or_read(MetadataBlock, bytes(block[40:]))


@given(st.sampled_from(PUBLISHED), st.data())
def test_a_block_cut_off_anywhere_is_refused(published: Any, data: st.DataObject) -> None:
    whole = bytes.fromhex(published.values[1]["hex"])
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        decode_block(whole[:length])


def test_deeper_nesting_by_other_writers_is_refused() -> None:
    deep = stock.write("DataTypeOption", stock.plain(nested(63)), 1)
    assert decode_table(DataTypeOption, deep) == nested(63)
    deeper = stock.write("DataTypeOption", stock.plain(nested(64)), 1)
    with pytest.raises(MalformedBytesError, match="64 levels"):
        decode_table(DataTypeOption, deeper)


def test_offsets_that_share_one_large_text_cannot_exhaust_memory() -> None:
    text = "x" * 4_000
    honest = encode_table(SetInfo(keywords=(*[""] * 4_000, text)))
    shared = bytearray(honest)
    vector = honest.index(struct.pack("<I", 4_001))
    at_large = vector + 4 * 4_001
    large = at_large + struct.unpack_from("<I", honest, at_large)[0]
    for i in range(4_000):
        at = vector + 4 + 4 * i
        struct.pack_into("<I", shared, at, large - at)
    assert len(decode_table(SetInfo, honest).keywords or ()) == 4_001
    with pytest.raises(MalformedBytesError, match="more is pointed to"):
        decode_table(SetInfo, bytes(shared))
