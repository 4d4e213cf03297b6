"""Reading a chain, and what a commit refuses."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import StateError
from odfbuild.odf.chain.errors import ChainProfile, NoOpEventError, RejectedBlockError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddData, DatasetKind, ExecuteTransform, Seed, SetInfo, SetLicense
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain import checked_files, stores
from odfbuild.state.chain.checked_files import hash_written
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset, ForeignChainError, NotInChainError
from odfbuild.state.chain.heads import HeadMovedError, MemoryHeads
from odfbuild.state.chain.index import Index
from odfbuild.state.chain.objects import (
    CorruptObjectError,
    MemoryObjects,
    MissingObjectError,
    hash_files,
)
from odfbuild.state.chain.stores import InconsistentSliceError, Stores
from tests.support.data.chains import (
    NOON,
    OUR_ID,
    ROOT,
    Link,
    after,
    chains,
    checkpoint_of,
    folded,
    later,
    some_hash,
)
from tests.support.data.disks import dataset_in, stage, stage_slice, verified


def in_memory(index: Index | None = None) -> Dataset:
    stores = Stores(MemoryHeads(), MemoryObjects(), MemoryObjects(), MemoryObjects())
    return Dataset(OUR_ID, stores, index)


def holding(links: list[Link], index: Index | None = None) -> Dataset:
    """Put blocks and a head into memory as they are."""
    dataset = in_memory(index)
    dataset.stores.blocks.put({link.hash: link.data for link in links})
    dataset.stores.heads.swap("head", expected=None, new=links[-1].hash)
    return dataset


def note(text: str, at: int = 0) -> CommitRequest:
    return CommitRequest((SetInfo(description=text),), later(at))


def started(dataset: Dataset) -> Multihash:
    return dataset.commit(CommitRequest((ROOT,), NOON), on=None).head


# reading


def test_a_dataset_without_blocks_is_empty() -> None:
    dataset = in_memory()
    assert (dataset.head(), dataset.state(), tuple(dataset.blocks())) == (None, None, ())
    assert dataset.slices() == ()


@given(chains(), st.data())
def test_blocks_are_those_after_one_up_to_another_in_order(
    links: list[Link], data: st.DataObject
) -> None:
    dataset = holding(links)
    last = data.draw(st.integers(0, len(links) - 1))
    first = data.draw(st.integers(0, last))
    whole = [(link.hash, link.block) for link in links]
    assert list(dataset.blocks()) == whole
    found = list(dataset.blocks(after=links[first].hash, upto=links[last].hash))
    assert found == whole[first + 1 : last + 1]


@given(chains())
def test_a_long_chain_is_read_like_a_short_one(links: list[Link]) -> None:
    dataset = holding(links)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odfbuild.state.chain.dataset._KEPT_BYTES", 700)
        assert list(dataset.blocks()) == [(link.hash, link.block) for link in links]


def test_a_block_of_another_chain_is_not_found_before_any_block_is_given() -> None:
    dataset = in_memory()
    started(dataset)
    with pytest.raises(NotInChainError) as caught:
        dataset.blocks(after=some_hash("other"))
    assert caught.value.missing == some_hash("other")


@given(chains(), st.data())
def test_the_state_is_the_fold_of_all_blocks_whatever_the_index_knows(
    links: list[Link], data: st.DataObject
) -> None:
    index = Index()
    dataset = holding(links, index)
    if (known := data.draw(st.integers(0, len(links)))) > 0:
        state = folded(links[:known])
        assert state is not None
        index.put(state)
    assert dataset.state() == folded(links)
    assert index.get(OUR_ID) == folded(links)
    at = data.draw(st.integers(0, len(links) - 1))
    assert dataset.state(links[at].hash) == folded(links[: at + 1])
    assert index.get(OUR_ID) == folded(links)


@given(chains(min_size=2), chains(min_size=2))
def test_what_the_index_knows_of_another_history_is_not_used(
    links: list[Link], others: list[Link]
) -> None:
    index = Index()
    other = folded(others)
    assert other is not None
    index.put(other)
    assert holding(links, index).state() == folded(links)


# committing


def test_a_commit_numbers_and_links_its_blocks() -> None:
    dataset = in_memory()
    seed = started(dataset)
    info, licence = SetInfo(description="x"), SetLicense(short_name="a", name="b", website_url="u")
    head = dataset.commit(CommitRequest((info, licence), later(1)), on=dataset.state(seed)).head
    (_, first), (hash, second) = dataset.blocks(after=seed)
    assert (first.sequence_number, first.prev_block_hash, first.event) == (1, seed, info)
    assert (second.sequence_number, second.event, hash) == (2, licence, head)
    assert first.system_time == second.system_time == later(1)
    assert dataset.head() == head


def test_time_in_a_chain_does_not_go_back_when_a_clock_does() -> None:
    dataset = in_memory()
    late = dataset.commit(note("late", 9), on=dataset.state(started(dataset)))
    dataset.commit(note("early", 3), on=late)
    state = dataset.state()
    assert state is not None
    assert state.system_time == later(9)


def test_slices_are_all_data_in_order_and_where_it_lies(tmp_path: Path) -> None:
    dataset = dataset_in(tmp_path / "dataset")
    state = dataset.state(started(dataset))
    for rows in (2, 1):
        assert state is not None
        state = dataset.commit(stage(tmp_path / "staging", state, rows=rows), on=state)
    slices = dataset.slices()
    assert [each.offset_interval.end for each, _ in slices] == [1, 2]
    assert all(path.is_file() and path.parent.name == "data" for _, path in slices)
    assert dataset.slices(upto=next(dataset.blocks())[0]) == ()
    assert verified(dataset) == dataset.state()
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_head_that_moved_is_not_overwritten() -> None:
    dataset = in_memory()
    seed = started(dataset)
    before = dataset.state(seed)
    assert before is not None
    head = dataset.commit(note("mine"), on=before).head
    for on in (before, None, replace(before, head=some_hash("other"))):
        with pytest.raises(HeadMovedError) as caught:
            dataset.commit(note("yours"), on=on)
        expected = None if on is None else on.head
        assert (caught.value.expected, caught.value.actual) == (expected, head)
        assert caught.value.rejection == "RefCASFailed"
    assert dataset.head() == head


def test_a_dataset_that_must_exist_but_does_not_is_a_moved_head() -> None:
    other = in_memory()
    started(other)
    with pytest.raises(HeadMovedError, match="not there"):
        in_memory().commit(note("x"), on=other.state())


def test_what_the_rules_forbid_is_not_written() -> None:
    dataset = in_memory()
    seed = started(dataset)
    with pytest.raises(NoOpEventError):
        dataset.commit(CommitRequest((SetInfo(), AddData()), NOON), on=dataset.state(seed))
    assert dataset.head() == seed
    assert set(dataset.stores.blocks.list()) == {seed}


def test_a_commit_has_at_least_one_block() -> None:
    dataset = in_memory()
    with pytest.raises(StateError, match="nothing to append"):
        dataset.commit(CommitRequest((), NOON), on=None)
    seed = started(dataset)
    with pytest.raises(StateError, match="nothing to append"):
        dataset.commit(CommitRequest((), NOON), on=dataset.state(seed))


def test_the_chain_of_another_dataset_is_refused() -> None:
    other = Seed(dataset_id=DatasetId(b"\x09" * 32), dataset_kind=DatasetKind.ROOT)
    with pytest.raises(StateError, match="the chain is of"):
        in_memory().commit(CommitRequest((other,), NOON), on=None)


def test_a_chain_that_was_copied_from_another_dataset_is_not_read() -> None:
    dataset = in_memory()
    started(dataset)
    other = Dataset(DatasetId(b"\x09" * 32), dataset.stores)
    for read in (other.state, lambda: list(other.blocks()), other.slices):
        with pytest.raises(ForeignChainError, match="is that of"):
            read()


# the files of a commit


def seeded(folder: Path) -> tuple[Dataset, ChainState, CommitRequest]:
    dataset = dataset_in(folder / "dataset")
    started(dataset)
    state = verified(dataset)
    return dataset, state, stage(folder / "staging", state)


def refused(
    dataset: Dataset, state: ChainState, prepared: CommitRequest, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        dataset.commit(prepared, on=state)
    assert verified(dataset) == state


def test_a_file_that_changed_since_it_was_hashed_is_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    with prepared.files[0].path.open("ab") as file:
        file.write(b"x")
    refused(dataset, state, prepared, CorruptObjectError, "hash to")


def test_a_file_that_is_as_it_was_when_it_was_hashed_here_is_not_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, state, prepared = seeded(tmp_path)
    monkeypatch.setattr(checked_files, "_WORTH_A_WAIT", 1)
    data, checkpoint = prepared.files
    hash, mark = hash_written(data.path)
    assert hash == data.hash
    files = (replace(data, mark=mark), checkpoint)
    hashed: list[Path] = []

    def noted(places: Sequence[tuple[Multihash, Path]]) -> Iterator[Multihash]:
        hashed.extend(path for _, path in places)
        return hash_files(places)

    monkeypatch.setattr(stores, "hash_files", noted)
    dataset.commit(replace(prepared, files=files), on=state)
    assert hashed == [checkpoint.path]
    verified(dataset)


def test_a_file_that_changed_since_it_was_hashed_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, state, prepared = seeded(tmp_path)
    monkeypatch.setattr(checked_files, "_WORTH_A_WAIT", 1)
    data, checkpoint = prepared.files
    files = (replace(data, mark=hash_written(data.path)[1]), checkpoint)
    content = bytearray(data.path.read_bytes())
    content[10] ^= 1
    data.path.write_bytes(content)
    refused(dataset, state, replace(prepared, files=files), CorruptObjectError, "hash to")


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    prepared.files[1].path.unlink()
    refused(dataset, state, prepared, MissingObjectError, "is missing")


def test_a_file_that_was_not_handed_over_is_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    refused(dataset, state, replace(prepared, files=()), MissingObjectError, "staged files")


def with_add(prepared: CommitRequest, add: AddData) -> CommitRequest:
    return replace(prepared, events=(*prepared.events[:-1], add))


def add_of(prepared: CommitRequest) -> AddData:
    add = prepared.events[-1]
    assert isinstance(add, AddData)
    return add


def test_offsets_that_do_not_count_the_rows_are_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    add = add_of(prepared)
    assert add.new_data is not None
    interval = replace(add.new_data.offset_interval, end=7)
    wrong = replace(add, new_data=replace(add.new_data, offset_interval=interval))
    message = "has 3 records, its offsets count 8"
    refused(dataset, state, with_add(prepared, wrong), InconsistentSliceError, message)


def test_a_size_that_is_not_that_of_the_file_is_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    add = add_of(prepared)
    assert add.new_data is not None
    assert add.new_checkpoint is not None
    for wrong in (
        replace(add, new_data=replace(add.new_data, size=1)),
        replace(add, new_checkpoint=replace(add.new_checkpoint, size=1)),
    ):
        refused(dataset, state, with_add(prepared, wrong), InconsistentSliceError, "says 1")


def test_data_that_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    checkpoint = prepared.files[1]
    add = add_of(prepared)
    assert add.new_data is not None
    size = checkpoint.path.stat().st_size
    slice = replace(add.new_data, physical_hash=checkpoint.hash, size=size)
    wrong = replace(add, new_data=slice, new_checkpoint=None)
    files = (StagedFile(checkpoint.path, checkpoint.hash, "data"),)
    prepared = replace(with_add(prepared, wrong), files=files)
    refused(dataset, state, prepared, InconsistentSliceError, "is not a Parquet file")


def test_a_checkpoint_can_be_carried_without_its_file(tmp_path: Path) -> None:
    dataset, state, prepared = seeded(tmp_path)
    state = dataset.commit(prepared, on=state)
    checkpoint = add_of(prepared).new_checkpoint
    assert checkpoint is not None
    slice, file = stage_slice(tmp_path / "staging", 3, 1)
    add = AddData(
        prev_checkpoint=checkpoint.physical_hash,
        prev_offset=2,
        new_data=slice,
        new_checkpoint=checkpoint,
    )
    dataset.commit(CommitRequest((add,), later(9), (file,)), on=state)
    assert verified(dataset).checkpoint == checkpoint.physical_hash


# blocks made elsewhere


@given(chains())
def test_blocks_made_elsewhere_are_kept_byte_for_byte(links: list[Link]) -> None:
    bare = [link for link in links if not _has_files(link)]
    links = links[: len(bare)] if bare == links[: len(bare)] else links[:1]
    dataset = in_memory()
    head = dataset.append([link.data for link in links], on=None).head
    assert head == links[-1].hash
    assert [dataset.stores.blocks.get(link.hash) for link in links] == [link.data for link in links]
    assert dataset.state() == folded(links)


def _has_files(link: Link) -> bool:
    event = link.block.event
    if not isinstance(event, AddData | ExecuteTransform):
        return False
    return event.new_data is not None or event.new_checkpoint is not None


def test_blocks_made_elsewhere_are_held_to_the_rules_asked_for() -> None:
    dataset = in_memory()
    seed = started(dataset)
    state = dataset.state()
    forked = in_memory()
    forked.append([dataset.stores.blocks.get(seed)], on=None)
    assert forked.state() == state
    other = in_memory()
    with pytest.raises(RejectedBlockError):
        other.append(
            [dataset.stores.blocks.get(seed)] * 2, None, profile=ChainProfile.REFERENCE_2024
        )
    assert other.head() is None


def test_blocks_made_elsewhere_need_their_files() -> None:
    source = in_memory()
    checkpoint = checkpoint_of("x")
    source.stores.checkpoints.put({checkpoint.physical_hash: b"x"})
    seed = started(source)
    dataset = in_memory()
    dataset.append([source.stores.blocks.get(seed)], on=None)
    link = after(dataset.state(), AddData(new_checkpoint=checkpoint))
    with pytest.raises(MissingObjectError) as caught:
        dataset.append([link.data], on=dataset.state(seed))
    assert caught.value.missing == checkpoint.physical_hash
    assert dataset.head() == seed


# races


def test_of_committers_that_race_exactly_one_wins(tmp_path: Path) -> None:
    seed = started(dataset_in(tmp_path))
    runners = 6
    line = Barrier(runners)

    def run(n: int) -> bool:
        mine = dataset_in(tmp_path)
        prepared = note(f"runner {n}")
        line.wait()
        try:
            mine.commit(prepared, on=mine.state(seed))
        except HeadMovedError:
            return False
        return True

    with ThreadPoolExecutor(runners) as pool:
        won = list(pool.map(run, range(runners)))
    assert won.count(True) == 1
    state = verified(dataset_in(tmp_path))
    assert state.info == SetInfo(description=f"runner {won.index(True)}")


def test_processes_that_retry_lose_no_commit(tmp_path: Path) -> None:
    started(dataset_in(tmp_path))
    command = [sys.executable, "-m", "tests.state.chain.test_dataset", str(tmp_path), "15"]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert verified(dataset_in(tmp_path)).sequence == 45


def _keep_committing(folder: Path, times: int) -> None:
    dataset = dataset_in(folder)
    done = 0
    while done < times:
        try:
            dataset.commit(note(str(done)), on=dataset.state())
            done += 1
        except HeadMovedError:
            continue


def test_a_dataset_names_itself_by_its_id() -> None:
    assert str(OUR_ID) in repr(in_memory())


if __name__ == "__main__":
    _keep_committing(Path(sys.argv[1]), int(sys.argv[2]))
