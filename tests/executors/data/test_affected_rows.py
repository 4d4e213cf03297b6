"""What new rows may touch of a history: never less than what an exact join needs."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import lookup as module
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import affected_rows
from tests.support.effort import examples

LAW = settings(
    max_examples=examples(25, 500), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.float64())])
NEW = pa.schema([("n", pa.int64()), ("k", pa.large_string()), ("w", pa.bool_())])

keys = {"k": st.none() | st.sampled_from(["", "a", "b", "é"]), "n": st.none() | st.integers(-2, 3)}
old_rows = st.lists(st.fixed_dictionaries({**keys, "v": st.floats(0, 1)}), max_size=12)
new_rows = st.lists(st.fixed_dictionaries({**keys, "w": st.booleans()}), max_size=6)

Rows = list[dict[str, Any]]


def files(folder: Path, parts: Sequence[pa.Table], rows: int = 3) -> list[Path]:
    """Write a file for each table, few rows to a row group."""
    paths = [folder / f"{number}.parquet" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        pq.write_table(part, path, row_group_size=rows)
    return paths


def found(
    folder: Path, parts: Sequence[pa.Table], schema: pa.Schema, key: Sequence[str], new: pa.Table
) -> Rows | None:
    path = affected_rows(files(folder, parts), schema, key, Frame.of(new), folder / "near.parquet")
    return None if path is None else pq.read_table(path).to_pylist()


@LAW
@given(old=old_rows, more=old_rows, new=new_rows, is_sorted=st.booleans())
def test_no_row_that_a_join_would_find_is_left_out(
    old: Rows, more: Rows, new: Rows, is_sorted: bool, tmp_path: Path
) -> None:
    if is_sorted:
        old = sorted(old, key=lambda row: (row["n"] is not None, row["n"] or 0))
    parts = [pa.Table.from_pylist(rows, SCHEMA) for rows in (old, more)]
    rows = found(tmp_path, parts, SCHEMA, ("k", "n"), pa.Table.from_pylist(new, NEW))
    assert rows is not None
    asked = {(row["k"], row["n"]) for row in new if None not in (row["k"], row["n"])}
    needed = [row for row in (*old, *more) if (row["k"], row["n"]) in asked]
    assert [row for row in rows if (row["k"], row["n"]) in asked] == needed
    by_k = [row for row in (*old, *more) if row["k"] in {each["k"] for each in new} - {None}]
    by_n = [row for row in (*old, *more) if row["n"] in {each["n"] for each in new} - {None}]
    assert rows in (by_k, by_n)


def test_the_column_that_tells_more_apart_is_looked_up(tmp_path: Path) -> None:
    old = [{"k": "a", "n": number, "v": 0.0} for number in range(5)]
    new = pa.Table.from_pylist([{"k": "a", "n": 3}, {"k": "a", "n": 4}], NEW)
    rows = found(tmp_path, [pa.Table.from_pylist(old, SCHEMA)], SCHEMA, ("k", "n"), new)
    assert rows is not None
    assert [row["n"] for row in rows] == [3, 4]


def test_a_file_without_the_column_has_no_such_key(tmp_path: Path) -> None:
    older = pa.table({"v": [1.0, 2.0]})
    newer = pa.Table.from_pylist([{"k": "a", "n": 1, "v": 3.0}], SCHEMA)
    new = pa.Table.from_pylist([{"k": "a", "n": 1}], NEW)
    rows = found(tmp_path, [older, newer], SCHEMA, ("k",), new)
    assert rows == [{"k": "a", "n": 1, "v": 3.0}]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    older = pa.table({"k": ["a", "b"], "n": pa.array([1, 2], pa.int64())})
    new = pa.Table.from_pylist([{"k": "b", "n": 1}], NEW)
    assert found(tmp_path, [older], SCHEMA, ("k",), new) == [{"k": "b", "n": 2, "v": None}]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (pa.int8(), [-128, 0, 127], [127]),
        (pa.date32(), [date(1969, 12, 31), date(2030, 1, 1)], [date(1969, 12, 31)]),
        (pa.large_string(), ["a\x00", "a", "\uff21", "\U0001f600"], ["a", "\U0001f600"]),
    ],
)
def test_types_whose_equality_is_everywhere_the_same(
    kind: pa.DataType, old: list[Any], new: list[Any], tmp_path: Path
) -> None:
    schema = pa.schema([("k", kind)])
    parts = [pa.table({"k": pa.array(old, kind)})]
    rows = found(tmp_path, parts, schema, ("k",), pa.table({"k": pa.array(new, kind)}))
    assert rows == [{"k": value} for value in old if value in new]


@pytest.mark.parametrize(
    "kind",
    [
        pa.float64(),
        pa.timestamp("ms", "UTC"),
        pa.decimal128(9, 2),
        pa.list_(pa.int64()),
        pa.bool_(),
    ],
    ids=str,
)
def test_other_types_are_left_to_the_engine(kind: pa.DataType, tmp_path: Path) -> None:
    schema, values = pa.schema([("k", kind)]), pa.nulls(2, kind)
    assert (
        found(tmp_path, [pa.table({"k": values})], schema, ("k",), pa.table({"k": values})) is None
    )


def test_a_column_of_another_type_than_before_is_left_to_the_engine(tmp_path: Path) -> None:
    new = pa.table({"n": pa.array([1], pa.int32())})
    old = pa.Table.from_pylist([{"k": "a", "n": 1, "v": 0.0}], SCHEMA)
    assert found(tmp_path, [old], SCHEMA, ("n",), new) is None


@pytest.mark.parametrize("limit", ["MOST_ROWS", "_MOST_WANTED", "_MOST_FOUND"])
def test_what_is_too_much_for_memory_is_left_to_the_engine(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = pa.Table.from_pylist([{"k": "b", "n": 1, "v": 0.0}], SCHEMA)
    new = pa.Table.from_pylist([{"k": "b", "n": 1}] * 3, NEW)
    assert found(tmp_path, [old], SCHEMA, ("k",), new) == [{"k": "b", "n": 1, "v": 0.0}]
    monkeypatch.setattr(module, limit, 0)
    assert found(tmp_path, [old], SCHEMA, ("k",), new) is None
