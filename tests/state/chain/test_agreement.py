"""A row of the index counts only if the blocks at its head say the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import SetInfo
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import encode_block
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset, WrongStateError
from odfbuild.state.chain.index import agrees
from odfbuild.state.chain.objects import MemoryObjects
from tests.executors.runs.test_scheduler import copy
from tests.support.data.chains import Link, chains, folded
from tests.support.workshop import Workshop, ledger

NEVER = Timestamp.parse("2020-01-01T00:00:00Z")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = Workshop(tmp_path)
    for day in (1, 2):
        made.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        assert not made.apply([ledger(), copy("top", "src")]).failures
    return made


def state_of(dataset: Dataset) -> ChainState:
    state = dataset.state()
    assert state is not None
    return state


WRONG: dict[str, Any] = {
    "last_offset": 0,
    "watermark": NEVER,
    "source_state": {},
    "sequence": 1,
    "system_time": NEVER,
    "last_add_data": None,
}


@pytest.mark.parametrize("fact", WRONG)
def test_a_wrong_fact_is_found_and_the_chain_is_read_anew(shop: Workshop, fact: str) -> None:
    dataset = shop.dataset("src")
    right = state_of(dataset)
    wrong = replace(right, **{fact: WRONG[fact]})
    assert agrees(right, dataset.stores.blocks)
    assert not agrees(wrong, dataset.stores.blocks)
    shop.workspace.index.put(wrong)
    assert state_of(shop.dataset("src")) == right


def test_progress_of_another_head_is_found(shop: Workshop) -> None:
    dataset = shop.dataset("top")
    right = state_of(dataset)
    assert agrees(right, dataset.stores.blocks)
    assert not agrees(replace(right, progress={}), dataset.stores.blocks)
    assert not agrees(replace(right, transform_is_new=True), dataset.stores.blocks)


def test_the_last_data_is_looked_at_behind_blocks_without_any(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    for text in ("one", "two"):
        state = state_of(dataset)
        dataset.commit(CommitRequest((SetInfo(description=text),), NEVER), state)
    right = state_of(dataset)
    assert agrees(right, dataset.stores.blocks)
    assert not agrees(replace(right, last_offset=7), dataset.stores.blocks)
    assert not agrees(replace(right, info=None), dataset.stores.blocks)


def test_rows_are_not_doubled_by_an_index_that_forgot_the_last_file(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    right = state_of(dataset)
    shop.workspace.index.put(replace(right, last_offset=0, source_state={}))
    shop.file("3.csv", "2024-01-03,k3,3")
    assert not shop.apply([ledger()]).failures
    rows = [row[0] for row in shop.rows("src")]
    assert rows == [0, 1, 2]


def test_nothing_is_committed_on_a_state_that_is_not_that_of_the_head(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    right = state_of(dataset)
    prepared = CommitRequest((SetInfo(description="one"),), NEVER)
    with pytest.raises(WrongStateError):
        dataset.commit(prepared, replace(right, last_offset=0))
    assert dataset.head() == right.head


@given(chains())
def test_the_state_of_any_chain_agrees_with_it_at_every_block(links: list[Link]) -> None:
    blocks, state = MemoryObjects(), None
    for link in links:
        blocks.put({link.hash: encode_block(link.block)})
        state = fold(state, link.block, link.hash)
        assert agrees(state, blocks)


@given(chains(min_size=3), st.data())
def test_facts_of_data_of_an_earlier_head_are_found(links: list[Link], data: st.DataObject) -> None:
    blocks = MemoryObjects()
    blocks.put({link.hash: encode_block(link.block) for link in links})
    then = folded(links[: data.draw(st.integers(1, len(links) - 1))])
    now = folded(links)
    assert now is not None
    assert then is not None
    for fact in ("last_offset", "watermark", "checkpoint", "sequence"):
        if getattr(now, fact) != getattr(then, fact):
            assert not agrees(replace(now, **{fact: getattr(then, fact)}), blocks)
