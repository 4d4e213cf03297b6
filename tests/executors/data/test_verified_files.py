"""No row is read of a file that is not as its chain records it."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.checks.verified_files import DamagedDataError, LostDataError, all_files
from odfbuild.executors.verify.chain import verify
from odfbuild.state.files.disk import Disk
from tests.executors.runs.test_scheduler import copy
from tests.support.workshop import Workshop, ledger

DECLARED = [ledger(), copy("top", "src")]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = Workshop(tmp_path)
    for day in (1, 2):
        made.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        assert not made.apply(DECLARED).failures
    return made


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def keep_times(harm: Callable[[Path], None]) -> Callable[[Path], None]:
    def done(path: Path) -> None:
        before = path.stat()
        harm(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return done


@pytest.mark.parametrize("harm", [flip, keep_times(flip)], ids=["flip", "same mtime"])
@pytest.mark.parametrize("known", [False, True], ids=["cold", "known"])
def test_a_merge_refuses_a_damaged_slice_and_writes_nothing(
    shop: Workshop, harm: Callable[[Path], None], *, known: bool
) -> None:
    dataset = shop.dataset("src")
    if known:
        all_files(dataset)
    head = dataset.head()
    (_, path), _ = dataset.slices()
    harm(path)
    shop.file("3.csv", "2024-01-03,k3,3")
    ((_, failed),) = shop.apply(DECLARED).failures
    assert failed.error.code == "damaged-data"
    assert str(path) in failed.error.what
    assert "restore" in failed.error.fix
    assert dataset.head() == head


def test_a_transform_refuses_a_damaged_input_and_names_it(shop: Workshop) -> None:
    shop.file("3.csv", "2024-01-03,k3,3")
    assert not shop.apply([ledger()]).failures
    flip(shop.dataset("src").slices()[-1][1])
    ((_, failed),) = shop.apply(DECLARED).failures
    assert failed.error.code == "damaged-data"
    assert "the input src" in failed.error.what


def test_two_slices_exchanged_are_both_found(shop: Workshop) -> None:
    (_, one), (_, other) = shop.dataset("src").slices()
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    with pytest.raises(DamagedDataError):
        all_files(shop.dataset("src"))


def test_a_file_that_is_gone_is_lost_and_not_damaged(shop: Workshop) -> None:
    shop.dataset("src").slices()[0][1].unlink()
    with pytest.raises(LostDataError):
        all_files(shop.dataset("src"))


def test_a_derivative_in_other_bytes_is_read_if_its_rows_are_the_recorded_ones(
    shop: Workshop,
) -> None:
    dataset = shop.dataset("top")
    path = dataset.slices()[0][1]
    pq.write_table(pq.read_table(path), path, compression="none")
    assert len(all_files(dataset)) == 2
    assert verify(dataset).reencoded == 1
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(DamagedDataError, match="damaged"):
        all_files(dataset)


def test_a_root_in_other_bytes_is_damaged_whatever_its_rows(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    path = dataset.slices()[0][1]
    pq.write_table(pq.read_table(path), path, compression="none")
    with pytest.raises(DamagedDataError):
        all_files(dataset)


@pytest.mark.parametrize("harm", [flip, keep_times(flip)], ids=["flip", "same mtime"])
def test_what_is_damaged_right_after_its_move_is_not_taken_for_what_was_hashed(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    rename = Disk.rename

    def harmful(disk: Disk, old: Path, new: Path) -> None:
        rename(disk, old, new)
        if new.parent.name == "data":
            harm(new)

    shop.file("3.csv", "2024-01-03,k3,3")
    with monkeypatch.context() as patched:
        patched.setattr(Disk, "rename", harmful)
        assert not shop.apply([ledger()]).failures
    with pytest.raises(DamagedDataError):
        all_files(shop.dataset("src"))


def test_rows_that_were_found_while_somebody_wrote_are_looked_at_again(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = shop.dataset("top")
    path = dataset.slices()[0][1]
    pq.write_table(pq.read_table(path), path, compression="none")
    looks = []

    def looked(*given: object) -> tuple[tuple[str, ...], bool]:
        looks.append(given)
        os.utime(path)  # as a writer does
        return (), True

    monkeypatch.setattr("odfbuild.executors.data.checks.verified_files.file_problems", looked)
    all_files(dataset)
    all_files(dataset)
    assert len(looks) == 2
