"""Functions: every one of the installed DataFusion is known here by its kind, and no other one."""

from contextlib import suppress
from datetime import UTC, datetime

import datafusion
import pyarrow as pa
import pytest

from odfbuild.executors.engine.datafusion.session import query_context
from odfbuild.sql.datafusion import (
    AGGREGATES,
    ENVIRONMENT,
    ETHEREUM,
    JSON,
    SCALARS,
    TABLES,
    VOLATILE,
    WINDOWS,
    step_findings,
)
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import DATAFUSION, QueryStep

MOMENT = datetime(2021, 3, 1, 10, 30, tzinfo=UTC)


def routines() -> dict[str, set[tuple[str, bool]]]:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))
    text = "select routine_name, function_type, is_deterministic from information_schema.routines"
    found: dict[str, set[tuple[str, bool]]] = {}
    for row in context.sql(text).to_arrow_table().to_pylist():
        kinds = found.setdefault(row["routine_name"], set())
        kinds.add((row["function_type"], row["is_deterministic"]))
    return found


def test_what_is_known_is_what_the_engine_has() -> None:
    known = SCALARS | AGGREGATES | WINDOWS | VOLATILE | ENVIRONMENT | TABLES
    assert known - JSON - ETHEREUM - {"unnest"} == set(routines())


def test_what_the_engine_calls_volatile_is_no_scalar_here() -> None:
    volatile = {name for name, kinds in routines().items() if any(not each[1] for each in kinds)}
    assert volatile == (VOLATILE | ENVIRONMENT | TABLES) - {"version", "unnest"}


def statement_calls(text: str) -> set[str]:
    return {each.text for each in QueryStep(None, text, engine=DATAFUSION).statement.calls}


@pytest.mark.parametrize("arguments", ["", "k", "k, k", "k, k, k"])
def test_every_function_is_seen_where_it_is_called(arguments: str) -> None:
    known = SCALARS | AGGREGATES | WINDOWS | VOLATILE | ENVIRONMENT | TABLES
    seen = set()
    for name in known:
        with suppress(SqlTextError):  # another number of arguments is a fault of the text
            assert name in statement_calls(f"select {name}({arguments}) as x from a")
            seen.add(name)
    assert len(seen) > len(known) // 2


BRACKETED = (
    "select max(t) as t from a group by {k}",
    "select max(t) as t from a group by {k}, {n} having {n} > 0",
    "select max(t) as t from a group by grouping sets ({k}, ())",
    "select max(t) as t from a group by rollup ({k})",
    "select max(t) as t from a group by cube ({k})",
    "select t from a order by {k}, {n} limit 3",
    "select t from a where {n} in ({n}) and {k} not in ({k})",
    "select t from a where {k} similar to {s}",
    "select t from a where {k} not like {s} or {k} ilike {s} and not {b}",
    "select t from a where {n} not between {n} and {n}",
    "select t from a where {k} is distinct from {k} or {k} is not distinct from {k}",
    "select t from a qualify {n} = row_number() over (order by {t})",
    "select row_number() over (partition by {k} order by {t}) as x, t from a",
    "select sum(n) over w as x, t from a window w as (partition by {k} order by {t})",
    "select string_agg(k, ';' order by {k} desc) filter (where {b}) as x, max(t) as t from a",
    "select array_agg(distinct {k} order by {k}) as x, max(t) as t from a",
    "select t, first_value({k}) ignore nulls over (order by {t}) as x from a",
    "select percentile_cont(0.5) within group (order by {n}) as x, max(t) as t from a",
    "select case {n} when {n} then {k} else {k} end as x, t from a",
    "select substring({k} from {n} for {n}) as x, position({s} in {k}) as y, t from a",
    "select overlay({k} placing {k} from {n} for {n}) as x, extract(year from {t}) as y, t from a",
    "select {t} at time zone 'UTC' as t from a",
    "select try_cast({k} as bigint) as x, {k}::varchar(3) as y, t from a",
    "select cast({n} as decimal (9, 2)) as x, t from a",
    "select l.t from a as l left join (select * from a) as r on {l.b}",
    "select t from (select t from a union all (select t from a)) as x",
    "select x.v from (values (1), (2)) as x(v)",
    "select x.v from (select t from a) as x (v)",
    "with x (v) as (select t from a) select x.v from x",
)


@pytest.mark.parametrize("form", BRACKETED)
def test_words_before_brackets_are_no_functions(form: str) -> None:
    """What the engine takes with brackets around each operand and without is not refused here."""
    values = {"k": "k", "n": "n", "t": "t", "b": "b", "s": "'x'", "l.b": "l.b"}
    row = {"t": [MOMENT], "k": ["v"], "n": [1], "b": [True]}
    for operand in ("{}", "({})", "(({}))"):
        text = form
        for name, value in values.items():
            text = text.replace("{" + name + "}", operand.format(value))
        with query_context(spill=None, clock=False) as context:
            context.add("a", pa.table(row))
            context.query(text)
        step = QueryStep(None, text, engine=DATAFUSION)
        found = step_findings([step], 0, step.statement, ["a"])
        assert [each for each in found if each.reason is Reason.ARGUMENTS] == []


TIMES = {
    "t": (pa.array([MOMENT], pa.timestamp("ms", "UTC")), "timestamp '2021-03-01T10:30:00Z'"),
    "s": (pa.array(["2021-03-01T10:30:00Z"]), "'2021-03-01T10:30:00Z'"),
    "z": (pa.array(["2021-03-01T12:30:00+02:00"]), "'2021-03-01T12:30:00+02:00'"),
    "n": (pa.array([1_614_594_600], pa.int64()), "1614594600"),
}
OF_TIMES = (
    "to_timestamp({})",
    "to_timestamp_seconds({})",
    "coalesce(null, to_timestamp({}))",
    "case when n = 1 then t else to_timestamp({}) end",
    "coalesce(t, to_timestamp({}))",
    "date_trunc('minute', to_timestamp({}))",
    "to_timestamp({}) + interval '1 day' - interval '1 day'",
)


@pytest.mark.parametrize("column", TIMES)
@pytest.mark.parametrize("form", OF_TIMES)
def test_a_time_of_a_column_is_that_of_its_value(form: str, column: str) -> None:
    """What is worked out while planning does not say that rows can be computed."""
    with query_context(spill=None, clock=False) as context:
        context.add("input", pa.table({name: array for name, (array, _) in TIMES.items()}))
        for argument in (column, TIMES[column][1]):
            text = f"select {form.format(argument)} as x from input"
            rows = context.query(text).to_arrow_table()
            assert rows["x"].cast(pa.timestamp("s", "UTC")).to_pylist() == [MOMENT]


@pytest.mark.parametrize("column", TIMES)
def test_times_of_columns_are_compared(column: str) -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("input", pa.table({name: array for name, (array, _) in TIMES.items()}))
        for other in TIMES:
            text = f"select to_timestamp({column}) = to_timestamp({other}) as x from input"
            assert context.query(text).to_arrow_table()["x"].to_pylist() == [True]
