"""A commit that is cut off leaves the old head or the new one, and everything that it reaches."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.odf.events import DatasetKind, SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import NOON, ROOT
from tests.support.data.disks import Crash, StoppingDisk, dataset_in, kill, stage, verified

NEVER = 1_000
FOO = DatasetAlias.parse("foo")


def seeded(folder: Path) -> Path:
    """Make a dataset with a seed and one slice."""
    dataset = dataset_in(folder / "dataset")
    seed = dataset.commit(CommitRequest((ROOT,), NOON), on=None)
    dataset.commit(stage(folder / "staging", verified(dataset)), on=seed)
    return folder / "dataset"


def commit(folder: Path, disk: Disk | None = None) -> None:
    """Add one slice with a checkpoint."""
    state = verified(dataset_in(folder / "dataset"))
    prepared = stage(folder / "staging", state)
    dataset_in(folder / "dataset", disk).commit(prepared, on=state)


def steps_of_a_commit(folder: Path) -> int:
    counting = StoppingDisk(NEVER)
    seeded(folder)
    commit(folder, counting)
    return counting.steps


def test_a_commit_has_the_steps_that_these_tests_cut_it_at(tmp_path: Path) -> None:
    # slice and checkpoint: sync, rename, sync folder; block: write, rename, sync folder; head alike
    assert steps_of_a_commit(tmp_path) == 2 * 3 + 4 + 4


@pytest.mark.parametrize("n", range(15))
def test_a_crash_leaves_the_old_head_or_the_new_one(n: int, tmp_path: Path) -> None:
    dataset = dataset_in(seeded(tmp_path))
    before = verified(dataset)
    with suppress(Crash):
        commit(tmp_path, StoppingDisk(n))
    after = verified(dataset)
    assert after.sequence in {before.sequence, before.sequence + 1}
    if after.sequence == before.sequence:
        assert after.head == before.head


@pytest.mark.parametrize("n", range(15))
def test_the_commit_after_a_crash_works_and_repeats_nothing(n: int, tmp_path: Path) -> None:
    dataset = dataset_in(seeded(tmp_path))
    before = verified(dataset)
    prepared = stage(tmp_path / "staging", before)
    with suppress(Crash):
        dataset_in(tmp_path / "dataset", StoppingDisk(n)).commit(prepared, before)
    with suppress(HeadMovedError):  # it had been done
        dataset.commit(prepared, before)
    after = verified(dataset)
    assert after.next_offset == before.next_offset + 3
    assert len(dataset.slices()) == 2
    commit(tmp_path)
    assert verified(dataset).next_offset == after.next_offset + 3


@pytest.mark.parametrize("n", range(15))
def test_a_process_killed_at_any_step_leaves_the_old_head_or_the_new_one(
    n: int, tmp_path: Path
) -> None:
    dataset = dataset_in(seeded(tmp_path))
    before = verified(dataset)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.state.chain.test_crashes", str(tmp_path), str(n)], check=False
    )
    assert killed.returncode == (-signal.SIGKILL if n < 14 else 0)
    after = verified(dataset)
    assert after.sequence == before.sequence + (n >= 13)
    commit(tmp_path)
    assert verified(dataset).next_offset == after.next_offset + 3


class RecordingDisk(Disk):
    """A disk that notes its steps, to be looked at in order."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        super().write(path, data, mode)
        self.notes.append(("kept", str(path)))

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.notes.append(("kept", str(path)))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.notes.append(("moved", f"{old} {new}"))


def test_files_are_on_disk_before_they_are_named_and_names_before_the_head(tmp_path: Path) -> None:
    seeded(tmp_path)
    disk = RecordingDisk()
    commit(tmp_path, disk)
    kept: set[str] = set()
    unsure: set[str] = set()
    for what, about in disk.notes:
        if what == "kept":
            kept.add(about)
            unsure.discard(about)
            continue
        old, new = about.split(" ") if "slice" not in about else about.rsplit(" ", 1)
        assert old in kept, f"{new} was named before its content was on disk"
        if new.endswith("refs/head"):
            assert not unsure, "the head moved before the names that it reaches were on disk"
        unsure.add(str(Path(new).parent))
    assert not unsure, "the head is not on disk when the commit returns"


@pytest.mark.parametrize("n", range(28))
def test_a_crash_while_creating_leaves_a_whole_dataset_or_no_name(n: int, tmp_path: Path) -> None:
    prepared = CommitRequest((SetInfo(description="x"),), NOON)
    with suppress(Crash):
        Workspace(tmp_path, disk=StoppingDisk(n)).create(FOO, DatasetKind.ROOT, prepared)
    workspace = Workspace(tmp_path)
    found = workspace.open(FOO)
    if found is None:
        assert workspace.names() == {}
        found = workspace.create(FOO, DatasetKind.ROOT, prepared)
    assert verified(found).sequence == 1
    assert workspace.names() == {FOO: found.id}
    assert workspace.keys.load(found.id).dataset == found.id


def test_creating_has_no_more_steps_than_are_tested(tmp_path: Path) -> None:
    counting = StoppingDisk(NEVER)
    prepared = CommitRequest((SetInfo(description="x"),), NOON)
    Workspace(tmp_path, disk=counting).create(FOO, DatasetKind.ROOT, prepared)
    assert counting.steps == 27


if __name__ == "__main__":
    commit(Path(sys.argv[1]), StoppingDisk(int(sys.argv[2]), kill))
