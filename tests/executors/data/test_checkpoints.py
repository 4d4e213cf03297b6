"""Checkpoints say the same or not, whatever bytes they are written in."""

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.checkpoints import (
    MOST,
    KnownGroups,
    checkpoint_fault,
    read_groups,
    same_groups,
    write_groups,
)
from tests.support.effort import examples


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


COUNTED = pa.table(
    {
        "k": ["a", None, "c"],
        "__odf_n": pa.array([3, 1, 2], pa.int64()),
        "__odf_c0": pa.array([2, 0, 2], pa.int64()),
        "__odf_l0": pa.array([1.5, None, math.nan], pa.float64()),
    }
)


@settings(max_examples=examples(300, 20_000), deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.binary(max_size=8)), max_size=4),
    cut=st.none() | st.integers(0, 2**16),
)
def test_whatever_bytes_are_there_groups_are_read_or_left_aside(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, bytes]],
    cut: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    write_groups(folder / "one", KnownGroups(COUNTED), ["k"], "this")
    data = bytearray((folder / "one").read_bytes())
    for at, put in changes:
        start = at % len(data)
        data[start : start + len(put)] = put
    (folder / "other").write_bytes(data[: None if cut is None else cut % len(data)])
    found = read_groups(folder / "other", "this")
    same = same_groups(folder / "one", folder / "other")
    assert same is not True or found is not None
    assert found is None or checkpoint_fault(folder / "other") is None
    if found is not None and found.table is not None:
        assert found.table.column("__odf_n").null_count == 0
        found.table.validate(full=True)


def test_counts_that_no_step_makes_are_left_aside(tmp_path: Path) -> None:
    made = tmp_path / "made"
    write_groups(made, KnownGroups(COUNTED), ["k"], "this")
    assert read_groups(made, "this") is not None
    assert checkpoint_fault(made) is None
    table = pq.read_table(made)
    for name, values in (
        ("__odf_n", [None, 1, 2]),
        ("__odf_n", [0, 1, 2]),
        ("__odf_n", [-1, 1, 2]),
        ("__odf_n", ["3", "1", "2"]),
        ("__odf_c0", [None, 0, 2]),
        ("__odf_c0", [-1, 0, 2]),
    ):
        at = table.column_names.index(name)
        pq.write_table(table.set_column(at, name, pa.array(values)), tmp_path / "false")
        assert read_groups(tmp_path / "false", "this") is None
        assert same_groups(made, tmp_path / "false") is False
        assert checkpoint_fault(tmp_path / "false") == "counts what cannot be"
    pq.write_table(table.drop_columns(["__odf_n"]), tmp_path / "false")
    assert read_groups(tmp_path / "false", "this") is None


def test_more_groups_than_a_step_keeps_are_not_read(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for rows, said in ((MOST, None), (MOST + 1, "has more than 1,048,576 groups")):
        many = pa.table({"__odf_n": pa.repeat(pa.scalar(1, pa.int64()), rows)})
        write_groups(made, KnownGroups(many), ["__odf_n"], "this")
        assert checkpoint_fault(made) == said
    write_groups(made, KnownGroups(None), ["k"], "this")
    assert checkpoint_fault(made) is None
