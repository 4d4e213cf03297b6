"""UpsertStream and ChangelogStream: against plain Python over drawn rows, and what they refuse."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.arrow.merging.rules import MergeInputError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    DatasetKind,
    DatasetVocabulary,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    SetPollingSource,
)
from tests.executors.engine.spark.tables import MILLIS, ingest_request, rows_of
from tests.executors.ingest.rounds import Rounds
from tests.support.effort import examples
from tests.support.oracles import merge as oracle

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]

VOCAB = DatasetVocabulary(event_time_column="at")
KEY = ("k", "n")
UPSERT = MergeStrategyUpsertStream(primary_key=KEY)
CHANGELOG = MergeStrategyChangelogStream(primary_key=KEY)
DATA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("y", pa.string())])
TIMED = pa.schema([("at", pa.int32()), *DATA])
HISTORY = pa.schema([("offset", pa.int64()), ("op", pa.int32()), *TIMED])

LAW = settings(
    max_examples=examples(3, 200), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

columns = {
    "k": st.sampled_from("ab"),
    "n": st.integers(0, 1),
    "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    "y": st.none() | st.sampled_from(["", "z"]),
}
ops = st.sampled_from([0, 1, 2, 3])
timed = st.fixed_dictionaries({"at": st.integers(2000, 2003), **columns})
maybe_timed = st.fixed_dictionaries({"at": st.none() | st.integers(2000, 2003), **columns})


def asking(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Rows]:
    """Draw an input with operations."""
    one = st.builds(lambda op, row: {"op": op, **row}, ops, rows)
    return st.lists(one, max_size=8)


def merged(
    engine: SparkEngine, folder: Path, strategy: MergeStrategy, old: Rows, new: Rows, time: bool
) -> list[Rows]:
    """Merge in memory and through files; return the rows of both."""
    schema = TIMED if time else DATA
    if isinstance(strategy, MergeStrategyChangelogStream) or any("op" in row for row in new):
        schema = pa.schema([("op", pa.int32()), *schema])
    history = [pa.Table.from_pylist(old, schema=HISTORY)] if old else []
    source = pa.Table.from_pylist(new, schema=schema)
    request = ingest_request(folder, source, strategy, history, vocab=VOCAB, as_file=True)
    found, before = [], engine._limit
    for limit in (before, -1):
        engine._limit = limit
        try:
            found.append(rows_of(engine.ingest(request)))
        finally:
            engine._limit = before
    return found


def shown(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the values as text, because NaN is not equal to itself; no time is a null one."""
    return [[repr(row.get(name)) for name in ("op", *TIMED.names)] for row in rows]


def stored(old: Rows, new: Rows, time: int) -> Rows:
    """Return the history after a round: rows without event time get that of the round."""
    given = [{**row, "at": time if row.get("at") is None else row["at"]} for row in new]
    return [*old, *({"offset": at, **row} for at, row in enumerate(given, len(old)))]


def text_of(value: Any) -> str:
    """Return a text that is equal for values that are equal as in GROUP BY."""
    return repr(0 if value == 0 else value)


def replayed(history: Rows) -> list[list[str]]:
    """Return what is left of a changelog; fails if a row is taken back that is not there."""
    left: list[list[str]] = []
    for row in history:
        values = [text_of(row[name]) for name in TIMED.names]
        if row["op"] in (0, 3):
            left.append(values)
        else:
            left.remove(values)
    return left


@LAW
@given(inputs=st.lists(asking(maybe_timed), min_size=2, max_size=3))
def test_upserts_in_a_row_are_their_oracle(
    inputs: list[Rows], engine: SparkEngine, tmp_path: Path
) -> None:
    history: Rows = []
    for number, new in enumerate(inputs):
        expected = oracle.upsert_stream(history, new, KEY, "at")
        for found in merged(engine, tmp_path, UPSERT, history, new, time=True):
            assert shown(found) == shown(expected)
        history = stored(history, expected, 1990 + number)


@LAW
@given(
    inputs=st.lists(st.lists(st.fixed_dictionaries(columns), max_size=6), min_size=2, max_size=3)
)
def test_upserts_without_operation_and_time_are_their_oracle(
    inputs: list[Rows], engine: SparkEngine, tmp_path: Path
) -> None:
    history: Rows = []
    for number, new in enumerate(inputs):
        expected = oracle.upsert_stream(history, new, KEY, "at")
        for found in merged(engine, tmp_path, UPSERT, history, new, time=False):
            assert shown(found) == shown(expected)
        history = stored(history, expected, 1990 + number)


@LAW
@given(old=asking(timed), new=asking(timed))
def test_a_changelog_with_times_is_its_oracle(
    old: Rows, new: Rows, engine: SparkEngine, tmp_path: Path
) -> None:
    history = stored([], old, 1990)
    expected = oracle.changelog_stream(history, new, KEY, "at")
    for found in merged(engine, tmp_path, CHANGELOG, history, new, time=True):
        assert shown(found) == shown(expected)


