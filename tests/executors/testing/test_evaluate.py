"""Checks on rows give what a question to SQLite about the same rows gives."""

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import SourceSpan
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.testing.evaluate import CheckedRows, evaluate
from odfbuild.executors.testing.files import load_tests
from odfbuild.executors.testing.model import On, RowCheck
from odfbuild.executors.testing.results import Result
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.support.process.inside import lay_out

Row = dict[str, Any]

MILLIS = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        pa.field("event_time", MILLIS, nullable=False),
        pa.field("k", pa.string()),
        pa.field("v", pa.int64()),
        pa.field("x", pa.float64()),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "c", None]),
        "v": st.sampled_from([-1, 0, 1, 2, None]),
        "x": st.sampled_from([0.0, 1.5, None]),
    }
)
RULES: Mapping[str, str] = {
    "not_null: v": "v is null",
    "not_null: [k, v]": "k is null or v is null",
    "accepted_values: {column: k, values: [a, b]}": "k not in ('a', 'b')",
    "range: {column: v, min: 0}": "v < 0",
    "range: {column: v, min: 0, max: 1}": "v < 0 or v > 1",
    "range: {column: x, max: 1}": "x > 1",
    "unique: v": "v in (select v from rows where {where} group by v having count(*) > 1)",
    "unique: [k, v]": "(k, v) in (select k, v from rows where {where} group by k, v "
    "having count(*) > 1)",
    "relationship: {column: k, to: other}": "k not in ('a')",
    "relationship: {column: v, to: other, field: x}": "v not in (0, 1.5)",
    "relationship: {column: x, to: other, field: v}": "x not in (0)",
}
WHERES: Mapping[str, str] = {"": "true", "{k: a}": "k = 'a'", "{v: [0, 2]}": "v in (0, 2)"}


def slices(folder: Path, parts: Sequence[Sequence[Row]]) -> tuple[Path, ...]:
    """Write records as slices; their offsets count on."""
    paths, offset = [], 0
    for number, part in enumerate(parts):
        rows = [
            {"op": 0, "system_time": 0, "event_time": 0, **row, "offset": offset + at}
            for at, row in enumerate(part)
        ]
        offset += len(rows)
        path = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        paths.append(path)
    return tuple(paths)


def view(paths: tuple[Path, ...]) -> DatasetView:
    return DatasetView(paths=paths, schema=from_arrow(SCHEMA), vocab=DatasetVocabulary())


def made(folder: Path, text: str) -> tuple[RowCheck, ...]:
    lay_out(folder, {"tests/data/a.yaml": f"dataset: rows\nchecks:\n{text}"})
    tests = load_tests(folder, unit=False)
    assert tests.found == ()
    return tests.checks


def nobody(*_: object) -> Any:
    raise AssertionError("no query was to be asked")


def looked(
    checks: Sequence[RowCheck],
    paths: tuple[Path, ...],
    on: On = On.STATE,
    others: Callable[[DatasetAlias], DatasetView | None] = lambda _: None,
    now: str = "1970-01-02T00:00:00Z",
) -> tuple[Result, ...]:
    return evaluate(
        checks,
        CheckedRows(view=view(paths), on=on),
        others=others,
        now=Timestamp.parse(now),
        ask=nobody,
    )


