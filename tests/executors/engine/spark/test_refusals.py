"""What is refused of a query for its form is what Spark's analyser refuses, over drawn queries."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.text.steps import QueryStep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "k STRING, v INT, n INT"


@pytest.fixture(scope="module")
def session(engine: SparkEngine) -> "Iterator[SparkSession]":
    session = engine._sessions.session(StepSize.SMALL)
    session.createDataFrame([], COLUMNS).createOrReplaceTempView("a")
    session.createDataFrame([], COLUMNS).createOrReplaceTempView("b")
    yield session
    for name in ("a", "b"):
        session.catalog.dropTempView(name)


_NUMBERS = ["0", "1", "-1", "1 + 1", "n", "n + 1", "cast(2 as int)"]
_CALLS = st.one_of(
    st.sampled_from(["rank()", "dense_rank()", "percent_rank()", "cume_dist()", "row_number()"]),
    st.sampled_from(["sum(v)", "first(v)", "count(*)", "max(v)", "lag(v)", "lead(v) ignore nulls"]),
    st.builds("{}(v, {})".format, st.sampled_from(["lag", "lead"]), st.sampled_from(_NUMBERS)),
    st.builds("lag(v, {}, n)".format, st.sampled_from(_NUMBERS)),
    st.builds("nth_value(v, {})".format, st.sampled_from(_NUMBERS)),
    st.builds("ntile({})".format, st.sampled_from(_NUMBERS)),
)
_RANKS = ("rank", "dense_rank", "percent_rank", "row_number", "ntile", "cume_dist")
_FRAMES = ["rows unbounded preceding", "range between unbounded preceding and current row"]
_BOUND_FRAMES = ["rows between 1 preceding and current row", "rows 2 preceding"]
"""Frames of rows that ranks refuse too; only the kind of a frame is known."""


@st.composite
def windows(draw: st.DrawFn, call: str) -> str:
    """Draw a window: keys, an order and a frame, or none of them."""
    parts = [
        draw(st.sampled_from(["", "partition by k"])),
        draw(st.sampled_from(["", "order by n"])),
    ]
    rank = call.split("(", maxsplit=1)[0] in {
        "rank",
        "dense_rank",
        "percent_rank",
        "row_number",
        "ntile",
    }
    frames = ["", *_FRAMES, *([] if rank or call == "cume_dist()" else _BOUND_FRAMES)]
    return " ".join((*parts, draw(st.sampled_from(frames)))).strip()


@st.composite
def window_queries(draw: st.DrawFn) -> str:
    call = draw(_CALLS)
    over = draw(windows(call))
    item = draw(st.sampled_from(["{}", "1 + {}", "case when k = 'x' then {} end"]))
    if draw(st.booleans()):
        return f"select {item.format(f'{call} over w')} as x from a window w as ({over})"
    source = draw(st.sampled_from(["a", "(select * from a)"]))
    return f"select {item.format(f'{call} over ({over})')} as x from {source}"


_ITEMS = ["k", "v", "v as m", "1 as one", "max(v) as m", "count(*) as c", "max(v) + 1 as p"]
_HAVINGS = ["", "", "having true", "having 1 = 1", "having max(v) > 1", "having count(*) > 0"]


@st.composite
def group_queries(draw: st.DrawFn) -> str:
    items = draw(st.lists(st.sampled_from(_ITEMS), min_size=1, max_size=3, unique=True))
    key = draw(st.sampled_from(["", "", "group by k", "group by v", "group by k, v"]))
    having = draw(st.sampled_from(_HAVINGS))
    return f"select {', '.join(items)} from a {key} {having}".strip()


@st.composite
def nested_queries(draw: st.DrawFn) -> str:
    """Draw subqueries of one column or two, and the names of a WITH."""
    inner = draw(st.sampled_from(["max(k)", "max(k), max(v)", "max(k) as x, 1 as x", "count(*)"]))
    use = draw(st.sampled_from(["select ({}) as x from a", "select k from a where exists ({})"]))
    query = use.format(f"select {inner} from b")
    names = draw(st.lists(st.sampled_from(["p", "P", "q", "a"]), max_size=2))
    return f"with {', '.join(f'{n} as (select k, v from b)' for n in names)} {query}".removeprefix(
        "with  "
    )


@settings(deadline=None, max_examples=150)
@given(st.one_of(window_queries(), group_queries(), nested_queries()))
def test_a_form_is_refused_where_spark_refuses_it(session: "SparkSession", query: str) -> None:
    from pyspark.errors import AnalysisException

    found = list(misuses([QueryStep(None, query)]))
    try:
        session.sql(query).schema  # noqa: B018 - analyses it
    except AnalysisException as error:
        assert found, f"{query}: {error.getCondition()}"
    else:
        assert not found, query