@LAW
@given(old=asking(timed), new=asking(st.fixed_dictionaries(columns)))
def test_a_changelog_without_times_is_its_oracle(
    old: Rows, new: Rows, engine: SparkEngine, tmp_path: Path
) -> None:
    history = stored([], old, 1990)
    expected = oracle.changelog_stream(history, new, KEY, "at")
    for found in merged(engine, tmp_path, CHANGELOG, history, new, time=False):
        assert shown(found) == shown(expected)


# --- what the strategies are for, of the oracle alone --------------------------------------------


@given(inputs=st.lists(asking(maybe_timed), max_size=4))
def test_what_is_left_of_upserts_is_the_last_value_of_each_key(inputs: list[Rows]) -> None:
    history: Rows = []
    last: dict[str, list[str]] = {}
    for number, new in enumerate(inputs):
        history = stored(history, oracle.upsert_stream(history, new, KEY, "at"), 1990 + number)
        for row in new:
            place = repr((row["k"], row["n"]))
            last.pop(place, None)
            if row["op"] != 1:
                last[place] = [text_of(row[name]) for name in DATA.names]
    assert sorted(row[1:] for row in replayed(history)) == sorted(last.values())


@given(inputs=st.lists(st.lists(st.booleans(), max_size=4), max_size=4))
def test_a_changelog_without_times_takes_back_the_rows_that_it_recorded(
    inputs: list[list[bool]],
) -> None:
    """Play a row that changes, goes and comes; each round is recorded at a time of its own."""
    history: Rows = []
    is_there, value = False, 0.0
    for number, changes in enumerate(inputs):
        new: Rows = []
        for is_change in changes:
            row = {"k": "a", "n": 1, "x": value, "y": None}
            if not is_there:
                new.append({"op": 0, **row})
            elif is_change:
                value += 1
                new += [{"op": 2, **row}, {"op": 3, **row, "x": value}]
                continue
            else:
                new.append({"op": 1, **row})
            is_there = not is_there
        found = oracle.changelog_stream(history, new, KEY, "at")
        history = stored(history, found, 1990 + number)
    assert len(replayed(history)) == int(is_there)


# --- what was decided ----------------------------------------------------------------------------


def ingest(engine: SparkEngine, folder: Path, *given: Any, **options: Any) -> Rows:
    return rows_of(engine.ingest(ingest_request(folder, *given, **options)))


def upsert(*key: str) -> MergeStrategyUpsertStream:
    return MergeStrategyUpsertStream(primary_key=key)


def changelog(*key: str) -> MergeStrategyChangelogStream:
    return MergeStrategyChangelogStream(primary_key=key)


def slice_of(rows: pa.Table, year: int = 2000) -> pa.Table:
    """Return rows as a slice that was recorded in some year."""
    now = pa.array([datetime(year, 1, 1, tzinfo=UTC)] * rows.num_rows, MILLIS)
    system = {
        "offset": pa.array(range(rows.num_rows), pa.int64()),
        "op": pa.array([0] * rows.num_rows, pa.int32()),
        "system_time": now,
        "event_time": now,
    }
    return pa.table(system | {name: rows.column(name) for name in rows.schema.names})


@pytest.mark.parametrize("strategy", [upsert("k", "j"), changelog("k", "j")])
def test_a_key_without_value_names_the_row(
    strategy: MergeStrategy, either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"op": [0, 1], "k": ["a", None], "j": [1, 2], "v": [1, 7]})
    with pytest.raises(MergeInputError, match=r"k = null, j = 2 \(row with j = 2, v = 7\)"):
        ingest(either_way, tmp_path, source, strategy, as_file=True)


@pytest.mark.parametrize("strategy", [upsert("k"), changelog("k")])
@pytest.mark.parametrize(("op", "says"), [(4, "is 4: k = 'b'"), (-1, "is -1"), (None, "is null")])
def test_an_unknown_operation_is_named_with_its_row(
    op: int | None, says: str, strategy: MergeStrategy, engine: SparkEngine, tmp_path: Path
) -> None:
    ops = pa.array([0, op, 0], pa.int64())
    source = pa.table({"op": ops, "k": ["a", "b", "b"]})
    with pytest.raises(MergeInputError, match=f"the operation 'op' of a source row {says}"):
        ingest(engine, tmp_path, source, strategy)


