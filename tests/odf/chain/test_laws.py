"""Laws of folding: what holds for every chain that the rules allow."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import (
    AppendingSeedBlockToNonEmptyChainError,
    FirstBlockMustBeSeedError,
    PrevBlockNotFoundError,
)
from odfbuild.odf.chain.snapshot import UnreadableStateError, from_bytes, to_bytes
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    ExecuteTransform,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from tests.support.data.chains import (
    ROOT,
    SCHEMA,
    Link,
    after,
    chains,
    folded,
    grown,
    later,
    set_transform,
    slice_of,
)


@given(chains())
def test_every_block_of_a_grown_chain_is_allowed_after_the_ones_before(links: list[Link]) -> None:
    for n, link in enumerate(links):
        check_append(folded(links[:n]), link.block)


@given(chains(min_size=2), st.data())
def test_no_block_is_allowed_anywhere_but_in_its_place(
    links: list[Link], data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, len(links) - 1))
    m = data.draw(st.integers(0, len(links)).filter(lambda m: m != n))
    refusals = (PrevBlockNotFoundError, AppendingSeedBlockToNonEmptyChainError)
    with pytest.raises(refusals):
        check_append(folded(links[:m]), links[n].block)


@given(chains(), st.data())
def test_folding_goes_on_from_a_state_that_was_put_away(
    links: list[Link], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(links)))
    before = folded(links[:cut])
    assert before is not None
    assert folded(links[cut:], from_bytes(to_bytes(before))) == folded(links)


@given(chains(), st.data())
def test_folding_parts_one_after_another_is_folding_the_whole(
    links: list[Link], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(links)), max_size=4)))
    state = None
    for first, last in pairwise([0, *cuts, len(links)]):
        state = folded(links[first:last], state)
    assert state == folded(links)


@given(chains())
def test_the_state_names_the_last_block_and_the_last_record(links: list[Link]) -> None:
    state = folded(links)
    assert state is not None
    events = [link.block.event for link in links]
    ends = [
        event.new_data.offset_interval.end
        for event in events
        if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None
    ]
    assert state.head == links[-1].hash
    assert state.sequence == len(links) - 1
    assert state.last_offset == max(ends, default=None)
    assert state.next_offset == len(range(max(ends, default=-1) + 1))
    assert state.has_data == bool(ends)
    assert state.position.offset == state.last_offset
    assert state.position.watermark == state.watermark


@given(chains())
def test_progress_is_the_furthest_that_each_input_was_read(links: list[Link]) -> None:
    state = folded(links)
    assert state is not None
    furthest: dict[object, int] = {}
    for link in links:
        if isinstance(link.block.event, ExecuteTransform):
            for each in link.block.event.query_inputs:
                if each.new_offset is not None:
                    furthest[each.dataset_id] = each.new_offset
    known = {id: each.new_offset for id, each in state.progress.items() if each.new_block_hash}
    assert known == furthest


@pytest.mark.parametrize(
    "event",
    [
        SetDataSchema(raw_arrow_schema=b"\x00\xff"),
        replace(set_transform(), inputs=(TransformInput(DatasetAlias.parse("Acc/Foo")),)),
    ],
    ids=["bytes", "alias"],
)
def test_a_state_that_no_rule_was_asked_about_is_kept_too(event: MetadataEvent) -> None:
    link = after(grown(ROOT), event)
    state = fold(grown(ROOT), link.block, link.hash)
    assert from_bytes(to_bytes(state)) == state


def test_a_state_does_not_grow_with_its_chain() -> None:
    def size_after(slices: int) -> int:
        state = grown(ROOT, SCHEMA)
        for n in range(slices):
            event = AddData(
                prev_offset=state.last_offset,
                new_data=slice_of(state.next_offset, state.next_offset),
                new_watermark=later(n),
            )
            link = after(state, event)
            state = fold(state, link.block, link.hash)
        return len(to_bytes(state))

    assert size_after(300) <= size_after(10) + 30  # some numbers get more digits


def test_a_chain_without_seed_has_no_state() -> None:
    link = after(None, SetInfo(description="x"))
    with pytest.raises(FirstBlockMustBeSeedError, match="starts with SetInfo"):
        fold(None, link.block, link.hash)


def test_a_second_seed_has_no_state() -> None:
    link = after(grown(ROOT), ROOT)
    with pytest.raises(AppendingSeedBlockToNonEmptyChainError):
        fold(grown(ROOT), link.block, link.hash)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableStateError):
        from_bytes(data)


@given(chains(), st.data())
def test_damaged_bytes_give_an_error_or_a_state_but_nothing_else(
    links: list[Link], data: st.DataObject
) -> None:
    state = folded(links)
    assert state is not None
    good = to_bytes(state)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + data.draw(st.binary(max_size=2)) + good[at + 1 :]
    try:
        read = from_bytes(bad)
    except UnreadableStateError:
        return
    assert isinstance(read, ChainState)


@pytest.mark.parametrize(
    "text",
    [
        '["ChainState"]',
        '["Nothing"]',
        '{"h":"f1620"}',
        '{"x":1,"y":2}',
        '["Seed",{"e":["DatasetKind","Neither"]}]',
        "[[]]",
        '{"b":"%%%%%"}',
        "17",
    ],
)
def test_values_that_are_no_state_are_refused(text: str) -> None:
    with pytest.raises(UnreadableStateError):
        from_bytes(text.encode())


def test_a_state_holds_nothing_but_protocol_values() -> None:
    state = grown(ROOT)
    object.__setattr__(state, "watermark", 1.5)
    with pytest.raises(TypeError, match="float"):
        to_bytes(state)
