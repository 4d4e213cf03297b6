"""What no reference reaches goes, and nothing else: against a walk by plain decoding."""

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.app.maintenance.compaction import rewrite_chain
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    SetInfo,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.planner.maintenance.compaction import Limits, compacted, metadata_only
from odfbuild.state.chain.attestations import DELEGATIONS, LocalAttestations
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.refs import advance
from odfbuild.state.files.disk import Disk
from odfbuild.state.gc import Freed, blocks_read, chain_reads, collect
from tests.support.data.chains import NOON, ROOT, SCHEMA, later, read_of, set_transform
from tests.support.data.disks import Crash, StoppingDisk, dataset_in, stage
from tests.support.data.histories import Added, History, licensed
from tests.support.values.newer import as_newer, in_envelope

ALWAYS = time.time() + 1e6
HUGE = 1 << 60


def folder_of(dataset: Dataset) -> Path:
    return dataset.data_path(Multihash(0x16, bytes(32))).parents[1]


def objects(folder: Path) -> set[str]:
    """Return blocks, data and checkpoints as `part/name`."""
    return {
        f"{part}/{each.name}"
        for part in ("blocks", "data", "checkpoints")
        for each in (folder / part).iterdir()
    }


def reached(folder: Path, *more: str) -> set[str]:
    """Return what the references of a dataset reach, and more blocks, from the files alone."""
    found: set[str] = set()
    left = [each.read_text("ascii") for each in (folder / "refs").iterdir()]
    left += more
    while left:
        name = left.pop()
        if f"blocks/{name}" in found or not (folder / "blocks" / name).exists():
            continue
        found.add(f"blocks/{name}")
        block = decode_block((folder / "blocks" / name).read_bytes())
        if block.prev_block_hash is not None:
            left.append(str(block.prev_block_hash))
        if isinstance(block.event, AddData | ExecuteTransform):
            if block.event.new_data is not None:
                found.add(f"data/{block.event.new_data.physical_hash}")
            if block.event.new_checkpoint is not None:
                found.add(f"checkpoints/{block.event.new_checkpoint.physical_hash}")
    return found


def collected(dataset: Dataset, *, dry_run: bool = False, before: float = ALWAYS) -> Freed:
    return collect(dataset, (), before=before, dry_run=dry_run)


# the law


def compact(history: History, records: int) -> None:
    """Merge slices up to so many records; 0 drops all data."""
    wanted = metadata_only(history.events())
    if records:
        wanted = compacted(DatasetKind.ROOT, history.events(), Limits(HUGE, records))
    if wanted is not None:
        with history.workspace.staging() as staging:
            rewrite_chain(history.dataset, wanted, staging, on=history.state, now=history.now)


def back(history: History, blocks: int) -> None:
    hashes = [hash for hash, _ in history.dataset.blocks()]
    history.dataset.set_head(hashes[max(2, len(hashes) - 1 - blocks)], hashes[-1])


def branch(history: History, number: int) -> None:
    with suppress(Exception):  # it may only go forward
        advance(history.dataset, f"branch-{number}", history.state.head)


def forth(history: History, number: int) -> None:
    """Make the head what some other reference is."""
    names = [each for each in history.dataset.stores.heads.names() if each != "head"]
    if names:
        target = history.dataset.stores.heads.read(names[number % len(names)])
        assert target is not None
        history.dataset.set_head(target, history.state.head)


_work = st.one_of(
    st.builds(Added, rows=st.integers(1, 3), columns=st.integers(1, 3), hours=st.integers(0, 2)),
    st.integers(0, 9).map(licensed),
    st.tuples(st.sampled_from([compact, back, branch, forth]), st.integers(0, 5)),
)


