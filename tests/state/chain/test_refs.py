"""Named references: forward only, by compare-and-swap, sharing all objects with the head."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import fold
from odfbuild.odf.events import MetadataBlock, SetInfo
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError, InvalidRefNameError, MemoryHeads
from odfbuild.state.chain.objects import MemoryObjects, MissingObjectError
from odfbuild.state.chain.refs import (
    AmbiguousBlockError,
    NotFastForwardError,
    ProtectedRefError,
    UnknownBlockError,
    UnknownRefError,
    advance,
    ancestry,
    find_block,
    find_ref,
    positions,
    refs,
    remove,
)
from odfbuild.state.chain.stores import Stores
from tests.support.data.chains import OUR_ID, ROOT, later
from tests.support.data.disks import Crash, StoppingDisk, dataset_in

LENGTH = 6


def in_memory() -> Dataset:
    stores = Stores(MemoryHeads(), MemoryObjects(), MemoryObjects(), MemoryObjects())
    return Dataset(OUR_ID, stores)


def grow(dataset: Dataset, count: int, *, on: Multihash | None = None, word: str = "") -> Multihash:
    """Put blocks after a block, without moving the head; return the last one."""
    blocks = list(dataset.blocks(upto=on)) if on is not None else []
    state = None
    for hash, block in blocks:
        state = fold(state, block, hash)
    for _ in range(count):
        number = 0 if state is None else state.sequence + 1
        event = ROOT if state is None else SetInfo(description=f"{word} {number}")
        block = MetadataBlock(
            system_time=later(number),
            prev_block_hash=None if state is None else state.head,
            sequence_number=number,
            event=event,
        )
        data = encode_block(block)
        dataset.stores.blocks.put({block_hash(data): data})
        state = fold(state, block, block_hash(data))
    assert state is not None
    return state.head


def chain(dataset: Dataset) -> list[Multihash]:
    return [hash for hash, _ in dataset.blocks()]


@pytest.fixture
def dataset() -> Dataset:
    """Return a dataset of six blocks."""
    made = in_memory()
    made.stores.heads.swap("head", expected=None, new=grow(made, LENGTH))
    return made


def test_a_new_dataset_has_its_head_only(dataset: Dataset) -> None:
    assert refs(dataset) == {"head": dataset.head()}
    (at,) = positions(dataset)
    assert (at.name, at.sequence, at.behind, at.ahead) == ("head", LENGTH - 1, 0, 0)


@given(st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=6))
def test_a_reference_only_ever_goes_forward(steps: list[int]) -> None:
    dataset = in_memory()
    dataset.stores.heads.swap("head", expected=None, new=grow(dataset, LENGTH))
    blocks = chain(dataset)
    now = -1
    for step in steps:
        if step >= now:
            before = advance(dataset, "branch", blocks[step])
            assert before == (None if now < 0 else blocks[now])
            now = step
        else:
            with pytest.raises(NotFastForwardError) as caught:
                advance(dataset, "branch", blocks[step])
            assert (caught.value.current, caught.value.new) == (blocks[now], blocks[step])
        assert find_ref(dataset, "branch") == blocks[now]
        assert dataset.head() == blocks[-1]


def test_a_branch_shares_every_block_with_the_head(dataset: Dataset) -> None:
    before = set(dataset.stores.blocks.list())
    advance(dataset, "branch", chain(dataset)[3])
    assert set(dataset.stores.blocks.list()) == before
    assert [hash for hash, _ in ancestry(dataset, find_ref(dataset, "branch"))] == chain(dataset)[
        3::-1
    ]


def test_another_branch_is_not_forward(dataset: Dataset) -> None:
    blocks = chain(dataset)
    beside = grow(dataset, 2, on=blocks[2], word="beside")
    advance(dataset, "branch", beside)
    with pytest.raises(NotFastForwardError, match=str(beside)):
        advance(dataset, "branch", blocks[-1])
    assert find_ref(dataset, "branch") == beside


def test_distances_count_the_blocks_of_either_side(dataset: Dataset) -> None:
    blocks = chain(dataset)
    advance(dataset, "here", blocks[-1])
    advance(dataset, "old", blocks[1])
    advance(dataset, "beside", grow(dataset, 2, on=blocks[2], word="beside"))
    told = {at.name: (at.sequence, at.behind, at.ahead) for at in positions(dataset)}
    assert told == {"head": (5, 0, 0), "beside": (4, 3, 2), "here": (5, 0, 0), "old": (1, 4, 0)}
    assert next(iter(told)) == "head"


def test_a_reference_to_what_is_gone_does_not_hide_the_others(dataset: Dataset) -> None:
    dataset.stores.heads.swap("lost", expected=None, new=sha3_256(b"gone"))
    head, lost = positions(dataset)
    assert head.problem is None
    assert lost.problem is not None
    assert "missing" in lost.problem


def test_a_block_that_is_not_here_cannot_be_named(dataset: Dataset) -> None:
    with pytest.raises(MissingObjectError):
        advance(dataset, "branch", sha3_256(b"gone"))
    assert set(refs(dataset)) == {"head"}


def test_the_head_is_neither_set_nor_deleted_by_hand(dataset: Dataset) -> None:
    before = dataset.head()
    with pytest.raises(ProtectedRefError):
        advance(dataset, "head", chain(dataset)[-1])
    with pytest.raises(ProtectedRefError):
        remove(dataset, "head")
    assert dataset.head() == before


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "-a", "a/b", "../head", "a.b", "a b", "a\n", "é", "a" * 101]
)
def test_a_name_that_is_no_name_is_refused(dataset: Dataset, name: str) -> None:
    with pytest.raises(InvalidRefNameError):
        advance(dataset, name, chain(dataset)[0])


def test_a_deleted_reference_is_gone_and_its_blocks_are_not(dataset: Dataset) -> None:
    blocks = chain(dataset)
    advance(dataset, "branch", blocks[2])
    assert remove(dataset, "branch") == blocks[2]
    assert set(refs(dataset)) == {"head"}
    assert dataset.block(blocks[2]).sequence_number == 2
    with pytest.raises(UnknownRefError, match="'branch'"):
        remove(dataset, "branch")


def test_an_unknown_reference_is_answered_with_the_nearest(dataset: Dataset) -> None:
    advance(dataset, "release", chain(dataset)[2])
    with pytest.raises(UnknownRefError) as caught:
        find_ref(dataset, "relaese")
    assert "'release'" in caught.value.fix


def test_a_lost_race_changes_nothing(dataset: Dataset) -> None:
    blocks = chain(dataset)
    heads = dataset.stores.heads
    advance(dataset, "branch", blocks[1])
    with pytest.raises(HeadMovedError, match="the reference branch is"):
        heads.swap("branch", expected=blocks[0], new=blocks[3])
    with pytest.raises(HeadMovedError, match="the reference branch is"):
        heads.delete("branch", expected=blocks[0])
    assert find_ref(dataset, "branch") == blocks[1]


def test_of_many_who_set_one_reference_at_once_the_farthest_stands(tmp_path: Path) -> None:
    dataset = dataset_in(tmp_path)
    dataset.stores.heads.swap("head", expected=None, new=grow(dataset, LENGTH))
    blocks = chain(dataset)
    refused: list[Exception] = []

    def set_until_it_stands(block: Multihash) -> None:
        while True:
            try:
                advance(dataset_in(tmp_path), "branch", block)
            except HeadMovedError:
                continue
            except NotFastForwardError as error:
                refused.append(error)
            return

    threads = [threading.Thread(target=set_until_it_stands, args=(each,)) for each in blocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert find_ref(dataset, "branch") == blocks[-1]
    assert len(refused) < LENGTH


# the words for blocks


def test_a_block_is_meant_by_reference_number_or_part_of_its_hash(dataset: Dataset) -> None:
    blocks = chain(dataset)
    advance(dataset, "branch", blocks[2])
    assert find_block(dataset, "head") == blocks[-1]
    assert find_block(dataset, "branch") == blocks[2]
    for number, block in enumerate(blocks):
        text = str(block)
        spellings = (
            str(number),
            f"0{number}",
            text,
            text.upper(),
            text[-6:],
            text[:24],
            text[5:20],
        )
        assert {find_block(dataset, each) for each in spellings} == {block}


def test_blocks_beside_the_head_can_be_meant_by_hash(dataset: Dataset) -> None:
    beside = grow(dataset, 2, on=chain(dataset)[2], word="beside")
    with pytest.raises(UnknownBlockError):
        find_block(dataset, str(beside))
    advance(dataset, "branch", beside)
    assert find_block(dataset, str(beside)) == beside
    assert find_block(dataset, beside.short()) == beside


def test_a_part_of_several_hashes_means_none(dataset: Dataset) -> None:
    """Blocks are added beside the head until two hashes begin alike."""
    begun: dict[str, Multihash] = {}
    for number in range(100):
        hash = grow(dataset, 1, on=chain(dataset)[2], word=str(number))
        advance(dataset, f"branch-{number}", hash)
        part = str(hash)[:6]
        if part in begun:
            break
        begun[part] = hash
    with pytest.raises(AmbiguousBlockError, match=r"\d blocks"):
        find_block(dataset, part)


@pytest.mark.parametrize(
    "text", ["", "6", "99", "-1", "1.0", "f1620", "beef", "hed", "a" * 64, "9" * 40, "\x1b[2J"]
)
def test_what_means_no_block_is_refused_with_a_way_to_find_one(dataset: Dataset, text: str) -> None:
    with pytest.raises(UnknownBlockError) as caught:
        find_block(dataset, text)
    assert "odfbuild log" in caught.value.fix


# on disk


def test_references_are_files_that_hold_a_hash(tmp_path: Path) -> None:
    dataset = dataset_in(tmp_path)
    dataset.stores.heads.swap("head", expected=None, new=grow(dataset, 3))
    advance(dataset, "branch", chain(dataset)[1])
    assert (tmp_path / "refs" / "branch").read_text() == str(chain(dataset)[1])
    (tmp_path / "refs" / ".pending-1").write_text("")
    (tmp_path / "refs" / "README.txt").write_text("")
    assert set(refs(dataset_in(tmp_path))) == {"head", "branch"}
    remove(dataset, "branch")
    assert not (tmp_path / "refs" / "branch").exists()


@pytest.mark.parametrize("at", range(6))
def test_a_crash_leaves_the_old_reference_or_the_new_one(tmp_path: Path, at: int) -> None:
    dataset = dataset_in(tmp_path)
    dataset.stores.heads.swap("head", expected=None, new=grow(dataset, 3))
    first, second, _ = chain(dataset)
    advance(dataset, "branch", first)
    try:
        advance(dataset_in(tmp_path, StoppingDisk(at)), "branch", second)
    except Crash:
        assert find_ref(dataset, "branch") in {first, second}
    else:
        assert find_ref(dataset, "branch") == second
    advance(dataset, "branch", second)
    assert set(refs(dataset)) == {"head", "branch"}
