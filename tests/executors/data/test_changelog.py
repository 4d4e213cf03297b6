"""Replaying changelogs without an engine, against a count of plain values."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import changelog as module
from odfbuild.executors.data.changelog import InvalidChangelogError, current_rows
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from tests.support.data.changelogs import (
    DAY,
    FEW,
    NOON,
    SCHEMA,
    VOCAB,
    Change,
    Row,
    changelogs,
    counted,
    replayed,
    written,
)
from tests.support.effort import examples


def found(paths: Sequence[Path], until: Timestamp | None = None) -> list[Row]:
    batches = current_rows(paths, SCHEMA, VOCAB, until)
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=examples(25, 500))
@given(changelogs(), st.sampled_from([1, 2, 1000]))
def test_replaying_leaves_what_a_count_leaves(history: list[list[Change]], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST", chunk)
        assert counted(found(written(Path(folder), history))) == replayed(history)


@settings(max_examples=30)
@given(changelogs())
def test_an_event_time_leaves_out_what_comes_later(history: list[list[Change]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = found(written(Path(folder), history), Timestamp.from_datetime(NOON))
    early = [[(op, row) for op, row in piece if row["event_time"] == NOON] for piece in history]
    assert counted(rows) == replayed(early)


def small(*keys: str) -> list[Row]:
    return [{"event_time": DAY, "s": key} for key in keys]


def keys(paths: Sequence[Path], until: str | None = None) -> list[str]:
    limit = None if until is None else Timestamp.parse(until)
    batches = current_rows(paths, FEW, VOCAB, limit)
    return [row["s"] for batch in batches for row in batch.to_pylist()]


def test_rows_stay_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    a, b, c = small("a", "b", "c")
    history = [[(0, a), (0, b), (0, c), (0, b)], [(1, a), (2, b), (3, a)], [(0, c)]]
    assert keys(written(tmp_path, history, FEW)) == ["c", "b", "a", "c"]


def test_a_row_may_be_taken_back_before_it_comes(tmp_path: Path) -> None:
    (a,) = small("a")
    assert keys(written(tmp_path, [[(1, a)], [(0, a), (0, a)]], FEW)) == ["a"]


def test_a_row_taken_back_that_never_came_is_named(tmp_path: Path) -> None:
    a, b = small("a", "b")
    paths = written(tmp_path, [[(0, a), (1, a)], [(1, b), (1, a)]], FEW)
    with pytest.raises(InvalidChangelogError, match="offset 2 retracts a row"):
        keys(paths)


@pytest.mark.parametrize(
    ("until", "expected"),
    [("2024-01-01T00:00:00Z", ["a"]), ("2023-12-31T23:59:59Z", []), (None, ["a"])],
)
def test_a_day_counts_from_its_first_instant(
    tmp_path: Path, until: str | None, expected: list[str]
) -> None:
    paths = written(tmp_path, [[(0, row) for row in small("a")]], FEW)
    assert keys(paths, until) == expected


def test_columns_that_came_later_are_null_in_older_rows(tmp_path: Path) -> None:
    (a,) = small("a")
    old = written(tmp_path, [[(0, a), (0, a)]], FEW)
    grown = DataSchema((*FEW.fields, *parse_ddl(("n BIGINT",)).fields))
    (tmp_path / "new").mkdir()
    new = written(tmp_path / "new", [[(1, a), (0, {**a, "n": 1})]], grown)
    batches = current_rows((*old, *new), grown, VOCAB)
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == [None, 1]
