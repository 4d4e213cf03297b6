"""Whether a head reaches a block: by the blocks themselves, and reading few of them."""

from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset, NotInChainError, holds
from odfbuild.state.chain.heads import HeadMovedError
from tests.support.data.chains import ROOT, later, some_hash
from tests.support.data.disks import dataset_in, stage, verified


def grown(folder: Path, blocks: int) -> tuple[Dataset, list[Multihash]]:
    dataset = dataset_in(folder / "dataset")
    state = dataset.commit(CommitRequest((ROOT,), later(0)), on=None)
    for n in range(1, blocks):
        state = dataset.commit(CommitRequest((SetInfo(description=str(n)),), later(n)), on=state)
    return dataset, [hash for hash, _ in dataset.blocks()]


def test_a_head_reaches_what_came_before_it(tmp_path: Path) -> None:
    dataset, hashes = grown(tmp_path, 5)
    assert all(holds(dataset, each, hashes[-1]) for each in hashes)
    assert not any(holds(dataset, each, hashes[1]) for each in hashes[2:])
    assert not holds(dataset, some_hash("nobody's"), hashes[-1])


def test_blocks_that_were_given_up_are_not_reached(tmp_path: Path) -> None:
    dataset, hashes = grown(tmp_path, 5)
    last = dataset.state()
    assert last is not None
    new = dataset.rewrite(
        CommitRequest((SetInfo(description="other"),), later(9)), hashes[2], last
    ).head
    assert [holds(dataset, each, new) for each in hashes] == [True, True, True, False, False]
    assert verified(dataset).sequence == 3


def test_only_blocks_since_are_read(tmp_path: Path) -> None:
    dataset, hashes = grown(tmp_path, 6)
    for each in hashes[:3]:
        dataset.stores.blocks.path(each).unlink()
    assert holds(dataset, hashes[3], hashes[-1])
    assert not holds(dataset, hashes[0], hashes[-1])


def test_a_rewrite_from_a_block_of_another_branch_is_refused(tmp_path: Path) -> None:
    dataset, hashes = grown(tmp_path, 3)
    last, before = dataset.state(), dataset.state(hashes[1])
    assert last is not None
    assert before is not None
    dataset.set_head(hashes[1], hashes[2])
    prepared = CommitRequest((SetInfo(description="x"),), later(9))
    with pytest.raises(NotInChainError):
        dataset.rewrite(prepared, hashes[2], before)
    with pytest.raises(HeadMovedError):
        dataset.rewrite(prepared, hashes[1], last)
    with pytest.raises(HeadMovedError):
        dataset.set_head(hashes[0], hashes[2])
    assert dataset.head() == hashes[1]


def test_the_state_after_a_reset_is_that_of_the_block(tmp_path: Path) -> None:
    dataset, hashes = grown(tmp_path, 3)
    before = dataset.state()
    assert before is not None
    dataset.commit(stage(tmp_path / "staging", before), on=before)
    now = dataset.state()
    assert now is not None
    assert now.next_offset == 3
    dataset.set_head(before.head, now.head)
    assert dataset.state() == before
    assert hashes[-1] == before.head
    dataset.set_head(now.head, before.head)
    assert dataset.state() == now
