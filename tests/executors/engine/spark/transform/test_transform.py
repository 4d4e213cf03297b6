"""Derivative steps: rows in order, operations carried through, broken pairs mended; refusals."""

import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import RefusedQueryError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import SparkQueryError
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.events import OffsetInterval
from tests.executors.engine.spark.tables import MILLIS, rows_of, sql, table_of, work_on
from tests.support.cases import load
from tests.support.effort import examples
from tests.support.oracles.transform import Change, is_well_formed, replayed, result

pytestmark = pytest.mark.spark

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
DATA = [("event_time", MILLIS), ("k", pa.string()), ("v", pa.int64())]
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        *(pa.field(name, kind) for name, kind in DATA),
    ]
)


def log(*rows: tuple[int, str | None, int | None], start: int = 0) -> pa.Table:
    """Return a slice of (op, k, v); its event times count the rows."""
    return pa.Table.from_pylist(
        [
            {
                "offset": start + at,
                "op": op,
                "system_time": NOON,
                "event_time": NOON + timedelta(minutes=start + at),
                "k": k,
                "v": v,
            }
            for at, (op, k, v) in enumerate(rows)
        ],
        schema=SCHEMA,
    )


def run(engine: SparkEngine, folder: Path, query: str, **inputs: Any) -> list[dict[str, Any]]:
    return rows_of(engine.transform(work_on(folder, sql(query), **inputs)))


def brief(rows: Iterable[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("op", *columns)) for row in rows]


