"""Ingest around the merge: preprocess, names, stored form, keys, and what the errors say."""

import dataclasses
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import RefusedQueryError
from odfbuild.executors.engine.arrow.merging.rules import MergeInputError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from odfbuild.odf.schema.arrow import from_arrow
from tests.executors.engine.spark.tables import MILLIS, ingest_request, rows_of, sql

pytestmark = pytest.mark.spark

APPEND = MergeStrategyAppend()


def snapshot(*key: str, compare: tuple[str, ...] | None = None) -> MergeStrategySnapshot:
    return MergeStrategySnapshot(primary_key=key, compare_columns=compare)


def ingest(engine: SparkEngine, folder: Path, *given: Any, **options: Any) -> list[dict[str, Any]]:
    return rows_of(engine.ingest(ingest_request(folder, *given, **options)))


def history_of(rows: pa.Table, ops: list[int] | None = None) -> pa.Table:
    """Return rows as a slice: system columns first, an event time if they have none."""
    count = rows.num_rows
    now = pa.array([datetime(2000, 1, 1, tzinfo=UTC)] * count, MILLIS)
    columns = {
        "offset": pa.array(range(count), pa.int64()),
        "op": pa.array(ops or [0] * count, pa.int32()),
        "system_time": now,
        "event_time": now,
    }
    columns |= {name: rows.column(name) for name in rows.schema.names}
    return pa.table(columns)


def test_rows_without_event_times_keep_their_order(either_way: SparkEngine, tmp_path: Path) -> None:
    source = pa.table({"a": [3, 1, 2]})
    found = ingest(either_way, tmp_path, source, APPEND, as_file=True)
    assert found == [{"op": 0, "a": 3}, {"op": 0, "a": 1}, {"op": 0, "a": 2}]


def test_a_preprocess_query_shapes_the_source(either_way: SparkEngine, tmp_path: Path) -> None:
    query = sql(
        "SELECT * FROM `x.y` WHERE a <> 'b'", **{"x.y": "SELECT upper(a) AS b, a FROM input"}
    )
    found = ingest(
        either_way,
        tmp_path,
        pa.table({"a": ["c", "b", "a"]}),
        APPEND,
        preprocess=query,
        as_file=True,
    )
    assert found == [{"op": 0, "b": "C", "a": "c"}, {"op": 0, "b": "A", "a": "a"}]


def test_a_preprocess_query_may_group_and_its_rows_have_one_order(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"k": ["c", "b", "a", "c"], "v": [1, 2, 3, 4]})
    query = "SELECT k, sum(v) AS total FROM input GROUP BY k"
    found = ingest(either_way, tmp_path, source, APPEND, preprocess=query, as_file=True)
    assert [(row["k"], row["total"]) for row in found] == [("a", 3), ("b", 2), ("c", 5)]


