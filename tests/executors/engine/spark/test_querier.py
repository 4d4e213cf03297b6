"""Questions to datasets: replayed by Spark as without it, read-only, errors at their places."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.analysis import PlacedQueryError, RefusedQueryError
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import LARGE
from odfbuild.odf.timestamp import Timestamp
from tests.executors.data.test_versions import HOURS, KEYS, histories
from tests.executors.data.test_versions import SCHEMA as VERSIONED
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

pytestmark = pytest.mark.spark


def view(folder: Path, *history: list[Change]) -> DatasetView:
    return DatasetView(paths=written(folder, history, FEW), schema=FEW, vocab=VOCAB)


def few(*changes: tuple[int, str]) -> list[Change]:
    return [(op, {"event_time": DAY, "s": text}) for op, text in changes]


def ask(
    engine: SparkEngine,
    folder: Path,
    text: str,
    views: Mapping[str, DatasetView],
    limit: int | None = None,
) -> list[Row]:
    staging = folder / "staging"
    staging.mkdir(exist_ok=True)
    request = QueryRequest(text=text, views=views, staging=staging, limit=limit)
    return [row for batch in engine.query(request).batches() for row in batch.to_pylist()]


@settings(max_examples=examples(3, 50))
@given(changelogs(), st.sampled_from([-1, LARGE]))
def test_spark_replays_as_is_done_without_it(
    engine: SparkEngine, history: list[list[Change]], limit: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_limit", limit)
        whole = DatasetView(paths=written(Path(name), history), schema=SCHEMA, vocab=VOCAB)
        early = replace(whole, until=Timestamp.from_datetime(NOON))
        found = ask(engine, Path(name), "select * from d", {"d": whole})
        before = ask(engine, Path(name), "select * from d", {"d": early})
        rows = [row for batch in early.batches() for row in batch.to_pylist()]
    assert counted(found) == replayed(history)
    assert counted(before) == counted(rows)


@settings(max_examples=examples(3, 50))
@given(histories(), st.sampled_from(KEYS), st.integers(0, HOURS), st.sampled_from([-1, LARGE]))
def test_spark_finds_the_versions_that_are_found_without_it(
    engine: SparkEngine, history: list[list[Change]], key: tuple[str, ...], hour: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_limit", limit)
        paths = written(Path(name), history, VERSIONED)
        at = Timestamp.from_datetime(NOON + timedelta(hours=hour))
        asked = DatasetView(paths=paths, schema=VERSIONED, vocab=VOCAB, until=at, key=key)
        found = ask(engine, Path(name), "select * from d", {"d": asked})
        rows = [row for batch in asked.batches() for row in batch.to_pylist()]
    assert counted(found) == counted(rows)


def test_times_that_a_query_makes_are_whole(engine: SparkEngine, tmp_path: Path) -> None:
    text = "select timestamp'2024-01-02 03:04:05.123456' as t"
    expected = datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    for limit in (None, 1):
        assert ask(engine, tmp_path, text, {}, limit) == [{"t": expected}]


LOG = few((0, "a"), (0, "b"), (2, "a"), (3, "c"))


def test_several_datasets_are_read_by_name(engine: SparkEngine, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    views = {"acme/x.y": view(one, LOG), "z": view(two, few((0, "c"), (0, "d")))}
    text = "select x.s, z.s as t from `acme/x.y` x full join z on x.s = z.s order by x.s, t"
    assert ask(engine, tmp_path, text, views) == [
        {"s": None, "t": "d"},
        {"s": "b", "t": None},
        {"s": "c", "t": "c"},
    ]


def test_a_changelog_has_its_system_columns(engine: SparkEngine, tmp_path: Path) -> None:
    log = replace(view(tmp_path, LOG), log=True)
    text = "select offset, op, s, system_time is not null as known from d order by offset"
    found = ask(engine, tmp_path, text, {"d": log})
    assert [tuple(row.values()) for row in found] == [
        (0, 0, "a", True),
        (1, 0, "b", True),
        (2, 2, "a", True),
        (3, 3, "c", True),
    ]


def test_system_columns_of_no_changelog_are_explained(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(PlacedQueryError, match="`op` cannot be resolved") as caught:
        ask(engine, tmp_path, "select s,\n op from d", {"d": view(tmp_path, LOG)})
    assert "--log" in caught.value.fix
    assert caught.value.at is not None
    assert caught.value.at.start == 11


def test_a_day_counts_from_its_first_instant(engine: SparkEngine, tmp_path: Path) -> None:
    until = Timestamp.parse("2024-01-01T00:00:00Z")
    views = {"d": replace(view(tmp_path, LOG), until=until)}
    assert ask(engine, tmp_path, "select count(*) as n from d", views) == [{"n": 2}]


def test_the_first_rows_come_in_the_order_asked_for(engine: SparkEngine, tmp_path: Path) -> None:
    views = {"d": view(tmp_path, LOG)}
    text = "select s from d order by s desc"
    assert ask(engine, tmp_path, text, views, limit=1) == [{"s": "c"}]
    assert ask(engine, tmp_path, text, views) == [{"s": "c"}, {"s": "b"}]


def test_what_has_no_form_elsewhere_is_text(engine: SparkEngine, tmp_path: Path) -> None:
    text = "select null as n, interval 1 day as i, count(1), rand() < 2 as r"
    assert ask(engine, tmp_path, text, {}) == [
        {"n": None, "i": "INTERVAL '1' DAY", "count(1)": 1, "r": True}
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select s, s from d", "two result columns named 's'"),
        ("select array(null) as a from d", "has the type array<void>"),
        ("select s / 0 as x from d", "cannot be cast"),
    ],
)
def test_what_cannot_be_answered_is_said(
    engine: SparkEngine, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InvalidQueryError, match=said):
        ask(engine, tmp_path, text, {"d": view(tmp_path, LOG)})


@pytest.mark.parametrize(
    "text",
    [
        "drop view d",
        "insert into d select * from d",
        "select * from parquet.`/etc/passwd`",
        "select reflect('java.lang.System', 'exit', 1) from d",
        "select input_file_name() from d",
        "select 1; select 2",
    ],
)
def test_nothing_but_datasets_is_read_or_written(
    engine: SparkEngine, tmp_path: Path, text: str
) -> None:
    with pytest.raises(RefusedQueryError):
        ask(engine, tmp_path, text, {"d": view(tmp_path, LOG)})


def test_a_row_taken_back_that_never_came_is_named(engine: SparkEngine, tmp_path: Path) -> None:
    views = {"d": view(tmp_path, few((0, "a"), (1, "b")))}
    with pytest.raises(InvalidChangelogError, match="offset 1 retracts a row"):
        ask(engine, tmp_path, "select * from d", views)