@given(work=st.lists(_work, max_size=12), later=st.lists(_work, max_size=3))
def test_exactly_what_no_reference_reaches_goes(
    work: list[object], later: list[object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("law"))
    folder = folder_of(history.dataset)
    for each in work:
        play(history, each)
    there, wanted = objects(folder), reached(folder)
    sizes = sum((folder / name).stat().st_size for name in there - wanted)
    told = collected(history.dataset, dry_run=True)
    assert objects(folder) == there
    done = collected(history.dataset)
    assert objects(folder) == wanted
    assert done == told
    assert (done.bytes, done.blocks + done.files) == (sizes, len(there - wanted))
    assert verify(history.dataset).findings == ()
    assert collected(history.dataset) == Freed(dataset=history.dataset.id)
    for each in later:
        play(history, each)
    assert verify(history.dataset).findings == ()


def play(history: History, what: object) -> None:
    if isinstance(what, tuple):
        work, number = what
        work(history, number)
    else:
        assert isinstance(what, Added | MetadataEvent)
        history.add(what)


# what is kept


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Return a dataset that was set back by two slices, a moment ago."""
    made = History(tmp_path, Added(2), Added(3), Added(1))
    back(made, 2)
    return made


def test_what_is_young_is_kept_with_all_that_it_stands_on(history: History) -> None:
    folder = folder_of(history.dataset)
    beyond = objects(folder) - reached(folder)
    blocks = sorted(
        (each for each in beyond if each.startswith("blocks/")),
        key=lambda each: decode_block((folder / each).read_bytes()).sequence_number,
    )
    moment = time.time()
    old, young = blocks
    assert collected(history.dataset, before=moment - 100).young == len(beyond) == 4
    assert objects(folder) - reached(folder) == beyond
    far = collect_as_if(folder, history.dataset, young_name=young)
    assert (far.blocks, far.files, far.young) == (0, 0, 4)
    assert objects(folder) - reached(folder) == beyond
    far = collect_as_if(folder, history.dataset, young_name=old)
    assert (far.blocks, far.files, far.young) == (1, 1, 2)
    assert objects(folder) == reached(folder, old.removeprefix("blocks/"))


def collect_as_if(folder: Path, dataset: Dataset, *, young_name: str) -> Freed:
    """Collect what was touched an hour ago and more, when of all objects only one was not."""
    hour = time.time() + 3_600
    real = Path.lstat

    def status(path: Path) -> SimpleNamespace:
        at = hour + 60 if path == folder / young_name else hour - 60
        return SimpleNamespace(st_size=real(path).st_size, st_mtime=at, st_ctime=at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "lstat", status)
        return collected(dataset, before=hour)


def test_a_file_that_was_moved_lately_is_young_however_old_it_is(history: History) -> None:
    folder = folder_of(history.dataset)
    for each in objects(folder):
        os.utime(folder / each, (1, 1))
    assert collected(history.dataset, before=time.time() - 60).young == 4


def test_blocks_that_a_derivative_read_are_kept(history: History) -> None:
    folder = folder_of(history.dataset)
    beyond = [each for each in objects(folder) - reached(folder) if each.startswith("blocks/")]
    _, last = sorted(
        (each.removeprefix("blocks/") for each in beyond),
        key=lambda name: decode_block((folder / "blocks" / name).read_bytes()).sequence_number,
    )
    output = history.workspace.create(
        DatasetAlias.parse("out"),
        DatasetKind.DERIVATIVE,
        CommitRequest((set_transform(history.dataset.id), SCHEMA), NOON),
    )
    read = read_of(history.dataset.id, None, 5)
    read = replace(read, new_block_hash=Multihash.parse(last))
    state = output.state()
    assert state is not None
    output.commit(
        CommitRequest((ExecuteTransform(query_inputs=(read,), new_watermark=later(1)),), NOON),
        on=state,
    )
    found = blocks_read(map(chain_reads, (output, history.dataset)))
    assert found == {history.dataset.id: {Multihash.parse(last)}}
    done = collect(history.dataset, found[history.dataset.id], before=ALWAYS)
    assert done == Freed(dataset=history.dataset.id)
    output.set_head(next(iter(dict(output.blocks()))), output.head() or Multihash(0x16, bytes(32)))
    assert blocks_read([chain_reads(output)]) == {}
    assert collect(history.dataset, (), before=ALWAYS).files == 2


def test_files_that_others_put_beside_are_left(history: History) -> None:
    folder = folder_of(history.dataset)
    (folder / "data" / "notes.txt").write_text("mine")
    (folder / "blocks" / "FOO").write_text("mine")
    collected(history.dataset)
    assert (folder / "data" / "notes.txt").exists()
    assert (folder / "blocks" / "FOO").exists()


def test_a_dataset_that_is_being_changed_is_left_alone(history: History) -> None:
    folder = folder_of(history.dataset)
    before = objects(folder)
    other = history.workspace.dataset(history.dataset.id)
    with history.dataset.stores.heads.lock():
        done = collected(other)
        assert "is locked" in (done.problem or "")
        assert collected(other, dry_run=True).blocks == 2
    assert objects(folder) == before


def test_a_damaged_chain_is_left_alone(history: History) -> None:
    folder = folder_of(history.dataset)
    head = history.dataset.head()
    (folder / "blocks" / str(head)).unlink()
    before = objects(folder)
    done = collected(history.dataset)
    assert str(head) in (done.problem or "")
    assert objects(folder) == before


def test_files_are_kept_where_a_newer_event_may_speak_of_them(
    history: History, tmp_path: Path
) -> None:
    folder = folder_of(history.dataset)
    files = {each for each in objects(folder) if not each.startswith("blocks/")}
    state = history.state
    block = MetadataBlock(
        system_time=history.now,
        prev_block_hash=state.head,
        sequence_number=state.sequence + 1,
        event=SetInfo(),
    )
    history.dataset.append([in_envelope(as_newer(block, "MetadataEvent", 99))], state)
    done = collected(history.dataset)
    assert (done.blocks, done.files) == (2, 0)
    assert files <= objects(folder)


# while others work


def test_what_a_commit_puts_in_its_place_is_never_taken_away(tmp_path: Path) -> None:
    dataset = dataset_in(tmp_path / "dataset")
    collecting: list[str | None] = []

    class Meddling(Disk):
        def rename(self, old: Path, new: Path) -> None:
            super().rename(old, new)
            other = dataset_in(tmp_path / "dataset")
            collecting.append(collect(other, (), before=ALWAYS).problem)

    seed = dataset.commit(CommitRequest((ROOT,), NOON), on=None)
    state = dataset.state()
    assert state is not None
    meddled = dataset_in(tmp_path / "dataset", Meddling())
    meddled.commit(stage(tmp_path / "staging", state), on=seed)
    assert len(collecting) == 5
    assert all(each is not None and "locked" in each for each in collecting)
    folder = tmp_path / "dataset"
    assert objects(folder) == reached(folder)


@pytest.mark.parametrize("n", range(8))
def test_whenever_it_is_cut_off_what_is_left_is_whole(n: int, tmp_path: Path) -> None:
    made = History(tmp_path, Added(2), Added(3), Added(1), Added(1))
    back(made, 3)
    folder = folder_of(made.dataset)
    before = objects(folder)
    with suppress(Crash):
        collect(History(tmp_path, disk=StoppingDisk(n)).dataset, (), before=ALWAYS)
    left = objects(folder)
    assert reached(folder) <= left < before or (n == 0 and left == before)
    for each in left:
        if each.startswith("blocks/"):
            assert reached(folder, each.removeprefix("blocks/")) <= left
    collected(made.dataset)
    assert objects(folder) == reached(folder)
    assert verify(made.dataset).findings == ()


def test_commits_and_collecting_go_side_by_side(tmp_path: Path) -> None:
    made, over = History(tmp_path, disk=Disk()), Event()
    found: list[Freed] = []

    def collecting() -> None:
        while not over.wait(0.005):
            other = History(tmp_path).dataset
            found.append(collect(other, (), before=ALWAYS))

    thread = Thread(target=collecting)
    thread.start()
    try:
        for number in range(12):
            made.add(Added(1, hours=1))
            if number % 4 == 3:
                back(made, 2)
                made.add(licensed(number))
    finally:
        over.set()
        thread.join()
    assert verify(made.dataset).findings == ()
    assert all(each.problem is None or "locked" in each.problem for each in found)
    collected(made.dataset)
    folder = folder_of(made.dataset)
    assert objects(folder) == reached(folder)


def test_attestations_of_references_and_those_written_last_are_kept(history: History) -> None:
    dataset = history.dataset
    folder = folder_of(dataset) / "attestations"
    signed = LocalAttestations(folder)
    hashes = [hash for hash, _ in dataset.blocks()]
    gone = [Multihash(0x16, number.to_bytes(32)) for number in range(300)]
    for age, name in enumerate((hashes[-1], hashes[0], *gone)):
        signed.put(name, b"{}")
        os.utime(signed.path(name), (age, age))
    signed.put(DELEGATIONS, b"{}")
    dry = collect(dataset, (), before=ALWAYS, dry_run=True)
    freed = collect(dataset, (), before=ALWAYS)
    assert freed == dry
    kept = {each.name for each in folder.iterdir()}
    assert kept == {str(hashes[-1]), DELEGATIONS, *map(str, gone[-256:])}


def test_attestations_that_are_young_are_kept(history: History) -> None:
    signed = LocalAttestations(folder_of(history.dataset) / "attestations")
    for number in range(300):
        signed.put(Multihash(0x16, number.to_bytes(32)), b"{}")
    assert collect(history.dataset, (), before=time.time() - 60).files == 0
    assert len(signed.heads()) == 300
