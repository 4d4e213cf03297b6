"""Functions: every one of the installed DataFusion is known here by its kind, and no other one."""

import datafusion
import pyarrow as pa

from odfbuild.executors.engine.datafusion.json_functions import function
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
