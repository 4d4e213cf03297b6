"""How far a derivative is behind its inputs."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.staleness import lag_of
from tests.planner.builders import Chain, schema, slice_of, sql

EARLY, LATE = "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"


def source(name: str, rows: Sequence[int] = (), mark: str | None = None) -> Chain:
    chain = Chain(name, DatasetKind.ROOT, [schema("a BIGINT")])
    for each in rows:
        chain.rows(each, mark)
    return chain


def reader(*inputs: Chain, read: Sequence[int] = ()) -> ChainState:
    """Return a derivative that has read so many records of each input."""
    ids = [each.state.dataset for each in inputs]
    sources = tuple(TransformInput(id, f"in{at}") for at, id in enumerate(ids))
    query = SetTransform(inputs=sources, transform=sql("select a from in0"))
    chain = Chain("out", DatasetKind.DERIVATIVE, [query, schema("a BIGINT")])
    if read:
        intervals = [
            ExecuteTransformInput(
                dataset_id=id,
                new_block_hash=each.state.head if count else None,
                new_offset=count - 1 if count else None,
            )
            for id, each, count in zip(ids, inputs, read, strict=True)
        ]
        chain.add(ExecuteTransform(query_inputs=tuple(intervals), new_data=slice_of(0, 0)))
    return chain.state


def present(*inputs: Chain) -> dict[DatasetId, ChainState]:
    return {each.state.dataset: each.state for each in inputs}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
def test_a_lag_is_what_all_inputs_have_and_were_not_read_of(
    counts: list[tuple[int, int]],
) -> None:
    inputs = [
        source(f"in{at}", [each for each in counted if each]) for at, counted in enumerate(counts)
    ]
    state = reader(*inputs, read=[before for before, _ in counts])
    lag = lag_of(state, present(*inputs))
    assert lag is not None
    assert lag.records == sum(after for _, after in counts)
    assert [each.behind for each in lag.inputs] == [after for _, after in counts]


def test_nothing_read_is_behind_by_everything() -> None:
    chain = source("in", [3, 2])
    lag = lag_of(reader(chain), present(chain))
    assert lag is not None
    assert (lag.records, lag.watermark) == (5, None)


def test_an_input_that_comes_twice_counts_once() -> None:
    chain = source("in", [3])
    lag = lag_of(reader(chain, chain), present(chain))
    assert lag is not None
    assert (lag.records, len(lag.inputs)) == (3, 1)


def test_the_watermark_that_would_be_reached_is_the_least() -> None:
    one, two = source("one", [1], LATE), source("two", [1], EARLY)
    lag = lag_of(reader(one, two), present(one, two))
    assert lag is not None
    assert lag.watermark == Timestamp.parse(EARLY)


def test_a_shorter_input_was_rewritten_and_one_that_is_not_there_has_no_number() -> None:
    chain, other = source("in", [2]), source("other", [9])
    state = reader(chain, other, read=[4, 9])
    lag = lag_of(state, present(chain))
    assert lag is not None
    assert lag.records is None
    assert [(each.rewritten, each.present) for each in lag.inputs] == [(True, 2), (False, None)]


def test_one_of_which_it_is_known_that_it_was_rewritten_has_no_number_either() -> None:
    chain = source("in", [4])
    state = reader(chain, read=[4])
    lag = lag_of(state, present(chain), rewritten=[chain.state.dataset])
    assert lag is not None
    assert (lag.records, lag.watermark) == (None, None)


def test_a_root_has_no_lag() -> None:
    assert lag_of(source("in", [1]).state, {}) is None
