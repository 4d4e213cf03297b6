"""Checkpoints say the same or not, whatever bytes they are written in."""

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.data.checkpoints import KnownGroups, read_groups, same_groups, write_groups


def written(path: Path, made_for: str, numbers: Sequence[float | None]) -> Path:
    groups = pa.table({"k": list(range(len(numbers))), "x": pa.array(numbers, pa.float64())})
    write_groups(path, KnownGroups(groups), ["k"], made_for)
    return path


@pytest.mark.parametrize("number", [1.5, math.nan, None, -0.0])
def test_equal_groups_are_the_same_also_of_another_version(
    tmp_path: Path, number: float | None
) -> None:
    one = written(tmp_path / "one", "this", [number, 2.0])
    other = written(tmp_path / "other", "that", [number, 2.0])
    assert one.read_bytes() != other.read_bytes()
    assert same_groups(one, other) is True
    assert read_groups(one, "that") is None


@pytest.mark.parametrize("number", [1.5, math.nan, None])
def test_another_number_is_told(tmp_path: Path, number: float | None) -> None:
    one = written(tmp_path / "one", "this", [number])
    assert same_groups(one, written(tmp_path / "other", "this", [0.5])) is False


def test_a_file_of_something_else_cannot_be_compared(tmp_path: Path) -> None:
    one = written(tmp_path / "one", "this", [1.5])
    (tmp_path / "other").write_bytes(b"something")
    assert same_groups(one, tmp_path / "other") is None
