"""Why a derivative dataset is out of date."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import DatasetKind, ExecuteTransform, ExecuteTransformInput
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.intervals import PendingInput, bind
from odfbuild.planner.staleness import DivergedInputError, InputNow, next_watermark, why_stale
from tests.planner.builders import Chain, schema, slice_of

MARKS = st.sampled_from([None, "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"])


def source(name: str = "in") -> Chain:
    return Chain(name, DatasetKind.ROOT, [schema("a BIGINT")])


def consumer(*inputs: Chain) -> Chain:
    """Return an output that has read all that its inputs hold."""
    output = Chain("out", DatasetKind.DERIVATIVE, [schema("a BIGINT")])
    batch = bind(output.state, [pending(output, each) for each in inputs])
    if batch is not None:
        new = slice_of(0, 0) if batch.has_records else None
        output.add(
            ExecuteTransform(
                query_inputs=batch.query_inputs, new_data=new, new_watermark=batch.watermark
            )
        )
    return output


def pending(output: Chain, chain: Chain) -> PendingInput:
    read = output.state.progress.get(chain.state.dataset)
    names = [name for name, _ in chain.blocks]
    start = 0 if read is None or read.new_block_hash is None else names.index(read.new_block_hash)
    blocks = chain.blocks[start + 1 :] if read is not None else chain.blocks
    return PendingInput(InputNow("in", chain.state), tuple(blocks))


@given(st.lists(st.tuples(st.integers(0, 5), MARKS), max_size=5))
def test_consuming_all_that_is_present_leaves_nothing_to_do(
    rows: list[tuple[int, str | None]],
) -> None:
    chain = source()
    high = None
    for count, mark in rows:
        high = max(filter(None, [high, mark]), default=None)
        if count or high:
            chain.rows(count, high)
    output = consumer(chain)
    assert why_stale(output.state, [InputNow("in", chain.state)]) == ()


def test_the_very_first_record_counts_as_news() -> None:
    chain = source()
    output = consumer(chain)
    chain.rows(1)
    (reason,) = why_stale(output.state, [InputNow("in", chain.state)])
    assert (reason.consumed, reason.present) == (None, 0)


def test_a_moved_watermark_alone_is_a_reason() -> None:
    chain = source().rows(2, "2024-01-01T00:00:00Z")
    output = consumer(chain)
    chain.rows(0, "2024-01-02T00:00:00Z")
    (reason,) = why_stale(output.state, [InputNow("in", chain.state)])
    assert reason.watermark == Timestamp.parse("2024-01-02T00:00:00Z")
    assert reason.consumed == reason.present == 1


def test_blocks_that_only_describe_an_input_are_no_reason() -> None:
    chain = source().rows(2, "2024-01-01T00:00:00Z")
    output = consumer(chain)
    chain.add(schema("a BIGINT", "b STRING"))
    assert why_stale(output.state, [InputNow("in", chain.state)]) == ()


def test_a_shrunken_input_is_refused_with_a_way_out() -> None:
    output = consumer(source().rows(10))
    with pytest.raises(DivergedInputError, match="3 records but 10 were read") as caught:
        why_stale(output.state, [InputNow("in", source().rows(3).state)])
    assert "restore" in caught.value.fix


def test_the_slowest_input_holds_the_watermark_back() -> None:
    fast = source("fast").rows(1, "2024-03-01T00:00:00Z")
    slow = source("slow").rows(1, "2024-01-01T00:00:00Z")
    output = Chain("out", DatasetKind.DERIVATIVE)
    inputs = [InputNow("fast", fast.state), InputNow("slow", slow.state)]
    assert str(next_watermark(output.state, inputs)) == "2024-01-01T00:00:00Z"


def test_an_input_without_a_watermark_never_takes_one_back() -> None:
    marked = source("marked").rows(1, "2024-03-01T00:00:00Z")
    output = consumer(marked)
    unmarked = source("unmarked")
    inputs = [InputNow("marked", marked.state), InputNow("unmarked", unmarked.state)]
    assert str(next_watermark(output.state, inputs)) == "2024-03-01T00:00:00Z"
    fresh = Chain("fresh", DatasetKind.DERIVATIVE)
    assert next_watermark(fresh.state, inputs) is None


def test_an_input_that_was_read_without_a_block_hash_stays_where_it_was() -> None:
    chain = source().rows(3)
    output = consumer(chain)
    recorded = output.state.progress[chain.state.dataset]
    output.add(
        ExecuteTransform(
            query_inputs=(
                ExecuteTransformInput(
                    dataset_id=chain.state.dataset,
                    prev_block_hash=recorded.new_block_hash,
                    prev_offset=recorded.new_offset,
                ),
            ),
            prev_offset=output.state.last_offset,
            new_watermark=Timestamp.parse("2024-01-01T00:00:00Z"),
        )
    )
    assert output.state.progress[chain.state.dataset].new_offset == 2