@pytest.mark.parametrize("strategy", [upsert("k"), changelog("k")])
def test_operations_are_integers(
    strategy: MergeStrategy, engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(MergeInputError, match="the operation column 'op' is string") as caught:
        ingest(engine, tmp_path, pa.table({"op": ["d"], "k": ["a"]}), strategy)
    assert "CASE op WHEN 'd' THEN 1" in caught.value.fix


def test_a_changelog_has_operations(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(MergeInputError, match="the source has no column 'op'") as caught:
        ingest(engine, tmp_path, pa.table({"k": ["a"]}), changelog("k"))
    assert "UpsertStream" in caught.value.fix


@pytest.mark.parametrize("strategy", [upsert("kk"), changelog("kk")])
def test_a_key_is_a_column_of_the_source(
    strategy: MergeStrategy, engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(MergeInputError, match="unknown primary key column 'kk'"):
        ingest(engine, tmp_path, pa.table({"op": [0], "k": ["a"]}), strategy)


def test_a_row_taken_back_has_its_time(either_way: SparkEngine, tmp_path: Path) -> None:
    times = pa.array([None, None], MILLIS)
    source = pa.table({"op": [0, 1], "event_time": times, "k": ["a", "b"]})
    with pytest.raises(MergeInputError, match="no event time 'event_time': k = 'b'"):
        ingest(either_way, tmp_path, source, changelog("k"), as_file=True)


def test_several_changes_of_one_row_keep_their_order(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    """Sorted by op, the row that came last would be the one that was taken back."""
    source = pa.table({"op": [1, 0, 2, 3], "k": ["a"] * 4, "v": [1, 2, 2, 3]})
    old = slice_of(pa.table({"k": ["a"], "v": [1]}))
    found = ingest(either_way, tmp_path, source, changelog("k"), [old], as_file=True)
    assert [(row["op"], row["v"]) for row in found] == [(1, 1), (0, 2), (2, 2), (3, 3)]
    first = "2000-01-01T00:00:00.000Z"
    assert [row["event_time"] for row in found] == [first, None, None, None]


def test_an_upsert_takes_back_the_row_as_it_was_recorded(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"op": [0, 1, 1], "k": ["a", "b", "c"], "v": [5, None, None]})
    old = slice_of(pa.table({"k": ["a", "b"], "v": [1, 2]}))
    found = ingest(either_way, tmp_path, source, upsert("k"), [old], as_file=True)
    first = "2000-01-01T00:00:00.000Z"
    assert [tuple(row.values()) for row in found] == [
        (2, first, "a", 1),
        (3, None, "a", 5),
        (1, first, "b", 2),
    ]


def test_a_column_that_came_later_changes_only_rows_that_have_it(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"k": ["a", "b", "c"], "url": [None, "x", "y"]})
    old = slice_of(pa.table({"k": ["a", "b"]}))
    found = ingest(either_way, tmp_path, source, upsert("k"), [old], as_file=True)
    assert [(row["op"], row["k"], row["url"]) for row in found] == [
        (2, "b", None),
        (3, "b", "x"),
        (0, "c", "y"),
    ]


def test_under_a_changed_key_the_last_row_of_each_new_key_counts(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"j": [1, 2], "k": ["z", "z"]})
    old = slice_of(pa.table({"j": [1, 1, None], "k": ["a", "b", "c"]}))
    found = ingest(either_way, tmp_path, source, upsert("j"), [old], as_file=True)
    assert [(row["op"], row["j"], row["k"]) for row in found] == [
        (2, 1, "b"),
        (3, 1, "z"),
        (0, 2, "z"),
    ]


def test_a_source_without_schema_keeps_its_operations(engine: SparkEngine, tmp_path: Path) -> None:
    source = pa.table({"offset": [7], "op": [3], "k": ["a"]})
    found = ingest(engine, tmp_path, source, changelog("k"), infer=True)
    assert found == [{"op": 3, "_offset": 7, "k": "a"}]


def test_a_preprocess_query_may_make_the_operations(engine: SparkEngine, tmp_path: Path) -> None:
    source = pa.table({"what": ["u", "d"], "k": ["a", "b"]})
    query = "SELECT CASE what WHEN 'd' THEN 1 ELSE 0 END AS op, k FROM input"
    old = slice_of(pa.table({"k": ["b"]}))
    found = ingest(engine, tmp_path, source, upsert("k"), [old], preprocess=query)
    assert [(row["op"], row["k"]) for row in found] == [(0, "a"), (1, "b")]


def test_operations_have_the_name_that_the_vocabulary_gives_them(
    engine: SparkEngine, tmp_path: Path
) -> None:
    vocab = DatasetVocabulary(operation_type_column="what")
    source = pa.table({"what": [3], "op": ["own"], "k": ["a"]})
    found = ingest(engine, tmp_path, source, changelog("k"), vocab=vocab)
    assert found == [{"what": 3, "op": "own", "k": "a"}]


# --- whole rounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [upsert("k"), changelog("k")])
def test_rounds_of_changes_make_a_chain_that_can_be_replayed(
    strategy: MergeStrategy, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=("op INT", "k STRING", "v BIGINT"), header=True),
        merge=strategy,
    )
    rounds = Rounds(tmp_path, engine, monkeypatch)
    dataset = rounds.create("src", DatasetKind.ROOT, [source])
    texts = ["0,a,1\n0,b,2\n", "2,a,1\n3,a,5\n1,b,2\n", "0,b,7\n1,a,5\n"]
    for day, text in enumerate(texts, 1):
        rounds.ingest(dataset, f"op,k,v\n{text}", event_time=f"2024-01-0{day}T00:00:00Z")
    assert verify(dataset).findings == ()
    rows = [row for _, path in dataset.slices() for row in pq.read_table(path).to_pylist()]
    assert [(row["op"], row["k"], row["v"], row["event_time"].day) for row in rows] == [
        *[(0, "a", 1, 1), (0, "b", 2, 1)],
        *[(2, "a", 1, 1), (3, "a", 5, 2), (1, "b", 2, 1)],
        *[(1, "a", 5, 2), (0, "b", 7, 3)],
    ]