@given(st.lists(st.lists(ROW, max_size=5), min_size=1, max_size=3))
def test_rows_fail_that_a_question_finds(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[Row]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    paths = slices(folder, [part for part in parts if part])
    (folder / "other").mkdir()
    other = slices(folder / "other", [[{"k": "a", "x": 1.5, "v": 0}, {"x": 0.0}, {"x": math.nan}]])
    base = sqlite3.connect(":memory:")
    base.execute("create table rows (o, k, v, x)")
    rows = [row for part in parts for row in part]
    base.executemany(
        "insert into rows values (?, ?, ?, ?)",
        [(at, row["k"], row["v"], row["x"]) for at, row in enumerate(rows)],
    )
    cases = [(rule, where) for rule in RULES for where in WHERES]
    text = "".join(
        f"  - {rule}\n" + (f"    where: {where}\n" if where else "") for rule, where in cases
    )
    results = looked(made(folder, text), paths, others=lambda _: view(other))
    for (rule, where), result in zip(cases, results, strict=True):
        kept = WHERES[where]
        bad = RULES[rule].replace("{where}", kept)
        wanted = [o for (o,) in base.execute(f"select o from rows where {kept} and ({bad})")]
        (count,) = base.execute(f"select count(*) from rows where {kept}").fetchone()
        assert (result.error, result.failing, result.looked) == (None, len(wanted), count), rule
        shown = [each.offset for each in result.rows]
        assert len(shown) == min(5, len(wanted))
        assert set(shown) <= set(wanted)
    base.close()


TAKEN: list[list[Row]] = [
    [{"k": "a", "v": 1}, {"k": "b", "v": -1}, {"k": "c", "v": 2}],
    [
        {"op": 1, "k": "b", "v": -1},
        {"op": 2, "k": "c", "v": 2},
        {"op": 3, "k": "c", "v": -7},
        {"k": "d", "v": -8},
        {"op": 1, "k": "d", "v": -8},
    ],
]


def test_what_was_taken_back_is_not_looked_at(tmp_path: Path) -> None:
    checks = made(tmp_path, "  - range: {column: v, min: 0}\n  - row_count: 2\n")
    bad, count = looked(checks, slices(tmp_path, TAKEN))
    assert [(each.offset, dict(each.values)) for each in bad.rows] == [(5, {"v": -7})]
    assert count.passed


def test_new_rows_are_those_that_came_and_stand(tmp_path: Path) -> None:
    checks = made(tmp_path, "  - range: {column: v, min: 0}\n  - row_count: 1\n")
    bad, count = looked(checks, slices(tmp_path, TAKEN)[1:], On.NEW_ROWS)
    assert [each.offset for each in bad.rows] == [5]
    assert (bad.looked, count.passed) == (1, True)


def test_nan_is_within_no_bounds_and_null_within_all(tmp_path: Path) -> None:
    rows: list[list[Row]] = [[{"x": math.nan}, {"x": None}, {"x": 1.0}]]
    (found,) = looked(made(tmp_path, "  - range: {column: x, min: 0}\n"), slices(tmp_path, rows))
    assert [each.offset for each in found.rows] == [0]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("row_count: {min: 3}", "2 rows, but at least 3 are expected"),
        ("row_count: {max: 1}", "2 rows, but at most 1 are expected"),
        ("row_count: 2", None),
        ("freshness: 1 day", None),
        (
            "freshness: 23 hours",
            "the latest event time is 1970-01-01T00:00:00Z, but the latest may be 23 hours ago",
        ),
    ],
)
def test_counts_and_ages_are_told_in_words(tmp_path: Path, rule: str, said: str | None) -> None:
    rows = slices(tmp_path, [[{"k": "a", "event_time": -5}], [{"k": "a"}]])
    (found,) = looked(made(tmp_path, f"  - {rule}\n"), rows)
    assert found.said == said


def test_no_rows_are_not_fresh(tmp_path: Path) -> None:
    (found,) = looked(made(tmp_path, "  - freshness: 1 day\n"), ())
    assert found.said == "there are no rows, but the latest may be 1 day ago"


@pytest.mark.parametrize(
    ("rule", "column", "what"),
    [
        ("range: {column: v, min: 2, max: 1}", 37, "'max' is less than 'min'"),
        (
            "relationship: {column: v, to: rows, field: k}",
            48,
            "'v' is Int64, and 'k' of rows is String",
        ),
    ],
)
def test_what_no_row_can_pass_is_told(tmp_path: Path, rule: str, column: int, what: str) -> None:
    paths = slices(tmp_path, [[{"k": "a"}]])
    (found,) = looked(made(tmp_path, f"  - {rule}\n"), paths, others=lambda _: view(paths))
    assert found.error is not None
    assert found.error.span is not None
    assert (found.error.span.column, found.error.what.endswith(what)) == (column, True)


def test_names_and_values_that_do_not_fit_are_told_at_their_place(tmp_path: Path) -> None:
    text = (
        "  - not_null: vv\n"
        "  - range: {column: v, min: low}\n"
        "  - accepted_values: {column: k, values: [1]}\n"
        "  - row_count: 0\n    where: {kk: a}\n"
    )
    results = looked(made(tmp_path, text), slices(tmp_path, [[{"k": "a"}]]))
    told = [each.error for each in results]
    places = [each.span and (each.span.line, each.span.column) for each in told if each]
    assert places == [(3, 15), (4, 29), (5, 43), (7, 13)]
    assert [each.code for each in told if each] == [
        "unknown-column",
        "wrong-type",
        "wrong-type",
        "unknown-column",
    ]
    assert told[0] is not None
    assert told[0].fix.startswith(("did you mean 'v'?", "use one of"))
    assert not any(each.passed for each in results)
    assert isinstance(results[0].check.span, SourceSpan)
