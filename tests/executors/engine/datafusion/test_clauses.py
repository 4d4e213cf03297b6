"""Clauses that DataFusion leaves out or misreads are refused, and set operations are right."""

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion.session import query_context, rows_of
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from tests.support.effort import examples

OPERATIONS = (
    *("union", "union all", "intersect", "except", "intersect all", "except all"),
    *("union by name", "union all by name"),
)
KEYS = ("x", "x", "rollup (x, k)", "cube (k, x)", "grouping sets ((x), (k))")
AGGREGATES = (
    *("count(*)", "sum(k)", "sum(distinct k)", "max(k)", "sum(k) filter (where k > 1)"),
    *("sum(cast(k as decimal(12, 2)) * 3)", "sum(cast(k as double))"),
)


def _table(draw: random.Random) -> pa.Table:
    rows = range(draw.randint(0, 5))
    return pa.table(
        {
            "k": pa.array([draw.choice([1, 2, None]) for _ in rows], pa.int64()),
            "x": pa.array([draw.choice(["p", "q", None]) for _ in rows], pa.string()),
        }
    )


def test_set_operations_give_the_rows_of_another_engine_or_are_refused() -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(400, 20_000)):
        draw = random.Random(seed)
        tables = {each: _table(draw) for each in "abc"}
        text = "select k, x from a"
        for name in "bc"[: draw.choice([1, 2])]:
            text += f" {draw.choice(OPERATIONS)} select k, x from {name}"
        added = None
        if draw.random() < 0.5:
            added = draw.choice(AGGREGATES)
            keys = draw.choice(
                ("x", "x", "rollup (x, k)", "cube (k, x)", "grouping sets ((x), (k))")
            )
            if draw.random() < 0.3:
                text = f"select 1 as k, x from ({text}) as w"
            text = f"select x, {added} as n from ({text}) as z group by {keys}"
            if draw.random() < 0.3:
                text = f"select x, sum(n) as n from ({text} union all {text}) as y group by x"
        with duckdb.connect() as other:
            for name, table in tables.items():
                other.register(name, table)
            expected = sorted(map(str, other.execute(text).fetchall()))
        try:
            sent = QueryStep(None, text, engine="datafusion").statement
        except SqlTextError:
            assert "intersect all" in text or "except all" in text
            seen["refused"] += 1
            continue
        with query_context(spill=None, clock=False) as context:
            for name, table in tables.items():
                context.add(name, table)
            try:
                rows = rows_of(context.last(sent.text))
            except InvalidQueryError as error:
                assert "one group as several" in error.why
                assert "union" in text
                seen["groups of several kinds"] += 1
                continue
        found = sorted(map(str, zip(*(each.to_pylist() for each in rows.columns), strict=True)))
        assert found == expected, (seed, text)
        seen["same"] += 1
    assert len(seen) == 3
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("select k from a tablesample (1 rows)", "TABLESAMPLE"),
        ("select k from a as b tablesample system (10 percent) repeatable (3)", "TABLESAMPLE"),
        ("select k from (select k from a) as q tablesample (1 rows)", "TABLESAMPLE"),
        ("select a.k from a join b tablesample (1 rows) on true", "TABLESAMPLE"),
        ("select (select max(k) from a tablesample (1 rows)) as k from b", "TABLESAMPLE"),
        ("select k from a connect by prior k = v", "CONNECT BY"),
        ("select k from a start with k = 1 connect by prior k = v", "CONNECT BY"),
        ("select k, sum(v) as s from a group by k with rollup", "WITH ROLLUP"),
        ("select k, sum(v) as s from a group by k with cube", "WITH CUBE"),
        ("select k, sum(v) as s from a group by k with totals", "WITH TOTALS"),
        ("select k from a intersect all select k from b", "INTERSECT ALL"),
        ("select k from a except all select k from b", "EXCEPT ALL"),
        ("select * from (select k from a except all select k from b) as q", "EXCEPT ALL"),
        ("select * ilike 'k%' from a", "* ILIKE"),
        ("select a.* ilike 'k%' from a", "* ILIKE"),
        ("select k from a with (nolock)", "WITH (...)"),
        ("select k from a partition (p)", "PARTITION"),
    ],
)
def test_a_clause_that_would_have_no_effect_is_refused(text: str, clause: str) -> None:
    with pytest.raises(SqlTextError, match="DataFusion leaves it out or misreads it") as caught:
        _ = QueryStep(None, text, engine="datafusion").statement
    assert clause in str(caught.value)


FRAMES = (
    "rows between 1 preceding and 1 following",
    "rows between current row and unbounded following",
    "range between 1 preceding and current row",
    "rows 2 preceding",
)
WHOLE = ("", "rows between unbounded preceding and 1 following", "rows unbounded preceding")


@pytest.mark.parametrize(
    "call",
    [
        *("stddev(v)", "stddev_pop(v)", "stddev_samp(v)", "var(v)", "var_pop(v)", "var_samp(v)"),
        *("var_sample(v)", "var_population(v)", "covar_pop(v, k)", "covar(v, k)", "corr(v, k)"),
        *("regr_slope(v, k)", "bit_xor(v)", "stddev(v) filter (where k > 1)"),
    ],
)
def test_a_variance_over_a_frame_that_loses_rows_is_refused(call: str) -> None:
    for frame in FRAMES:
        for text in (
            f"select {call} over (order by v {frame}) as c from a",
            f"select 1 + {call} over w as c from a window w as (order by v {frame})",
        ):
            with pytest.raises(SqlTextError, match="does not begin with UNBOUNDED PRECEDING"):
                _ = QueryStep(None, text, engine="datafusion").statement
        other = (
            f"select max(v) over (order by v {frame}) as c, {call} over (order by v) as d from a"
        )
        assert QueryStep(None, other, engine="datafusion").statement.text == other
    for frame in WHOLE:
        text = f"select {call} over (order by v {frame}) as c from a"
        assert QueryStep(None, text, engine="datafusion").statement.text == text


def test_variances_of_equal_values_are_zero_in_the_frames_that_are_read() -> None:
    """Those of moving frames were NaN here."""
    rows = pa.table({"k": [1, 2, 3, 4, 5, 6], "v": [2, 2, 2, 3, 7, 7]})
    with duckdb.connect() as other, query_context(spill=None, clock=False) as context:
        other.register("a", rows)
        context.add("a", rows)
        for frame in WHOLE:
            for call in ("stddev", "var_samp", "stddev_pop", "var_pop"):
                text = f"select {call}(v) over (order by k {frame}) as c from a"
                found = rows_of(context.last(text)).column("c").to_pylist()
                expected = [each for (each,) in other.execute(text).fetchall()]
                assert found == pytest.approx(expected, nan_ok=False, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "select k from a group by rollup (k)",
        "select k from a group by k, cube (v)",
        "select k from a group by grouping sets ((k), ())",
        "select k, count(*) as n from a group by all",
        "select * except (k) from a",
        "select * replace (v + 1 as v) from a",
        "select k from a natural left join b",
        "select k from (a join b on true) limit 3 offset 1",
        "select distinct on (k) k, v from a order by k, v",
        "select k, v from a qualify row_number() over w = 1 window w as (order by v)",
        "select k from a intersect select k from b except select k from c",
        "(select k from a) union all (select k from b order by k limit 1)",
        "select x.k from a as x, unnest(x.l) as y(z)",
    ],
)
def test_clauses_that_count_are_read(text: str) -> None:
    assert QueryStep(None, text, engine="datafusion").statement.text == text
