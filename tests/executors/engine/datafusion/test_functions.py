"""Functions: every one of the installed DataFusion is known here by its kind, and no other one."""

from datetime import UTC, datetime

import datafusion
import pyarrow as pa
import pytest

from odfbuild.executors.engine.datafusion.json_functions import function
from odfbuild.executors.engine.datafusion.session import query_context
from odfbuild.sql.datafusion import (
    AGGREGATES,
    ENVIRONMENT,
    JSON,
    SCALARS,
    TABLES,
    VOLATILE,
    WINDOWS,
)


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
    assert known - JSON - {"unnest"} == set(routines())


def test_what_the_engine_calls_volatile_is_no_scalar_here() -> None:
    volatile = {name for name, kinds in routines().items() if any(not each[1] for each in kinds)}
    assert volatile == (VOLATILE | ENVIRONMENT | TABLES) - {"version", "unnest"}


def test_json_functions_give_null_for_what_is_not_there_or_of_another_kind() -> None:
    texts = pa.array(['{"k": "v", "n": 1.5, "b": true}', "[1, 2]", "no json", None, "3"])

    def called(name: str, key: str) -> list[object]:
        found: list[object] = function(name)(texts, pa.array([key] * len(texts))).to_pylist()
        return found

    assert called("json_get_str", "k") == ["v", None, None, None, None]
    assert called("json_get_str", "n") == [None] * 5
    assert called("json_get_float", "n") == [1.5, None, None, None, None]
    assert called("json_get_int", "1") == [None, 2, None, None, None]
    assert called("json_get_bool", "b") == [True, None, None, None, None]
    assert called("json_contains", "0") == [False, True, False, False, False]


MOMENT = datetime(2021, 3, 1, 10, 30, tzinfo=UTC)
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
