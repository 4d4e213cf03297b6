"""Which part of each input goes into the next step."""

from typing import Any

import pytest

from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    SetInfo,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.intervals import PendingInput, bind, rebind
from odfbuild.planner.staleness import InputNow
from tests.planner.builders import Chain, schema, slice_of
from tests.support.cases import load

CASES = [each for each in load("transform-plan")["cases"] if "inputChain" in each]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_transform_plan_vector(case: dict[str, Any]) -> None:
    chain, labels = _chain(case["inputChain"])
    output = _output(case, chain, labels)
    previous = case["previous"]
    names = [name for name, _ in chain.blocks]
    start = 0 if previous is None else names.index(labels[previous["newBlockHash"]]) + 1
    pending = PendingInput(InputNow("in", chain.state), tuple(chain.blocks[start:]))
    batch = bind(output.state, [pending])
    expect = case["expect"]
    if expect == "up to date":
        assert batch is None
        return
    assert batch is not None
    (recorded,) = batch.query_inputs
    assert recorded == ExecuteTransformInput(
        dataset_id=chain.state.dataset,
        prev_block_hash=labels.get(expect["prevBlockHash"]),
        new_block_hash=labels[expect["newBlockHash"]],
        prev_offset=expect["prevOffset"],
        new_offset=expect["newOffset"],
    )
    by_hash = dict(chain.blocks)
    expected_slices = [by_hash[labels[label]].event for label in expect["slices"]]
    assert [each.new_data for each in expected_slices if isinstance(each, AddData)] == list(
        batch.inputs[0].slices
    )


def _chain(steps: list[Any]) -> tuple[Chain, dict[str, Multihash]]:
    chain = Chain("in", DatasetKind.ROOT)
    labels: dict[str, Multihash] = {}
    for step in steps[1:]:
        if step == "SetDataSchema":
            chain.add(schema("a BIGINT"))
        elif step == "SetInfo":
            chain.add(SetInfo(description="d"))
        else:
            start, end = step["offsets"]
            chain.rows(end - start + 1, step.get("watermark"))
            labels[step["AddData"]] = chain.blocks[-1][0]
    return chain, labels


def _output(case: dict[str, Any], chain: Chain, labels: dict[str, Multihash]) -> Chain:
    output = Chain("out", DatasetKind.DERIVATIVE)
    if case.get("derivHasSchema") or case["previous"] is not None:
        output.add(schema("a BIGINT"))
    if case["previous"] is not None:
        read = ExecuteTransformInput(
            dataset_id=chain.state.dataset,
            new_block_hash=labels[case["previous"]["newBlockHash"]],
            new_offset=case["previous"]["newOffset"],
        )
        output.add(ExecuteTransform(query_inputs=(read,), new_data=slice_of(0, 0)))
    return output


def test_an_input_without_a_schema_holds_the_step_back() -> None:
    chain = Chain("in", DatasetKind.ROOT)
    output = Chain("out", DatasetKind.DERIVATIVE)
    pending = PendingInput(InputNow("in", chain.state), tuple(chain.blocks))
    assert bind(output.state, [pending]) is None


def test_a_moved_watermark_gives_a_step_without_records() -> None:
    chain = Chain("in", DatasetKind.ROOT, [schema("a BIGINT")]).rows(0, "2024-05-01T00:00:00Z")
    output = Chain("out", DatasetKind.DERIVATIVE, [schema("a BIGINT")])
    batch = bind(output.state, [PendingInput(InputNow("in", chain.state), tuple(chain.blocks))])
    assert batch is not None
    assert not batch.has_records
    assert batch.watermark == Timestamp.parse("2024-05-01T00:00:00Z")
    assert batch.query_inputs[0].new_offset is None


def test_a_recorded_block_is_bound_again_to_the_slices_it_was_made_from() -> None:
    chain = Chain("in", DatasetKind.ROOT, [schema("a BIGINT")]).rows(3).rows(2).rows(4)
    history = [
        block.event.new_data
        for _, block in chain.blocks
        if isinstance(block.event, AddData) and block.event.new_data is not None
    ]
    block = ExecuteTransform(
        query_inputs=(
            ExecuteTransformInput(
                dataset_id=chain.state.dataset,
                new_block_hash=chain.blocks[3][0],
                prev_offset=2,
                new_offset=4,
            ),
        )
    )
    (bound,) = rebind(block, ["in"], [history]).inputs
    assert bound.interval == OffsetInterval(3, 4)
    assert bound.slices == (history[1],)
