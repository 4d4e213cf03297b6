"""Replaying changelogs without an engine, against a count of plain values."""

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors import standing as module
from odfbuild.executors.changelog import InvalidChangelogError
from odfbuild.executors.standing import standing
from odfbuild.odf.arrow import to_arrow
from odfbuild.odf.chain import vocabulary
from odfbuild.odf.events import DataSchema, SetVocab
from odfbuild.odf.schema import parse_ddl
from odfbuild.odf.timestamp import Timestamp

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
DAY = date(2024, 1, 1)
VOCAB = vocabulary(SetVocab())
SYSTEM = ("offset BIGINT NOT NULL", "op INT NOT NULL", "system_time TIMESTAMP NOT NULL")
SCHEMA = parse_ddl(
    (
        *SYSTEM, "event_time TIMESTAMP NOT NULL", "s STRING", "x DOUBLE", "f FLOAT", "b BOOLEAN",
        "d DECIMAL(9, 2)", "l ARRAY<DOUBLE>", "t STRUCT<a: BIGINT, x: DOUBLE>",
        "m MAP<STRING, DOUBLE>", "y BINARY",
    )
)  # fmt: skip
FEW = parse_ddl((*SYSTEM, "event_time DATE NOT NULL", "s STRING"))

Row = dict[str, Any]
Change = tuple[int, Row]

doubles = st.sampled_from([0.0, -0.0, 1.5, math.nan, None])
rows = st.fixed_dictionaries(
    {
        "event_time": st.sampled_from([NOON, NOON + timedelta(milliseconds=1)]),
        "s": st.sampled_from([None, "", "a"]),
        "x": doubles,
        "f": doubles,
        "b": st.sampled_from([None, True]),
        "d": st.sampled_from([None, Decimal("1.50")]),
        "l": st.sampled_from([None, [], [0.0], [-0.0], [math.nan], [None]]),
        "t": st.sampled_from([None, {"a": None, "x": None}, {"a": 1, "x": -0.0}]),
        "m": st.sampled_from([None, [], [("a", 0.0), ("b", None)], [("b", None), ("a", -0.0)]]),
        "y": st.sampled_from([None, b"", b"\x00"]),
    }
)


@st.composite
def changelogs(draw: st.DrawFn) -> list[list[Change]]:
    """Draw slices in which each row that is taken back was there, or an equal one."""
    few = draw(st.lists(rows, min_size=1, max_size=4))
    held: Counter[Any] = Counter()
    history: list[list[Change]] = []
    for _ in range(draw(st.integers(1, 3))):
        history.append([])
        for _ in range(draw(st.integers(0, 8))):
            row = draw(st.sampled_from(few))
            removes = held[values(row)] > 0 and draw(st.booleans())
            held[values(row)] += -1 if removes else 1
            op = draw(st.sampled_from([1, 2] if removes else [0, 3]))
            history[-1].append((op, row))
    return history


def values(row: Row) -> str:
    """Return what equal rows have in common."""
    return repr([plain(row[name]) for name in sorted(row)])


def plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case datetime():
            return value.isoformat()
        case dict():
            return {name: plain(each) for name, each in sorted(value.items())}
        case [(_, _), *_]:
            return sorted((key, repr(plain(each))) for key, each in value)
        case list():
            return [plain(each) for each in value]
        case _:
            return value


def written(
    folder: Path, history: Sequence[Sequence[Change]], schema: DataSchema = SCHEMA
) -> tuple[Path, ...]:
    """Write slices of these operations and rows."""
    paths, at = [], 0
    for number, changes in enumerate(history):
        made = [
            {"offset": at + place, "op": op, "system_time": NOON, **row}
            for place, (op, row) in enumerate(changes)
        ]
        at += len(made)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(made, schema=to_arrow(schema)), paths[-1])
    return tuple(paths)


def found(paths: Sequence[Path], until: Timestamp | None = None) -> list[Row]:
    batches = standing(paths, SCHEMA, VOCAB, until)
    return [row for batch in batches for row in batch.to_pylist()]


def counted(found: Sequence[Row]) -> Counter[str]:
    return Counter(map(values, found))


def replayed(history: Sequence[Sequence[Change]]) -> Counter[str]:
    changes = [change for piece in history for change in piece]
    counts: Counter[str] = Counter()
    for op, row in changes:
        counts[values(row)] += 1 if op in (0, 3) else -1
    return +counts


@settings(max_examples=60)
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
    batches = standing(paths, FEW, VOCAB, limit)
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
    with pytest.raises(InvalidChangelogError, match="offset 2 takes back"):
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
    batches = standing((*old, *new), grown, VOCAB)
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == [None, 1]
