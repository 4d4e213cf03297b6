"""The published cases of what a chain accepts, for each generation of the reference and for us."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import ChainProfile, RejectedBlockError
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddPushSource, MetadataBlock
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.wire.blocks import block_hash, encode_block
from tests.support.cases import load

CASES: list[dict[str, Any]] = load("chain-validation")["vectors"]
PROFILES = {
    "2024": (ChainProfile.REFERENCE_2024,),
    "head": (ChainProfile.REFERENCE_HEAD, ChainProfile.SPEC),
    None: tuple(ChainProfile),
}


def block_of(step: dict[str, Any], state: ChainState | None, accepted: int) -> MetadataBlock:
    prev = {"none": None, "head": str(state.head) if state else None}.get(
        step["prev"], step["prev"]
    )
    mapping: dict[str, Any] = {
        "systemTime": step.get("system_time", "2024-01-01T00:00:00Z"),
        "prevBlockHash": prev,
        "sequenceNumber": step.get("sequence_number", accepted),
        "event": deepcopy(step["event"]),
    }
    ddl = mapping["event"].get("read", {}).pop("ddlSchema", None)
    block: MetadataBlock = from_mapping(
        MetadataBlock, {key: value for key, value in mapping.items() if value is not None}
    )
    return block if ddl is None else with_ddl(block, tuple(ddl))


def with_ddl(block: MetadataBlock, ddl: tuple[str, ...]) -> MetadataBlock:
    """Add a second schema to a read step: a block can hold both, our manifests cannot."""
    assert isinstance(block.event, AddPushSource)
    read = replace(block.event.read, ddl_schema=ddl)
    return replace(block, event=replace(block.event, read=read))


@pytest.mark.parametrize(
    ("case", "profile"),
    [
        pytest.param(case, profile, id=f"{case['id']}-{profile.name}")
        for case in CASES
        for profile in PROFILES[case.get("profile")]
    ],
)
def test_a_vector_is_accepted_or_rejected_as_published(
    case: dict[str, Any], profile: ChainProfile
) -> None:
    state, accepted = None, 0
    for number, step in enumerate(case["steps"]):
        block = block_of(step, state, accepted)
        hash = block_hash(encode_block(block))
        expected = step.get("expected_hash")
        rejection = None
        try:
            check_append(
                state,
                block,
                block_hash=hash,
                expected_hash=None if expected is None else type(hash).parse(expected),
                profile=profile,
            )
        except RejectedBlockError as error:
            rejection = error.rejection
        else:
            state, accepted = fold(state, block, hash), accepted + 1
        wanted = step["expect"]
        assert rejection == (None if wanted == "accept" else wanted["reject"]), f"step {number}"
