"""The one rule where operators work by keys that differ and share a column."""

from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.keys.key_columns import key_columns
from odfbuild.sql.text.steps import steps_of
from tests.rule.check import check_number, numbered
from tests.rule.shapes.shape import Shape, T, windowed

SHARED = (
    Shape(
        "groups of finer groups",
        f"select k, max({T}) as {T}, max(s) as m from "
        f"(select k, n, max({T}) as {T}, sum(m) as s from a group by k, n) group by k",
    ),
    Shape(
        "finer groups of groups",
        f"select k, s, max({T}) as {T} from "
        f"(select k, max({T}) as {T}, sum(m) as s from a group by k) group by k, s",
    ),
    Shape(
        "finer groups of a join",
        f"select max(a.{T}) as {T}, a.k, a.n, sum(w) as s from a join b on a.k = b.k "
        "group by a.k, a.n",
    ),
    Shape(
        "left join of finer groups",
        f"select q.{T}, q.k, q.n, w from (select k, n, max({T}) as {T} from a group by k, n) q "
        "left join b on q.k = b.k",
    ),
    Shape(
        "join of groups by more than their key",
        f"select q.{T}, q.k, q.n, w from (select k, max(n) n, max({T}) as {T} from a group by k) "
        "q left join b on q.k = b.k and q.n = b.w",
    ),
    Shape(
        "groups of groups by keys that overlap",
        f"select k, m, max({T}) as {T}, max(n) as x from "
        f"(select k, m, n, max({T}) as {T} from a group by k, m, n) group by k, m",
    ),
    Shape(
        "partitions of partitions",
        f"select {T}, k, m, sum(m) over (partition by k) as s, "
        "sum(m) over (partition by k, m) as t from a",
    ),
    windowed(
        "windows of a join",
        f"select window.start as {T}, k, count(*) as c from (select a.{T}, a.k from a join b "
        f"on a.k = b.k) group by window({T}, '1 hour'), k",
    ),
)  # fmt: skip
_EACH = pytest.mark.parametrize("shape", SHARED, ids=str)


@_EACH
def test_a_step_works_by_the_columns_that_are_shared(shape: Shape) -> None:
    known = {name: from_arrow(each) for name, each in numbered(shape, 0).schemas.items()}
    found = key_columns(steps_of(shape.transform), known)
    assert found is not None
    assert "k" in found.inputs["a"]


@pytest.mark.spark
@_EACH
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    check_number(engine, tmp_path, shape, 0)


@pytest.mark.spark
@pytest.mark.slow
@_EACH
def test_every_step_of_many_histories_does(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    for number in range(1, 20):
        check_number(engine, tmp_path, shape, number)
