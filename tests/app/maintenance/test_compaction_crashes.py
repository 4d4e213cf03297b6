"""A compaction or reset that is cut off leaves the old head or the new one, and all it reaches."""

import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.app.maintenance.compaction import rewrite_chain
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.compaction import DEFAULT_LIMITS, compacted
from odfbuild.state.files.disk import Disk
from tests.support.data.disks import Crash, StoppingDisk, kill
from tests.support.data.histories import Added, History, licensed

NEVER = 1_000
LATER = Timestamp.parse("2024-06-01T00:00:00Z")


def compact(folder: Path, disk: Disk) -> None:
    history = History(folder, disk=disk)
    wanted = compacted(DatasetKind.ROOT, history.events(), DEFAULT_LIMITS)
    assert wanted is not None
    with history.workspace.staging() as staging:
        rewrite_chain(history.dataset, wanted, staging, on=history.state, now=LATER)


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    History(folder, Added(3), Added(3), licensed(1), Added(2))
    return folder


@pytest.fixture
def made(_made: Path, tmp_path: Path) -> Path:
    """Return a folder with a dataset of three slices; it may be changed."""
    return shutil.copytree(_made, tmp_path / "made")


def steps(made: Path) -> int:
    counting = StoppingDisk(NEVER)
    compact(made, counting)
    return counting.steps


def check(made: Path, old: str) -> bool:
    """Hold that the dataset is whole and can be added to; say whether its head moved."""
    history = History(made)
    head, rows = str(history.state.head), history.rows()
    assert rows["offset"].to_pylist() == list(range(8))
    assert verify(history.dataset).findings == ()
    assert len(history.added()) == (3 if head == old else 2)
    with suppress(AssertionError):  # it had been done
        compact(made, Disk())
    again = History(made, Added(1))
    assert again.rows()["offset"].to_pylist() == list(range(9))
    assert verify(again.dataset).findings == ()
    return head != old


def test_a_crash_at_any_step_leaves_the_old_head_or_the_new_one(made: Path, tmp_path: Path) -> None:
    old = str(History(made).state.head)
    last = steps(shutil.copytree(made, tmp_path / "counted"))
    moved = []
    for n in range(last + 1):
        folder = shutil.copytree(made, tmp_path / str(n))
        with suppress(Crash):
            compact(folder, StoppingDisk(n))
        moved.append(check(folder, old))
    assert moved == sorted(moved)
    assert moved[0] is False
    assert moved[-1] is True
    assert moved.count(True) == 2  # the head is named, then its folder synced; and no crash


def test_a_process_killed_at_any_step_leaves_the_old_head_or_the_new_one(
    made: Path, tmp_path: Path
) -> None:
    old = str(History(made).state.head)
    last = steps(shutil.copytree(made, tmp_path / "counted"))
    for n in (0, last // 2, last - 2, last - 1, last):
        folder = shutil.copytree(made, tmp_path / str(n))
        killed = subprocess.run(
            [sys.executable, "-m", __name__, str(folder), str(n)],
            check=False,
        )
        assert killed.returncode == (-signal.SIGKILL if n < last else 0)
        assert check(folder, old) == (n >= last - 1)


def test_a_reset_is_cut_off_before_or_after_the_head(made: Path, tmp_path: Path) -> None:
    history = History(made)
    old, (*_, base, _, _) = history.state.head, [hash for hash, _ in history.dataset.blocks()]
    counting = StoppingDisk(NEVER)
    copy = shutil.copytree(made, tmp_path / "counted")
    History(copy, disk=counting).dataset.set_head(base, old)
    for n in range(counting.steps + 1):
        folder = shutil.copytree(made, tmp_path / str(n))
        with suppress(Crash):
            History(folder, disk=StoppingDisk(n)).dataset.set_head(base, old)
        again = History(folder)
        assert again.dataset.head() == (base if n >= counting.steps - 1 else old)
        assert verify(again.dataset).findings == ()


if __name__ == "__main__":
    compact(Path(sys.argv[1]), StoppingDisk(int(sys.argv[2]), kill))
