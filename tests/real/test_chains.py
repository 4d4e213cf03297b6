"""The chains as another program reads them: stock FlatBuffers, the published schema, hashlib."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.odf.wire.plain_flatbuffers import read
from tests.real.building import (
    AIRLINE_FILES,
    AIRLINES,
    CODES,
    DERIVATIVES,
    FILES_OF_DECLARATIONS,
    NATIONAL,
    NATIONAL_FILES,
    REGIONS,
    ROOTS,
    Building,
)

SHA3_256 = b"\x16\x20"
ARROW0_SHA3_256 = b"\x96\x80\xc0\x01\x20"
DEFINED = ["Seed", "SetPollingSource"]


class Chain:
    """A dataset's folder, read from its head back to its seed."""

    def __init__(self, building: Building, name: str) -> None:
        self.folder = building.root / ".odfbuild" / "datasets" / building.dataset(name).id.multibase
        self.head = bytes.fromhex((self.folder / "refs" / "head").read_text("ascii").strip()[1:])
        self.blocks = list(self._back())[::-1]

    def _back(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        at: bytes | None = self.head
        while at is not None:
            data = (self.folder / "blocks" / f"f{at.hex()}").read_bytes()
            assert SHA3_256 + hashlib.sha3_256(data).digest() == at
            manifest = read("Manifest", data)
            assert manifest["version"] == 2
            block = read("MetadataBlock", manifest["content"])
            yield at, block
            at = block.get("prev_block_hash")

    @property
    def kinds(self) -> list[str]:
        return [block["event"][0] for _, block in self.blocks]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        return [block["event"][1] for _, block in self.blocks if block["event"][0] in kinds]


def time(parts: tuple[int, int, int, int]) -> datetime:
    """Return the time of its four numbers: year, day of the year, seconds, nanoseconds."""
    year, day, seconds, nanos = parts
    start = datetime(year, 1, 1, tzinfo=UTC)
    return start + timedelta(days=day - 1, seconds=seconds, microseconds=nanos // 1000)


@pytest.mark.parametrize("name", [*ROOTS, *DERIVATIVES])
def test_blocks_follow_one_another(name: str, whole: Building) -> None:
    chain = Chain(whole, name)
    names = [name for name, _ in chain.blocks]
    assert [block["sequence_number"] for _, block in chain.blocks] == list(range(len(names)))
    before = [block.get("prev_block_hash") for _, block in chain.blocks]
    assert before == [None, *names[:-1]]
    times = [time(block["system_time"]) for _, block in chain.blocks]
    assert times == sorted(times)


@pytest.mark.parametrize("name", [*ROOTS, *DERIVATIVES])
def test_slices_follow_one_another_and_are_in_their_files(name: str, portions: Building) -> None:
    chain = Chain(portions, name)
    last = None
    for event in chain.events("AddData", "ExecuteTransform"):
        assert event.get("prev_offset") == last
        piece = event.get("new_data")
        if piece is None:
            assert "new_watermark" in event
            continue
        interval = piece["offset_interval"]
        assert interval["start"] == (0 if last is None else last + 1)
        last = interval["end"]
        data = (chain.folder / "data" / f"f{piece['physical_hash'].hex()}").read_bytes()
        assert piece["physical_hash"] == SHA3_256 + hashlib.sha3_256(data).digest()
        assert piece["size"] == len(data)
        assert piece["logical_hash"].startswith(ARROW0_SHA3_256)
    assert last == portions.steps[-1].rows[name] - 1


@pytest.mark.parametrize("name", [*ROOTS, *DERIVATIVES])
def test_there_is_no_file_that_the_head_does_not_reach(name: str, whole: Building) -> None:
    chain = Chain(whole, name)
    assert _names(chain.folder / "blocks") == {f"f{name.hex()}" for name, _ in chain.blocks}
    slices = chain.events("AddData", "ExecuteTransform")
    reached = {f"f{event['new_data']['physical_hash'].hex()}" for event in slices}
    assert _names(chain.folder / "data") == reached
    assert _names(chain.folder / "checkpoints") == set()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_national_chain_holds_a_definition_a_schema_and_a_block_for_each_file(
    whole: Building,
) -> None:
    chain = Chain(whole, NATIONAL)
    defined = [*DEFINED, "SetVocab", "SetInfo", "SetLicense", "SetAttachments", "SetDataSchema"]
    assert chain.kinds == [*defined, *["AddData"] * len(NATIONAL_FILES)]
    added = chain.events("AddData")
    assert [each["new_source_state"] for each in added] == [
        {"source_name": "default", "kind": "odf/etag", "value": path.name}
        for path in NATIONAL_FILES
    ]
    days = [row["data"] for rows in whole.slices(NATIONAL) for row in rows]
    assert time(added[-1]["new_watermark"]) == max(days)


def test_the_regional_chain_tells_every_edit_of_the_definition(whole: Building) -> None:
    kinds = Chain(whole, REGIONS).kinds
    assert kinds.count("SetPollingSource") == len(FILES_OF_DECLARATIONS)
    edits = "".join(
        {"SetPollingSource": "P", "SetDataSchema": "S", "AddData": "d"}.get(k, "") for k in kinds
    )
    grows = (1, 1, 1, 0, 0, 1, 1, 1)  # 04 and 05 change the separator only
    assert edits == "".join(
        "P" + "S" * grew + "d" * files
        for grew, files in zip(grows, FILES_OF_DECLARATIONS, strict=True)
    )


def test_a_derivative_records_how_far_it_read(portions: Building) -> None:
    source, chain = Chain(portions, AIRLINES), Chain(portions, CODES)
    (seed,) = source.events("Seed")
    (transform,) = chain.events("SetTransform")
    assert chain.kinds == ["Seed", "SetTransform", "SetDataSchema", *["ExecuteTransform"] * 4]
    steps = [inputs for (inputs,) in (e["query_inputs"] for e in chain.events("ExecuteTransform"))]
    ends = [each["new_data"]["offset_interval"]["end"] for each in source.events("AddData")]
    blocks = [name for name, block in source.blocks if block["event"][0] == "AddData"]
    assert len(ends) == len(AIRLINE_FILES)
    assert [each["new_offset"] for each in steps] == ends
    assert [each.get("prev_offset") for each in steps] == [None, *ends[:-1]]
    assert [each["new_block_hash"] for each in steps] == blocks
    assert [each.get("prev_block_hash") for each in steps] == [None, *blocks[:-1]]
    assert {each["dataset_id"] for each in steps} == {seed["dataset_id"]}
    assert transform["inputs"][0]["dataset_ref"].startswith("did:odf:fed01")