def without_system(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.drop_columns(["offset", "system_time"]).to_pylist()
    for row in rows:
        row["event_time"] = row["event_time"].isoformat(timespec="milliseconds")[:-6] + "Z"
    return rows


@pytest.mark.parametrize("case", load("transform-spark-map")["cases"], ids=lambda c: c["id"])
def test_vectors_of_the_reference_engine_hold(
    case: dict[str, Any], either_way: SparkEngine, tmp_path: Path
) -> None:
    for step in case["steps"]:
        slices = [table_of(each) for each in step["inputs"][0]["slices"]]
        found = run(either_way, tmp_path, case["query"], **{"in": slices})
        expected = step["expect"]["data"]
        assert found == ([] if expected is None else without_system(table_of(expected)))


def test_vectors_of_a_root_and_its_derivative_hold(engine: SparkEngine, tmp_path: Path) -> None:
    case = load("transform-chain")["cases"][0]
    first, second = (table_of(each["expect"]["data"]) for each in case["rounds"])
    # The root's rows are those of the derivative, ten times smaller and without its system times.
    for expected in (first, second):
        tenth = [value // 10 for value in expected.column("population_x10").to_pylist()]
        root = expected.set_column(5, "population", pa.array(tenth, pa.int32()))
        found = engine.transform(work_on(tmp_path, sql(case["query"]), root=[root]))
        assert found.schema.field("population_x10").type == pa.int32()
        assert rows_of(found) == without_system(expected)


def test_operations_pass_through_a_query_that_does_not_mention_them(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    t = log((0, "a", 1), (0, "b", 2), (2, "a", 1), (3, "a", 5), (1, "b", 2))
    rows = run(either_way, tmp_path, "SELECT event_time, k, v * 2 AS w FROM t", t=[t])
    assert brief(rows, "k", "w") == [
        (0, "a", 2),
        (0, "b", 4),
        (2, "a", 2),
        (3, "a", 10),
        (1, "b", 4),
    ]
    assert list(rows[0]) == ["op", "event_time", "k", "w"]


def test_a_star_gives_the_event_time_and_the_data(engine: SparkEngine, tmp_path: Path) -> None:
    rows = run(engine, tmp_path, "SELECT * FROM t", t=[log((0, "a", 1))])
    assert list(rows[0]) == ["op", "event_time", "k", "v"]


def test_excluding_system_columns_means_what_a_star_means(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = "SELECT * EXCEPT (offset, op, system_time, v) FROM t"
    rows = run(engine, tmp_path, query, t=[log((0, "a", 1), (1, "a", 1))])
    assert brief(rows, "k") == [(0, "a"), (1, "a")]


def test_the_interval_counts_not_the_file(either_way: SparkEngine, tmp_path: Path) -> None:
    t = log((0, "a", 1), (0, "b", 2), (0, "c", 3), (0, "d", 4))
    work = work_on(tmp_path, sql("SELECT event_time, k FROM t"), t=[t])
    part = dataclasses.replace(work.inputs[0], interval=OffsetInterval(start=1, end=2))
    work = dataclasses.replace(work, inputs=(part,))
    assert brief(rows_of(either_way.transform(work)), "k") == [(0, "b"), (0, "c")]


def test_an_older_slice_without_a_later_column_has_nulls_there(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    old = log((0, "a", 1)).drop_columns(["v"])
    work = work_on(
        tmp_path, sql("SELECT event_time, k, v FROM t"), t=[old, log((0, "b", 2), start=1)]
    )
    assert brief(rows_of(either_way.transform(work)), "k", "v") == [(0, "a", None), (0, "b", 2)]


MENDED = {
    "only the old row passes": (
        "WHERE v < 5",
        [(0, "a", 1), (1, "a", 1)],
    ),
    "only the new row passes": ("WHERE v >= 5", [(0, "a", 9)]),
    "both pass": ("WHERE v > 0", [(0, "a", 1), (2, "a", 1), (3, "a", 9)]),
    "none passes": ("WHERE v = 3", []),
}


@pytest.mark.parametrize(("where", "expected"), MENDED.values(), ids=MENDED)
def test_a_filter_may_break_a_correction(
    where: str, expected: list[tuple[Any, ...]], either_way: SparkEngine, tmp_path: Path
) -> None:
    t = log((0, "a", 1), (2, "a", 1), (3, "a", 9))
    rows = run(either_way, tmp_path, f"SELECT event_time, k, v FROM t {where}", t=[t])
    assert brief(rows, "k", "v") == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT event_time, explode(split(k, ',')) AS p, v FROM t",
        "SELECT event_time, p, v FROM t LATERAL VIEW explode(split(k, ',')) AS p",
        "WITH x AS (SELECT *, explode(split(k, ',')) AS p FROM t) SELECT event_time, p, v FROM x",
    ],
)
def test_an_exploded_pair_stays_one_only_if_rows_pair_up(
    query: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    t = log(
        *[(0, "y,x", 1)],
        *[(2, "y,x", 1), (3, "x,z", 2)],
        *[(2, "x,z", 2), (3, "x", 3)],
    )
    rows = run(either_way, tmp_path, query, t=[t])
    assert brief(rows, "p", "v") == [
        *[(0, "x", 1), (0, "y", 1)],
        *[(2, "x", 1), (3, "x", 2), (2, "y", 1), (3, "z", 2)],
        *[(1, "x", 2), (1, "z", 2), (0, "x", 3)],
    ]


def test_union_all_keeps_the_order_of_inputs_then_of_offsets(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    query = (
        "SELECT event_time, k FROM `b.c` WHERE v > 1 UNION ALL SELECT event_time, upper(k) FROM a "
        "UNION ALL SELECT event_time, k FROM a"
    )
    a, b = log((0, "y", 1), (0, "x", 2)), log((0, "m", 1), (0, "n", 2))
    rows = run(either_way, tmp_path, query, a=[a], b__c=[b])
    assert brief(rows, "k") == [(0, "Y"), (0, "y"), (0, "X"), (0, "x"), (0, "n")]


def test_steps_build_on_each_other(engine: SparkEngine, tmp_path: Path) -> None:
    steps = sql(
        "SELECT * FROM `x.y` WHERE w > 2", **{"x.y": "SELECT event_time, v + 1 AS w FROM t"}
    )
    work = work_on(tmp_path, steps, t=[log((0, "a", 1), (1, "a", 2))])
    assert brief(rows_of(engine.transform(work)), "w") == [(1, 3)]


def test_a_column_list_renames_only_the_users_columns(engine: SparkEngine, tmp_path: Path) -> None:
    query = "WITH x (t1, k1) AS (SELECT event_time, k FROM t) SELECT t1 AS event_time, k1 FROM x"
    assert brief(run(engine, tmp_path, query, t=[log((1, "a", 1))]), "k1") == [(1, "a")]


def test_a_query_that_names_op_sees_the_event_log(either_way: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT op, offset AS at, event_time, k FROM t WHERE op <> 2"
    t = log((0, "a", 1), (2, "a", 1), (3, "a", 2))
    assert brief(run(either_way, tmp_path, query, t=[t]), "at", "k") == [(0, 0, "a"), (3, 2, "a")]


def test_a_query_that_reads_op_but_gives_none_appends(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT event_time, k FROM t WHERE op = 3"
    t = log((0, "a", 1), (2, "a", 1), (3, "a", 2))
    assert brief(run(engine, tmp_path, query, t=[t]), "k") == [(0, "a")]


def test_an_input_without_new_rows_is_empty_but_there(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    query = "SELECT event_time, k FROM a UNION ALL SELECT event_time, k FROM b"
    rows = run(either_way, tmp_path, query, a=SCHEMA, b=[log((0, "x", 1))])
    assert brief(rows, "k") == [(0, "x")]


def test_no_new_rows_at_all_still_show_the_columns(either_way: SparkEngine, tmp_path: Path) -> None:
    frame = either_way.transform(
        work_on(tmp_path, sql("SELECT event_time, v / 2 AS h FROM t"), t=SCHEMA)
    )
    assert (frame.rows, frame.schema.names) == (0, ["op", "event_time", "h"])
    assert frame.schema.field("h").type == pa.float64()


def test_validation_gives_the_schema_without_reading_rows(
    engine: SparkEngine, tmp_path: Path
) -> None:
    work = work_on(tmp_path, sql("SELECT event_time, k, v + 1 AS w FROM t"), t=[log((0, "a", 1))])
    for path in work.inputs[0].paths:
        path.unlink()
    schema = engine.validate(work)
    assert schema.names == ["op", "event_time", "k", "w"]
    assert [str(f.type) for f in schema] == ["int32", "timestamp[us, tz=UTC]", "string", "int64"]


def test_nested_values_and_decimals_come_back_as_they_are(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    query = (
        "SELECT event_time, CAST(v AS DECIMAL(10, 2)) AS d, named_struct('a', k, 'b', array(v)) "
        "AS s, map('x', v, 'a', 0L) AS m, CAST(event_time AS DATE) AS day, binary(k) AS b FROM t "
        "UNION ALL SELECT event_time, 0, named_struct('a', k, 'b', array(v)), "
        "map('x', v, 'a', 1L), NULL, NULL FROM t"
    )
    first, second = run(either_way, tmp_path, query, t=[log((0, "k", 3))])
    assert (str(first["d"]), str(second["d"])) == ("0.00", "3.00")
    assert second["s"] == {"a": "k", "b": [3]}
    assert dict(second["m"]) == {"x": 3, "a": 0}
    assert str(second["day"]) == "2020-01-01"
    assert second["b"] == b"k"


REFUSED = {
    "SELECT k FROM t": "has no result column 'event_time'",
    "SELECT k AS event_time FROM t": "'event_time' is string",
    "SELECT event_time, k AS offset FROM t": "a result column named 'offset'",
    "SELECT event_time, k, k FROM t": "two result columns named 'k'",
    "SELECT event_time, NULL AS n FROM t": "column 'n' has the type void",
    "SELECT event_time, INTERVAL '1' DAY AS i FROM t": "cannot be stored",
    "SELECT event_time, array(NULL) AS n FROM t": r"column 'n\[\]'",
    "SELECT event_time, k AS op FROM t": "'op' is string",
    "SELECT event_time, 7 AS op FROM t": "not 0, 1, 2 or 3",
    "SELECT CAST(NULL AS TIMESTAMP) AS event_time, k FROM t": "without 'event_time'",
    "SELECT event_time, user AS u FROM t": r"current_user\(\)",
}


@pytest.mark.parametrize(("query", "what"), REFUSED.items(), ids=REFUSED.values())
def test_results_that_cannot_be_a_slice_are_refused(
    query: str, what: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(InvalidQueryError, match=what):
        run(either_way, tmp_path, query, t=[log((0, "a", 1))])


def test_the_error_for_a_missing_event_time_says_what_could_serve(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = "SELECT k, to_date('2020-01-01') AS day FROM t"
    with pytest.raises(InvalidQueryError) as caught:
        run(engine, tmp_path, query, t=[log((0, "a", 1))])
    assert "day AS event_time" in caught.value.fix


def test_an_event_log_that_is_not_read_row_by_row_never_reaches_spark(
    engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(RefusedQueryError, match="GROUP BY") as caught:
        run(engine, tmp_path, "SELECT k, op, rand() FROM t GROUP BY k, op", t=[log((0, "a", 1))])
    codes = [each.code for each in caught.value.diagnostics()]
    assert codes == ["unsupported-query", "not-deterministic"]


FAILING = {
    "SELECT event_time, kk FROM t": ("UNRESOLVED_COLUMN", "column 20", "kk"),
    "SELECT event_time,\n  nosuch(k) AS x FROM t": ("query-not-admitted", "line 2, column 3", ""),
    "SELECT event_time, CAST(k AS INT) AS i FROM t": (
        "CAST_INVALID_INPUT",
        "column 20",
        "try_cast",
    ),
    "SELECT *, v / 0 AS x FROM t": ("DIVIDE_BY_ZERO", "column 11", "try_divide"),
    "SELECT event_time, v * 9223372036854775807 AS x FROM t": (
        "ARITHMETIC_OVERFLOW",
        "column 20",
        "wider type",
    ),
    "SELECT event_time, to_date(k, 'yyyy') AS d FROM t": (
        "CANNOT_PARSE_TIMESTAMP",
        "",
        "try_to_",
    ),
    "SELECT event_time FROM t WHERE": ("syntax-error", "", ""),
}


@pytest.mark.parametrize(("query", "expected"), FAILING.items(), ids=FAILING)
def test_errors_of_spark_are_one_line_with_the_users_place(
    query: str,
    expected: tuple[str, str, str],
    engine: SparkEngine,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    condition, place, fix = expected
    with pytest.raises(InvalidQueryError) as caught:
        run(engine, tmp_path, query, t=[log((0, "a", 5), (0, "b", 6))])
    error = caught.value
    found = getattr(error, "condition", None) or error.diagnostics()[0].code
    assert found.startswith(condition)
    assert place in error.what
    assert fix in f"{error.what} {error.fix}"
    assert "\n" not in error.what + error.why + error.fix
    assert "__odf" not in error.what + error.why
    assert "spark.sql" not in error.what
    assert capfd.readouterr() == ("", "")


def test_a_query_that_looks_for_system_columns_is_told_how_to_see_them(
    engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(SparkQueryError) as caught:
        run(engine, tmp_path, "SELECT event_time, system_time FROM t", t=[log((0, "a", 1))])
    assert "event log" in caught.value.fix


def test_views_of_one_step_are_gone_in_the_next(engine: SparkEngine, tmp_path: Path) -> None:
    session = engine._sessions.session(StepSize.SMALL)
    before = session.sql("SHOW TABLES").toArrow().to_pylist()  # of others in this process
    run(engine, tmp_path, "SELECT event_time, k FROM t", t=[log((0, "a", 1))])
    assert session.sql("SHOW TABLES").toArrow().to_pylist() == before


def test_slices_of_other_producers_are_read_as_their_schema_says(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    kinds = {"offset": pa.uint64(), "op": pa.uint8(), "v": pa.uint32()}
    t = log((0, "a", 7), (1, "a", 7))
    fields = [f.with_type(kinds.get(f.name, f.type)) for f in t.schema]
    foreign = t.cast(pa.schema(fields))
    rows = run(either_way, tmp_path, "SELECT event_time, v FROM t", t=[foreign])
    assert brief(rows, "v") == [(0, 7), (1, 7)]


# Laws

Query = tuple[str, Callable[[tuple[Any, ...]], Iterable[tuple[Any, ...]]]]
QUERIES: list[Query] = [
    ("SELECT event_time, k, v * 2 AS w FROM t", lambda r: [(r[0], r[1] * 2)]),
    ("SELECT event_time, k, v FROM t WHERE v % 2 = 0", lambda r: [r] if r[1] % 2 == 0 else []),
    (
        "SELECT event_time, explode(sequence(0L, v)) AS i, k FROM t WHERE v < 3",
        lambda r: [(i, r[0]) for i in range(r[1] + 1)] if r[1] < 3 else [],
    ),
    (
        "SELECT event_time, k FROM t WHERE v > 1 UNION ALL SELECT event_time, k || '!' FROM t",
        lambda r: [*([(r[0],)] if r[1] > 1 else []), (r[0] + "!",)],
    ),
]


@st.composite
def changelogs(draw: st.DrawFn) -> list[list[Change]]:
    """Draw a valid changelog in portions; portions never cut a correction."""
    rows: list[tuple[str, int]] = []
    portions: list[list[Change]] = [[]]
    value = st.tuples(st.sampled_from("abc"), st.integers(0, 4))
    for _ in range(draw(st.integers(1, 8))):
        op = draw(st.sampled_from([0, 0, 1, 2])) if rows else 0
        if op == 0:
            rows.append(draw(value))
            portions[-1].append((0, rows[-1]))
        else:
            old = rows.pop(draw(st.integers(0, len(rows) - 1)))
            portions[-1].append((op, old))
        if op == 2:
            rows.append(draw(value))
            portions[-1].append((3, rows[-1]))
        if draw(st.booleans()):
            portions.append([])
    return [portion for portion in portions if portion]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q[0][:40])
@settings(max_examples=examples(5, 50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(portions=changelogs())
def test_replaying_all_steps_gives_the_query_of_the_replayed_input(
    query: Query, portions: list[list[Change]], engine: SparkEngine, tmp_path: Path
) -> None:
    text, meaning = query
    made: list[Change] = []
    start = 0
    for portion in portions:
        t = log(*((op, k, v) for op, (k, v) in portion), start=start)
        start += len(portion)
        rows = run(engine, tmp_path, text, t=[t])
        step = [(row["op"], tuple(row.values())[2:]) for row in rows]
        assert is_well_formed(step)
        made += step
    changes = [change for portion in portions for change in portion]
    assert replayed(made) == result(replayed(changes), meaning)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q[0][:40])
@settings(max_examples=examples(3, 50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(portions=changelogs())
def test_few_rows_and_many_take_different_ways_to_the_same_result(
    query: Query, portions: list[list[Change]], engine: SparkEngine, tmp_path: Path
) -> None:
    slices, start = [], 0
    for portion in portions:
        slices.append(log(*((op, k, v) for op, (k, v) in portion), start=start))
        start += len(portion)
    work = work_on(tmp_path, sql(query[0]), t=slices)
    small = engine.transform(work)
    limit, engine._limit = engine._limit, -1
    try:
        big = engine.transform(work)
    finally:
        engine._limit = limit
    assert small.schema == big.schema
    assert rows_of(small) == rows_of(big)
    assert small.table is not None
    assert big.parts
