"""Ids of pushes: found wherever they are in the chain, whatever became of the index."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.ingest.push.ids import has_push, push_state
from odfbuild.odf.events import AddData, AddPushSource, MergeStrategyAppend, ReadStepCsv
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.chain.index import Index, KnownPush, PushId
from tests.support.data.chains import OUR_ID, ROOT
from tests.support.data.disks import dataset_in

SOURCES = tuple(
    AddPushSource(source_name=name, read=ReadStepCsv(), merge=MergeStrategyAppend())
    for name in "abc"
)


class Chain:
    """A dataset that is pushed to: every push is a block that has nothing but its id."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.dataset: Dataset = dataset_in(folder, index=index)
        self.index = index
        (folder / "refs").mkdir(parents=True)
        self.dataset.commit(CommitRequest((ROOT, *SOURCES), Timestamp(0)), on=None)

    def push(self, source: str, id: str) -> Multihash:
        state = self.dataset.state()
        assert state is not None
        event = AddData(
            new_watermark=Timestamp(10**9 * state.sequence), new_source_state=push_state(source, id)
        )
        return self.dataset.commit(CommitRequest((event,), Timestamp(0)), on=state).head

    def has(self, source: str, id: str) -> bool:
        return has_push(self.dataset, self.index, source, id)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "d", Index(tmp_path / "index.sqlite"))


def test_a_push_is_known_by_source_and_id(chain: Chain) -> None:
    assert not chain.has("a", "1")
    for source, id in (("a", "1"), ("b", "2"), ("a", "3")):
        chain.push(source, id)
    assert chain.has("a", "1")
    assert chain.has("a", "3")
    assert chain.has("b", "2")
    assert not chain.has("b", "1")
    assert not chain.has("a", "2")
    assert not chain.has("c", "1")


def test_only_blocks_since_the_last_question_are_read(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        chain.push("a", str(number))
    assert not chain.has("a", "none")
    chain.push("a", "30")
    read: list[Multihash] = []
    get = chain.dataset.stores.blocks.get

    def counted(hash: Multihash) -> bytes:
        read.append(hash)
        return get(hash)

    monkeypatch.setattr(chain.dataset.stores.blocks, "get", counted, raising=False)
    assert chain.has("a", "0")
    assert not chain.has("a", "none")
    assert len(read) <= 4  # the head twice


def test_a_deleted_index_costs_time_only(chain: Chain, tmp_path: Path) -> None:
    chain.push("a", "1")
    chain.push("a", "2")
    assert chain.has("a", "1")
    chain.index.close()
    (tmp_path / "index.sqlite").unlink()
    assert chain.has("a", "1")
    assert not chain.has("a", "0")


def test_what_the_index_says_is_looked_up_in_the_chain(chain: Chain) -> None:
    chain.push("a", "1")
    head = chain.push("a", "2")
    lies = [PushId("a", "x", head), PushId("a", "y", sha3_256(b"nowhere"))]
    for lie in lies:
        chain.index.put_pushes(OUR_ID, [lie], after=None, upto=head)
        assert not chain.has("a", lie.id)
        assert chain.has("a", "1")


def test_a_head_that_was_set_back_is_noticed(chain: Chain) -> None:
    first = chain.push("a", "1")
    last = chain.push("a", "2")
    assert not chain.has("a", "0")
    chain.dataset.stores.heads.swap(HEAD, expected=last, new=first)
    chain.push("a", "3")
    assert not chain.has("a", "2")
    assert chain.has("a", "1")


def test_what_another_process_remembered_meanwhile_stands(chain: Chain) -> None:
    first = chain.push("a", "1")
    last = chain.push("a", "2")
    found = [PushId("a", "1", first), PushId("a", "2", last)]
    chain.index.put_pushes(OUR_ID, found, after=None, upto=last)
    chain.index.put_pushes(OUR_ID, [PushId("a", "9", last)], after=first, upto=last)
    assert chain.index.pushed_upto(OUR_ID) == last
    assert chain.index.push(OUR_ID, "a", "9", last) == KnownPush(None)
    assert chain.index.push(OUR_ID, "a", "1", last) == KnownPush(first)
    assert chain.index.push(OUR_ID, "a", "1", first) is None


def test_a_row_that_is_no_hash_is_as_none(chain: Chain, tmp_path: Path) -> None:
    chain.push("a", "1")
    chain.push("a", "2")
    assert chain.has("a", "1")
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as opened, opened:
        opened.execute("update pushed set upto = 'x'")
    assert chain.has("a", "1")
    assert chain.index.pushed_upto(OUR_ID) == chain.dataset.head()


DAMAGE = (
    "update pushes set id = id || 'x'",
    "update pushes set source = 'b'",
    "update pushes set bucket = bucket + 1",
    "update pushes set dataset = 'x' || dataset",
    "update pushes set block = (select upto from pushed)",
    "delete from pushes",
    "delete from pushes where id = '2'",
    "update pushed set sums = zeroblob(2048)",
    "update pushed set sums = 'text'",
    "update pushed set check_sum = check_sum + 1",
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_no_damage_of_the_index_lets_a_push_in_twice(
    damage: str, chain: Chain, tmp_path: Path
) -> None:
    for number in range(5):
        chain.push("a", str(number))
    assert not chain.has("a", "none")
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as opened, opened:
        opened.execute(damage)
    for number in range(5):
        assert chain.has("a", str(number))
    assert not chain.has("a", "4x")
    assert not chain.has("b", "1")


def test_an_index_of_an_earlier_head_is_caught_up(chain: Chain, tmp_path: Path) -> None:
    chain.push("a", "1")
    chain.push("a", "2")
    assert chain.has("a", "1")
    chain.index.close()
    past = (tmp_path / "index.sqlite").read_bytes()
    chain.push("a", "3")
    chain.push("a", "4")
    assert chain.has("a", "3")
    chain.index.close()
    (tmp_path / "index.sqlite").write_bytes(past)
    assert all(chain.has("a", id) for id in "1234")


def test_a_flipped_bit_anywhere_lets_no_push_in_twice(chain: Chain, tmp_path: Path) -> None:
    for number in range(20):
        chain.push("a", f"delivery-{number:02d}")
    assert not chain.has("a", "none")
    chain.index.close()
    path = tmp_path / "index.sqlite"
    whole = path.read_bytes()
    rng = random.Random(7)
    used = [at for at, byte in enumerate(whole) if byte]
    for _ in range(150):
        data = bytearray(whole)
        data[rng.choice(used)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        for number in rng.sample(range(20), 4):
            assert chain.has("a", f"delivery-{number:02d}")
        chain.index.close()
        for each in tmp_path.glob("index.sqlite-*"):
            each.unlink()


@settings(max_examples=20)
@given(
    pushes=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12345")), max_size=12),
    asked=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12345")), max_size=6),
)
def test_an_id_is_known_exactly_if_it_was_pushed(
    pushes: list[tuple[str, str]],
    asked: list[tuple[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    chain = Chain(tmp_path_factory.mktemp("pushes"), Index())
    questions = iter(asked)
    for number, (source, id) in enumerate(pushes):
        chain.push(source, id)
        question = next(questions, None)
        if question is not None:
            assert chain.has(*question) == (question in pushes[: number + 1])
    for source in "ab":
        for id in "12345":
            assert chain.has(source, id) == ((source, id) in pushes)
