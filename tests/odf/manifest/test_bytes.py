"""Blocks, snapshots and events as bytes and back, published ones byte for byte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetSnapshot,
    DataTypeInt64,
    ExtraAttributes,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
)
from odfbuild.odf.manifest import from_manifest, to_manifest
from odfbuild.odf.manifest.bytes import (
    Manifested,
    UnknownContentError,
    from_bytes,
    is_canonical,
    to_bytes,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import encode_block
from odfbuild.odf.wire.reader import MalformedBytesError
from tests.odf.wire import plain_flatbuffers as stock
from tests.support.cases import load
from tests.support.values.strategies import blocks, events, snapshots

CASES: list[dict[str, Any]] = load("flatbuffers-blocks")["vectors"]
INFO = SetInfo(description="d", keywords=("k",))
BLOCK = MetadataBlock(system_time=Timestamp(0), sequence_number=1, event=INFO)


@given(blocks, st.sampled_from([2, 3]))
def test_a_block_comes_back_from_its_bytes_with_its_version(
    block: MetadataBlock, version: int
) -> None:
    what = Manifested("MetadataBlock", version, block)
    data = to_bytes(what)
    assert from_bytes(data) == from_bytes(data, "MetadataBlock") == what
    assert is_canonical(what, data)


@given(snapshots)
def test_a_snapshot_comes_back_from_its_bytes(snapshot: DatasetSnapshot) -> None:
    what = Manifested("DatasetSnapshot", 1, snapshot)
    data = to_bytes(what)
    assert from_bytes(data, "DatasetSnapshot") == what
    assert data == stock.write("DatasetSnapshot", stock.plain(snapshot), 4)


@given(events)
def test_an_event_comes_back_from_its_bytes(event: MetadataEvent) -> None:
    what = Manifested("MetadataEvent", 1, event)
    data = to_bytes(what)
    assert from_bytes(data, "MetadataEvent") == what
    plain = {"value": stock.plain(event, "MetadataEvent")}
    assert stock.read("MetadataEventWrapper", data) == plain
    assert data == stock.write("MetadataEventWrapper", plain, 4)


@given(blocks | snapshots, st.data())
def test_what_goes_through_a_manifest_comes_out_with_equal_bytes(
    value: MetadataBlock | DatasetSnapshot, data: st.DataObject
) -> None:
    kind = type(value).__name__
    version = data.draw(st.sampled_from([2, 3])) if kind == "MetadataBlock" else 1
    before = to_bytes(Manifested(kind, version, value))
    again = Manifested(*from_manifest(to_manifest(kind, value, version)))
    assert to_bytes(again) == before


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vector_blocks_are_what_we_write(case: dict[str, Any], version: int) -> None:
    expected = case["expected"][f"manifest_v{version}"]
    data = bytes.fromhex(expected["hex"])
    what = from_bytes(data)
    assert (what.kind, what.version) == ("MetadataBlock", version)
    assert is_canonical(what, data)


def test_bytes_of_another_writer_are_told_from_ours() -> None:
    ours = encode_block(BLOCK)
    foreign = ours + b"\0\0\0\0"  # readers do not mind what nothing points to
    assert from_bytes(foreign) == from_bytes(ours)
    assert not is_canonical(from_bytes(foreign), foreign)


def test_attributes_that_a_mapping_cannot_keep_as_they_are_written_are_told() -> None:
    extra = ExtraAttributes(entries='{"b":1, "a":1.00}')
    schema = DataSchema((DataField("a", DataTypeInt64()),), extra)
    event = SetDataSchema(schema=schema)
    what = Manifested("MetadataEvent", 1, event)
    assert from_bytes(to_bytes(what), "MetadataEvent") == what
    assert not is_canonical(what, to_bytes(what))


def test_attributes_that_are_no_object_are_told() -> None:
    schema = DataSchema((DataField("a", DataTypeInt64()),), ExtraAttributes(entries="[]"))
    what = Manifested("MetadataEvent", 1, SetDataSchema(schema=schema))
    assert not is_canonical(what, to_bytes(what))


@pytest.mark.parametrize("kind", ["DatasetSnapshot", "MetadataEvent"])
def test_bare_tables_do_not_say_what_they_are(kind: str) -> None:
    value = {
        "DatasetSnapshot": from_manifest(
            {
                "kind": "DatasetSnapshot",
                "version": 1,
                "content": {"name": "a", "kind": "Root", "metadata": []},
            }
        )[2],
        "MetadataEvent": INFO,
    }[kind]
    data = to_bytes(Manifested(kind, 1, value))
    with pytest.raises(UnknownContentError) as caught:
        from_bytes(data)
    assert "--kind" in caught.value.fix
    with pytest.raises(MalformedBytesError):
        from_bytes(data, "MetadataBlock")


@given(st.binary(max_size=200), st.sampled_from([None, "DatasetSnapshot", "MetadataEvent"]))
def test_any_bytes_are_read_or_refused(data: bytes, kind: str | None) -> None:
    try:
        assert isinstance(from_bytes(data, kind), Manifested)
    except ProtocolError as error:
        assert error.fix


@given(events, st.data())
def test_damaged_events_are_read_or_refused(event: MetadataEvent, data: st.DataObject) -> None:
    whole = bytearray(to_bytes(Manifested("MetadataEvent", 1, event)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        assert isinstance(from_bytes(bytes(whole), "MetadataEvent"), Manifested)
    except ProtocolError as error:
        assert error.fix
