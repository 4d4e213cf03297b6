"""Blocks of a bucket: what is asked for, whatever else is there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.wire.blocks import block_hash, decode_block, encode_block
from odfbuild.repositories.transports import object_store
from odfbuild.repositories.transports.object_store import ObjectDataset, ObjectFiles
from odfbuild.repositories.walk import newest_first
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.store.abilities import Abilities
from tests.support.data.histories import History, licensed

COUNT = 150


class Blocks:
    """The blocks of a bucket, and what was asked of it."""

    place = "memory"

    def __init__(self, blocks: dict[str, bytes]) -> None:
        self.blocks = blocks
        self.asked: list[str] = []
        self.pages = 0

    def get(self, path: str, most: int) -> bytes | None:
        self.asked.append(path.removeprefix("blocks/"))
        return self.blocks.get(path.removeprefix("blocks/"))

    def block_sizes(self) -> Iterator[tuple[str, int]]:
        self.pages += 1
        for name in sorted(self.blocks):
            yield name, len(self.blocks[name])

    def read(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        source = ObjectDataset(cast("ObjectFiles", self), lambda: Abilities(True, True))
        return source.blocks(head, after)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Multihash, bytes]]:
    """Return the blocks of a chain, newest first."""
    made = History(tmp_path_factory.mktemp("made"), *(licensed(n) for n in range(COUNT - 3)))
    return list(newest_first(made.dataset, made.state.head))


def names(chain: list[tuple[Multihash, bytes]]) -> dict[str, bytes]:
    return {str(hash): data for hash, data in chain}


def others(count: int) -> dict[str, bytes]:
    return {str(sha3_256(str(n).encode())): b"other" for n in range(count)}


@pytest.mark.parametrize("new", [0, 1, 2, 64])
def test_of_few_new_blocks_each_is_asked_for_once(
    new: int, chain: list[tuple[Multihash, bytes]]
) -> None:
    bucket = Blocks(names(chain))
    assert list(bucket.read(chain[0][0], chain[new][0])) == chain[:new]
    assert bucket.pages == 0
    assert len(bucket.asked) <= new + 1  # to know how many there are


def test_who_stops_after_the_first_has_asked_for_no_other(
    chain: list[tuple[Multihash, bytes]],
) -> None:
    bucket = Blocks(names(chain))
    assert next(bucket.read(chain[0][0], chain[1][0])) == chain[0]
    assert bucket.asked == [str(chain[0][0])]


@pytest.mark.parametrize("new", [100, COUNT])
def test_of_many_new_blocks_all_that_are_there_are_asked_for_at_once(
    new: int, chain: list[tuple[Multihash, bytes]]
) -> None:
    bucket = Blocks(names(chain) | others(30))
    after = None if new == COUNT else chain[new][0]
    assert list(bucket.read(chain[0][0], after)) == chain[:new]
    assert bucket.pages == 1
    assert set(bucket.asked) == bucket.blocks.keys()


@pytest.mark.parametrize("new", [100, COUNT])
def test_what_else_is_there_is_never_read_without_end(
    new: int, chain: list[tuple[Multihash, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PARALLEL", 2)
    bucket = Blocks(names(chain) | others(1_000))
    after = None if new == COUNT else chain[new][0]
    assert list(bucket.read(chain[0][0], after)) == chain[:new]
    assert len(bucket.asked) <= 3 * new + 2


def test_a_block_that_is_missing_is_named(chain: list[tuple[Multihash, bytes]]) -> None:
    left = names(chain)
    del left[str(chain[COUNT // 2][0])]
    with pytest.raises(BrokenSourceError, match=str(chain[COUNT // 2][0])):
        list(Blocks(left).read(chain[0][0], None))


def test_a_head_may_say_any_number(chain: list[tuple[Multihash, bytes]]) -> None:
    forged = encode_block(replace(decode_block(chain[0][1]), sequence_number=2**64 - 1))
    bucket = Blocks(names(chain) | {str(block_hash(forged)): forged})
    found = list(bucket.read(block_hash(forged), None))
    assert found == [(block_hash(forged), forged), *chain[1:]]
