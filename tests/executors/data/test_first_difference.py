"""The first row that differs is found, wherever it is and whatever its columns hold."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.rows import DifferingRow, first_difference

Rows = Sequence[dict[str, Any]]
SCHEMA = pa.schema([("offset", pa.int64()), ("k", pa.string()), ("v", pa.float64())])
NESTED = pa.schema(
    [("offset", pa.int64()), ("s", pa.struct([("a", pa.int32()), ("l", pa.list_(pa.string()))]))]
)


def write(path: Path, rows: Rows, schema: pa.Schema = SCHEMA, *, group: int = 7_000) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path, row_group_size=group)
    return path


def rows(count: int) -> list[dict[str, Any]]:
    return [{"offset": 5 + n, "k": f"k{n}", "v": n / 2} for n in range(count)]


def compare(folder: Path, one: Rows, other: Rows, schema: pa.Schema = SCHEMA) -> Any:
    files = write(folder / "one", one, schema), write(folder / "other", other, schema, group=999)
    return first_difference(*files, start=5, offset="offset")


def test_equal_rows_differ_nowhere_however_they_are_cut(tmp_path: Path) -> None:
    assert compare(tmp_path, rows(25_000), rows(25_000)) is None


@given(st.integers(0, 24_999), st.integers(0, 24_999))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None
)
def test_the_first_of_two_changed_rows_is_named(tmp_path: Path, one: int, two: int) -> None:
    changed = rows(25_000)
    for at in (one, two):
        changed[at] = {**changed[at], "k": "other"}
    found = compare(tmp_path, rows(25_000), changed)
    at = min(one, two)
    assert found == DifferingRow(
        offset=5 + at, columns=("k",), recorded=rows(25_000)[at], computed=changed[at]
    )


@pytest.mark.parametrize(("one", "other"), [(3, 2), (2, 3), (0, 1), (10_000, 10_001), (20_000, 7)])
def test_a_row_that_is_missing_is_named(tmp_path: Path, one: int, other: int) -> None:
    found = compare(tmp_path, rows(one), rows(other))
    assert found.offset == 5 + min(one, other)
    assert (found.recorded is None, found.computed is None) == (one < other, other < one)


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "one", rows(2))
    for files in ((path, None), (None, path)):
        found = first_difference(*files, start=5, offset="offset")
        assert found is not None
        assert found.offset == 5
        assert [found.recorded, found.computed][files.index(None)] is None
    assert first_difference(None, None, start=5, offset="offset") is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (math.nan, math.nan, True),
        (None, None, True),
        (0.0, -0.0, False),
        (None, 0.0, False),
        (math.nan, None, False),
        (1.0, math.nextafter(1.0, 2.0), False),
    ],
)
def test_values_are_equal_as_their_hashes_are(
    tmp_path: Path, one: float | None, other: float | None, equal: bool
) -> None:
    found = compare(tmp_path, [{"v": one}], [{"v": other}])
    assert (found is None) is equal


def test_what_differs_within_a_value_is_found(tmp_path: Path) -> None:
    before, after = (
        [{"s": {"a": 1, "l": ["x"]}}, {"s": {"a": 2, "l": [text, None]}}] for text in ("y", "z")
    )
    found = compare(tmp_path, before, after, NESTED)
    assert (found.offset, found.columns) == (6, ("s",))


def test_offsets_and_columns_of_another_type_are_not_compared(tmp_path: Path) -> None:
    other = pa.schema([("offset", pa.int64()), ("k", pa.string()), ("v", pa.int32())])
    shifted = [{"offset": 90, "k": "k0", "v": 7}]
    files = write(tmp_path / "one", rows(1)), write(tmp_path / "other", shifted, other)
    assert first_difference(*files, start=5, offset="offset") is None
