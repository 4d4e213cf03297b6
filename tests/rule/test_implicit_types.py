"""Joins of columns of different types, zeros that a query makes, QUALIFY beside shadowing names.

Each over random histories, held against one plain batch query.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.bits import as_a_whole
from tests.rule.check import at_some_steps, check, check_number
from tests.rule.histories import History, Portion
from tests.rule.inputs import HOUR
from tests.rule.shapes.shape import Shape, T
from tests.rule.steps import sealed

pytestmark = pytest.mark.spark

_TEXTS = ["1", "01", " 1", "1.0", "2", "+2", None]
_COLUMNS: dict[str, dict[str, tuple[pa.DataType, Sequence[Any]]]] = {
    "a": {"k": (pa.string(), _TEXTS[:3] + _TEXTS[4:]), "n": (pa.int64(), [1, 2, None])},
    "b": {"k": (pa.int32(), [1, 2, None]), "w": (pa.int64(), [0, 1, 2])},
}
_FIRST = [
    pa.field("offset", pa.int64()), pa.field("op", pa.int32()),
    pa.field("system_time", pa.timestamp("ms", "UTC")),
    pa.field("event_time", pa.timestamp("ms", "UTC")),
]  # fmt: skip

JOINS = (
    Shape("string and int", f"select a.{T}, a.k, b.w from a join b on a.k = b.k"),
    Shape("int and string", f"select b.{T}, b.k, a.n from b join a on b.k = a.k"),
    Shape("left join", f"select a.{T}, a.k, b.w from a left join b on a.k = b.k"),
    Shape("comma", f"select a.{T}, a.k, b.w from a, b where a.k = b.k and a.n = b.w"),
    Shape("semi", f"select {T}, k, n from a where k in (select k from b)"),
    Shape(
        "grouped",
        f"select max(a.{T}) as {T}, b.k, count(*) as c from a join b on a.k = b.k group by b.k",
    ),
    Shape(
        "grouped by text",
        f"select max(a.{T}) as {T}, a.k, count(*) as c from a join b on a.k = b.k group by a.k",
    ),
    Shape("union", f"select {T}, k, count(*) over (partition by k) as c from "
          f"(select {T}, k from a union all select {T}, k from b)"),
)  # fmt: skip


QUALIFIED = (
    Shape("shadowed part", f"select {T}, upper(k) as k, n from a "
          "qualify count(*) over (partition by k) > 1"),
    Shape("swapped names", f"select {T}, k as j, n as k from a "
          "qualify rank() over (partition by k order by n) = 1"),
    Shape("shadowed value", f"select {T}, k, n + 1 as n from a "
          "qualify max(n) over (partition by k) = n"),
    Shape("name of another", f"select {T}, concat(k, 'z') as m, n as k from a "
          "qualify rank() over (partition by m order by n) = 1"),
)  # fmt: skip
ZEROS = {
    "negated": "max(-x)",
    "least": "min(x * -1)",
    "in a list": "max(array(-x))",
    "plain": "max(x)",
}


def drawn(seed: int) -> History:
    """Return rows that come, go and are corrected, in portions."""
    draw = Random(seed)
    schemas = {
        name: pa.schema([*_FIRST, *(pa.field(each, kind) for each, (kind, _) in columns.items())])
        for name, columns in _COLUMNS.items()
    }
    standing: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
    portions = []
    for number in range(4):
        records: dict[str, list[dict[str, Any]]] = {}
        for name, columns in _COLUMNS.items():
            found: list[dict[str, Any]] = []
            for _ in range(draw.choice([0, 1, 3])):
                new = {each: draw.choice(values) for each, (_, values) in columns.items()}
                new["event_time"] = draw.randint(0, 9) * HOUR
                if standing[name] and draw.random() < 0.4:
                    found.append(
                        {"op": 1, **standing[name].pop(draw.randrange(len(standing[name])))}
                    )
                else:
                    standing[name].append(new)
                    found.append({"op": 0, **new})
            records[name] = found
        portions.append(Portion(records, number * HOUR))
    return History(schemas, tuple(portions))


@pytest.mark.parametrize("shape", JOINS, ids=str)
def test_columns_of_different_types_meet_as_in_one_batch(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    check(engine, tmp_path, shape, drawn(3), at_some_steps(as_a_whole))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4, 6])
@pytest.mark.parametrize("shape", JOINS, ids=str)
def test_columns_of_different_types_meet_step_by_step(
    engine: SparkEngine, tmp_path: Path, shape: Shape, seed: int
) -> None:
    check(engine, tmp_path, shape, drawn(seed), sealed)


@pytest.mark.parametrize("shape", QUALIFIED, ids=str)
def test_a_qualified_name_is_that_of_one_batch(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    for number in (1, 2):
        check_number(engine, tmp_path, shape, number)


@pytest.mark.parametrize("value", ZEROS.values(), ids=ZEROS)
def test_the_sign_of_a_zero_that_a_query_makes_stays(
    engine: SparkEngine, tmp_path: Path, value: str
) -> None:
    """Rows come for a group that has the zero, and the zero goes."""
    columns = {"k": pa.string(), "x": pa.float64()}
    schema = pa.schema([*_FIRST, *(pa.field(name, kind) for name, kind in columns.items())])
    came = [(0, 0.0), (0, 5.0 if "max(-" in value else -5.0), (1, 0.0)]
    portions = tuple(
        Portion({"a": [{"op": op, "event_time": HOUR, "k": "p", "x": x}]}, None) for op, x in came
    )
    query = f"select max({T}) as {T}, k, cast({value} as string) as y from a group by k"
    check(engine, tmp_path, Shape(value, query), History({"a": schema}, portions), sealed)