def test_a_preprocess_query_may_ask_for_an_order(either_way: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT a FROM input ORDER BY a DESC"
    found = ingest(either_way, tmp_path, pa.table({"a": [1, 3, 2]}), APPEND, preprocess=query)
    assert [row["a"] for row in found] == [3, 2, 1]


REFUSED = {
    "SELECT a FROM inputs": "unknown-input",
    "DROP TABLE input": "syntax-error",
    "INSERT INTO x SELECT * FROM input": "syntax-error",
    "SELECT reflect('java.lang.System', 'exit', 1) FROM input": "calls-foreign-code",
    "SELECT input_file_name() AS f FROM input": "depends-on-environment",
    "SELECT * FROM csv.`/etc/passwd`": "unknown-input",
    "SELECT a FROM input; SELECT a FROM input": "syntax-error",
}


@pytest.mark.parametrize(("query", "code"), REFUSED.items())
def test_a_preprocess_query_is_one_select_of_the_input(
    query: str, code: str, engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(RefusedQueryError) as caught:
        ingest(engine, tmp_path, pa.table({"a": [1]}), APPEND, preprocess=query)
    assert caught.value.diagnostics()[0].code == code


def test_an_error_in_a_preprocess_query_has_its_place(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT a,\n  CAST(b AS INT) AS b FROM input"
    with pytest.raises(InvalidQueryError, match=r"'x' .* \(line 2, column 3\)") as caught:
        ingest(engine, tmp_path, pa.table({"a": [1], "b": ["x"]}), APPEND, preprocess=query)
    assert "try_cast" in caught.value.fix


@pytest.mark.parametrize("name", ["offset", "op", "system_time"])
def test_a_source_column_named_as_a_system_column_is_refused(
    name: str, engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(MergeInputError, match=f"a column named '{name}'"):
        ingest(engine, tmp_path, pa.table({name: [1]}), APPEND)


def test_a_source_without_schema_has_clashing_columns_renamed(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"op": ["x"], "_op": ["y"], "offset": [1], "event_time": [86400]})
    found = ingest(either_way, tmp_path, source, APPEND, infer=True, as_file=True)
    assert found == [
        {"op": 0, "event_time": "1970-01-02T00:00:00.000Z", "__op": "x", "_op": "y", "_offset": 1}
    ]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2020-01-02T03:04:05.678912+02:00", "2020-01-02T01:04:05.678Z"),
        ("2020-01-02 03:04:05", "2020-01-02T03:04:05.000Z"),
        ("2020-01-02t03:04:05z", "2020-01-02T03:04:05.000Z"),
        ("2020-01-02", "2020-01-02T00:00:00.000Z"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        (None, None),
    ],
)
def test_event_times_written_as_text_are_read_as_rfc_3339(
    text: str | None, time: str | None, engine: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"event_time": pa.array([text], pa.string())})
    assert ingest(engine, tmp_path, source, APPEND, infer=True) == [{"op": 0, "event_time": time}]


@pytest.mark.parametrize("text", ["12:30", "2020", "yesterday", "2020-13-01", "1/2/2020"])
def test_a_text_that_is_no_time_is_refused(text: str, engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidQueryError, match=text):
        ingest(engine, tmp_path, pa.table({"event_time": [text]}), APPEND, infer=True)


def test_timestamps_are_compared_as_they_are_stored(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    micro = pa.timestamp("us", tz="UTC")
    fine = [datetime(2020, 1, 1, 0, 0, 0, 123_987, UTC), datetime(1960, 1, 1, 0, 0, 0, 987, UTC)]
    source = pa.table({"k": [1, 2], "t": pa.array(fine, micro)})
    first = either_way.ingest(ingest_request(tmp_path, source, snapshot("k"), as_file=True))
    assert [row["t"] for row in rows_of(first)] == [
        "2020-01-01T00:00:00.123Z",
        "1960-01-01T00:00:00.000Z",
    ]
    floored = [value.replace(microsecond=value.microsecond // 1000 * 1000) for value in fine]
    stored = history_of(pa.table({"k": [1, 2], "t": pa.array(floored, MILLIS)}))
    assert ingest(either_way, tmp_path, source, snapshot("k"), [stored], as_file=True) == []


def test_nested_values_are_compared_whole(either_way: SparkEngine, tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("t", MILLIS), ("x", pa.float64())])))
    t = datetime(2020, 1, 1, tzinfo=UTC)
    one = [("a", [{"t": t, "x": float("nan")}]), ("b", None)]
    source = pa.table({"k": [1, 2], "m": pa.array([one[::-1], one], kind)})
    old = pa.table({"k": [1, 2], "m": pa.array([one, one[:1]], kind)})
    found = ingest(either_way, tmp_path, source, snapshot("k"), [history_of(old)], as_file=True)
    assert [(row["op"], row["k"]) for row in found] == [(2, 2), (3, 2)]


def test_declared_types_survive_the_merge(either_way: SparkEngine, tmp_path: Path) -> None:
    source = pa.table(
        {
            "a": pa.array([1], pa.uint32()),
            "b": pa.array([2**64 - 1], pa.uint64()),
            "c": pa.array(["x"], pa.large_string()),
            "d": pa.array([date(2020, 1, 1)], pa.date32()),
        }
    )
    frame = either_way.ingest(ingest_request(tmp_path, source, snapshot("a"), as_file=True))
    kinds = {field.name: field.type for field in frame.schema}
    assert kinds["a"] == pa.uint32()
    assert kinds["b"] == pa.uint64()
    assert rows_of(frame)[0] | {"op": 0} == source.to_pylist()[0] | {"op": 0}


def test_a_part_that_is_required_stays_so_where_the_whole_is_null(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    inner = pa.struct([pa.field("x", pa.string(), nullable=False)])
    parts = pa.struct(
        [pa.field("a", pa.int64(), False), pa.field("in", inner, False), ("t", MILLIS)]
    )
    values = [{"a": 1, "in": {"x": "y"}, "t": datetime(2020, 1, 1, tzinfo=UTC)}, None]
    table = pa.table({"k": [1, 2], "s": pa.array(values, parts), "n": pa.array([None] * 2, parts)})
    frame = either_way.ingest(ingest_request(tmp_path, table, snapshot("k"), as_file=True))
    assert frame.schema.field("s").type.field("a").nullable is False
    for batch in frame.batches():  # a writer of Parquet is as strict as this
        for column in (batch.column("s"), batch.column("n")):
            assert column.field(0).null_count == column.field(1).field(0).null_count == 0
    found = rows_of(frame)
    assert [row["s"] for row in found] == values
    assert [row["n"] for row in found] == [None, None]


def test_a_column_that_came_later_is_null_in_older_slices(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    first = history_of(pa.table({"k": ["a", "b", "c"]}))
    source = pa.table({"k": ["a", "b", "c", "d"], "url": [None, "x", None, "y"]})
    grown = history_of(source).schema
    request = ingest_request(tmp_path, source, snapshot("k"), [first], as_file=True)
    request = dataclasses.replace(request, in_force=from_arrow(grown))
    found = rows_of(either_way.ingest(request))
    assert [(row["op"], row["k"], row["url"]) for row in found] == [
        (2, "b", None),
        (3, "b", "x"),
        (0, "d", "y"),
    ]


def test_a_new_column_counts_as_a_change_before_it_is_in_force(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"k": ["a", "b"], "url": [None, "x"]})
    old = history_of(pa.table({"k": ["a", "b"]}))
    found = ingest(either_way, tmp_path, source, snapshot("k"), [old], as_file=True)
    assert [(row["op"], row["k"], row["url"]) for row in found] == [(2, "b", None), (3, "b", "x")]


def test_a_ledger_key_with_a_null_is_never_known(either_way: SparkEngine, tmp_path: Path) -> None:
    source = pa.table({"k": ["a", None]})
    strategy = MergeStrategyLedger(primary_key=("k",))
    found = ingest(either_way, tmp_path, source, strategy, [history_of(source)], as_file=True)
    assert found == [{"op": 0, "k": None}]


def test_an_empty_snapshot_retracts_everything_at_its_old_time(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    old = history_of(pa.table({"k": ["b", "a"], "v": [1, 2]}))
    nothing = pa.table({"k": pa.array([], pa.string()), "v": pa.array([], pa.int64())})
    found = ingest(either_way, tmp_path, nothing, snapshot("k"), [old], as_file=True)
    time = "2000-01-01T00:00:00.000Z"
    assert found == [
        {"op": 1, "event_time": time, "k": "a", "v": 2},
        {"op": 1, "event_time": time, "k": "b", "v": 1},
    ]


def test_a_snapshot_key_without_value_names_the_row(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"k": ["a", None], "v": [1, 2]})
    with pytest.raises(MergeInputError, match=r"k = null \(row with v = 2\)"):
        ingest(either_way, tmp_path, source, snapshot("k"), as_file=True)


@pytest.mark.parametrize("with_history", [False, True])
def test_a_snapshot_key_that_comes_twice_is_named(
    with_history: bool, either_way: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"k": ["a", "b", "b"], "j": [1, 2, 2], "v": [1, 2, 3]})
    history = [history_of(source.slice(0, 1))] if with_history else []
    with pytest.raises(MergeInputError, match="k = 'b', j = 2 is in the source more than once"):
        ingest(either_way, tmp_path, source, snapshot("k", "j"), history, as_file=True)


def test_an_unknown_column_is_answered_with_the_nearest(
    engine: SparkEngine, tmp_path: Path
) -> None:
    source = pa.table({"city": ["a"], "size": [1]})
    with pytest.raises(MergeInputError, match="primary key column 'cty'") as caught:
        ingest(engine, tmp_path, source, snapshot("cty"))
    assert "'city'" in caught.value.fix
    with pytest.raises(MergeInputError, match="compared column 'Size'"):
        ingest(engine, tmp_path, source, snapshot("city", compare=("Size",)))


def test_a_changed_type_is_named_with_both_types(engine: SparkEngine, tmp_path: Path) -> None:
    old = history_of(pa.table({"k": ["a"], "v": [1]}))
    with pytest.raises(MergeInputError, match="'v' is string now and bigint in the dataset"):
        ingest(engine, tmp_path, pa.table({"k": ["a"], "v": ["1"]}), snapshot("k"), [old])


def test_other_names_of_system_columns_are_respected(engine: SparkEngine, tmp_path: Path) -> None:
    vocab = DatasetVocabulary(operation_type_column="what", event_time_column="when")
    source = pa.table({"op": [1], "when": pa.array([datetime(2020, 1, 1, tzinfo=UTC)], MILLIS)})
    found = ingest(engine, tmp_path, source, APPEND, vocab=vocab)
    assert found == [{"what": 0, "when": "2020-01-01T00:00:00.000Z", "op": 1}]
