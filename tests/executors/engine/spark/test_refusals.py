"""What is refused of a query for its form is what Spark's analyser refuses, over drawn queries."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.columns import columns_of
from odfbuild.sql.findings import Reason
from odfbuild.sql.spark_functions import ALLOWED
from odfbuild.sql.text.shape import Call, Select
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.sql.text.tree_values import FORMS
from tests.support.effort import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = examples(20, 1_000)
COLUMNS = "k STRING, v INT, n INT"


@pytest.fixture(scope="module")
def session(engine: SparkEngine) -> "Iterator[SparkSession]":
    session = engine._sessions.session(StepSize.SMALL)
    session.createDataFrame([], COLUMNS).createOrReplaceTempView("a")
    session.createDataFrame([], COLUMNS).createOrReplaceTempView("b")
    yield session
    for name in ("a", "b"):
        session.catalog.dropTempView(name)


_NUMBERS = [
    "0",
    "1",
    "-1",
    "1 + 1",
    "n",
    "n + 1",
    "cast(2 as int)",
    "1L",
    "1S",
    "cast(1 as bigint)",
]
_CALLS = st.one_of(
    st.sampled_from(["rank()", "dense_rank()", "percent_rank()", "cume_dist()", "row_number()"]),
    st.sampled_from(["sum(v)", "first(v)", "count(*)", "max(v)", "lag(v)", "lead(v) ignore nulls"]),
    st.sampled_from(["sum(distinct v)", "count(distinct v, n)", "upper(k)", "abs(v)", "concat(k)"]),
    st.sampled_from(["sum(v) filter (where v > 1)", "max(v) filter (where max(n) > 1)"]),
    st.builds("{}(v, {})".format, st.sampled_from(["lag", "lead"]), st.sampled_from(_NUMBERS)),
    st.builds("lag(v, {}, n)".format, st.sampled_from(_NUMBERS)),
    st.builds("nth_value(v, {})".format, st.sampled_from(_NUMBERS)),
    st.builds("ntile({})".format, st.sampled_from(_NUMBERS)),
)
_BOUNDS = ["unbounded preceding", "2 preceding", "-1 preceding", "0 preceding", "current row"]
_BOUNDS += ["n preceding", "1.5 preceding", "1 + 1 preceding", "'1' preceding", "n + 1 following"]
_BOUNDS += ["1 following", "-2 following", "unbounded following"]
_FRAMES = st.one_of(
    st.just(""),
    st.sampled_from(
        ["rows unbounded preceding", "range between unbounded preceding and current row"]
    ),
    st.builds("{} {}".format, st.sampled_from(["rows", "range"]), st.sampled_from(_BOUNDS[:5])),
    st.builds(
        "{} between {} and {}".format,
        st.sampled_from(["rows", "range"]),
        st.sampled_from(_BOUNDS),
        st.sampled_from(_BOUNDS),
    ),
)


@st.composite
def windows(draw: st.DrawFn) -> str:
    """Draw a window: keys, an order and a frame, or none of them."""
    parts = [
        draw(st.sampled_from(["", "partition by k"])),
        draw(st.sampled_from(["", "order by n", "order by n desc", "order by n, v"])),
    ]
    return " ".join((*parts, draw(_FRAMES))).strip()


@st.composite
def window_queries(draw: st.DrawFn) -> str:
    call = draw(_CALLS)
    over = draw(windows())
    item = draw(st.sampled_from(["{}", "1 + {}", "case when k = 'x' then {} end"]))
    if draw(st.booleans()):
        return f"select {item.format(f'{call} over w')} as x from a window w as ({over})"
    source = draw(st.sampled_from(["a", "(select * from a)"]))
    return f"select {item.format(f'{call} over ({over})')} as x from {source}"


_ROWS = ["upper(k) filter (where v > 1)", "max(v) filter (where sum(n) over () > 1)", "max(v)"]
_ROWS += ["max(v) filter (where v > 1)", "max(v) filter (where min(n) > 1)", "count(*)"]


@st.composite
def placed_queries(draw: st.DrawFn) -> str:
    """Draw windows and filters where they may stand, and where they may not."""
    over = "row_number() over (order by n)"
    clause = draw(st.sampled_from(["where", "group by v having", "qualify", ""]))
    condition = draw(st.sampled_from([f"{over} = 1", f"1 + {over} > v", "v > 1", "max(v) > 1"]))
    if not clause:
        return f"select {draw(st.sampled_from(_ROWS))} as x from a group by k"
    if "having" in clause:
        return f"select v, max(n) as x from a {clause} {condition}"
    return f"select v, {over} as x from a {clause} {condition}"


_ITEMS = ["k", "v", "v as m", "1 as one", "max(v) as m", "count(*) as c", "max(v) + 1 as p"]
_ITEMS += ["sum(max(v)) as s", "max(abs(min(v))) as s", "sum(count(*)) over () as s"]
_ITEMS += ["max(sum(v) over ()) as s", "sum(max(v)) over (order by min(n)) as s"]
_ITEMS += ["grouping(k) as g"]
_KEYS = ["", "", "group by k", "group by v", "group by k, v", "group by 1", "group by k, 2"]
_KEYS += ["group by cube(k, 3)", "group by grouping sets ((k), (-1))", "group by rollup(v)"]
_LENGTHS = ["1 hour", "0 hours", "90 minutes", "1 day 2 hours", "hour", "1 huor", ""]
_COUNTS = ["0", "2", "-1", "1L", "1.5", "'1'", "1 + 1", "v", "all", "3000000000"]
_HAVINGS = ["", "", "having true", "having 1 = 1", "having max(v) > 1", "having count(*) > 0"]


@st.composite
def group_queries(draw: st.DrawFn) -> str:
    items = draw(st.lists(st.sampled_from(_ITEMS), min_size=1, max_size=3, unique=True))
    key, having = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_HAVINGS))
    return f"select {', '.join(items)} from a {key} {having}".strip()


@st.composite
def numbered_queries(draw: st.DrawFn) -> str:
    """Draw positions in ORDER BY, counts of rows and lengths of windows."""
    if draw(st.booleans()):
        lengths = draw(st.lists(st.sampled_from(_LENGTHS), min_size=1, max_size=2))
        window = ", ".join(f"'{each}'" for each in lengths)
        return f"select count(*) as c from a group by window(cast(k as timestamp), {window})"
    source = draw(st.sampled_from(["a", "a union all select k, v from b"]))
    order = draw(st.sampled_from(["", "order by 1, 2", "order by 3", "order by k, 0"]))
    clause = draw(st.sampled_from(["", "limit {}", "limit 7 offset {}"]))
    more = clause.format(draw(st.sampled_from(_COUNTS)))
    return f"select k, v from {source} {order} {more}"


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


@settings(deadline=None, max_examples=EXAMPLES)
@given(
    st.one_of(window_queries(), placed_queries(), group_queries(), nested_queries())
    | numbered_queries()
)
def test_a_form_is_refused_where_spark_refuses_it(session: "SparkSession", query: str) -> None:
    from pyspark.errors import AnalysisException

    found = list(misuses([QueryStep(None, query)]))
    try:
        session.sql(query).schema  # noqa: B018 - analyses it
    except AnalysisException as error:
        assert found, f"{query}: {error.getCondition()}"
    else:
        assert not found, query


OPERATORS = {"and", "or", "not", "between", "div", "like", "ilike", "rlike", "regexp", "in", "mod"}
"""Functions whose names are also operators: what is in parentheses is no list of theirs."""
QUANTIFIERS = {"any", "some", "exists", "every"}
WITH_UNITS = {"date_add", "date_diff", "dateadd", "datediff"}
"""Functions that take three arguments where the first is the word of a unit, which null is not."""
NUMBERED = (
    ALLOWED
    - {*FORMS.values(), "extract", "listagg", "string_agg"}
    - OPERATORS
    - QUANTIFIERS
    - WITH_UNITS
)


@settings(deadline=None, max_examples=2 * EXAMPLES)
@given(st.sampled_from(sorted(NUMBERED)), st.integers(0, 8))
def test_numbers_of_arguments_are_those_of_the_registry(
    session: "SparkSession", name: str, count: int
) -> None:
    query = f"select {name}({', '.join(['null'] * count)}) as x from a"
    with suppress(SqlTextError):
        shape = QueryStep(None, query).statement.shape  # else it is refused as no query
        assert isinstance(shape, Select)
        call = shape.outputs[0].value
        if isinstance(call, Call) and call.name == name:  # else the parser has a form for the name
            _agrees(session, query)


def _agrees(session: "SparkSession", query: str) -> None:
    from pyspark.errors import ParseException, PySparkException

    refused = [f for f in misuses([QueryStep(None, query)]) if f.reason is Reason.ARGUMENTS]
    condition = ""
    try:
        session.sql(query).schema  # noqa: B018 - analyses it
    except ParseException:  # an operator, or a form with words for commas
        return
    except PySparkException as error:  # some functions look at the values of constants, too
        condition = str(error.getCondition())
    assert bool(refused) == condition.startswith("WRONG_NUM_ARGS"), (query, condition)


_TYPED = "b BOOLEAN, v INT, g DOUBLE, c DECIMAL(12,2), k STRING, d DATE, t TIMESTAMP"
_TEXTS = ["2031-13-01", "2031-02-30", "2031-02-03", "x", "now", "2031/01/01", "2031", "12:00"]
_TEXTS += ["2031-02-28T10:00:00Z", "2031-02-30 10:00", " 2031-01-01 "]
_NUMERALS = [
    "7",
    " -7 ",
    "+7",
    "x",
    "",
    "NaN",
    "-inf",
    ".5",
    "1e2",
    "7.5",
    "7L",
    "7d",
    "5.",
    "0x1F",
    "1 2",
]
_PATTERNS = ["%", r"%\\", r"a\\b", r"\\%", r"\\\\", "!", "%!%", "a!b", "!!"]
_DIGITS = ["1", "-1", "1L", "1S", "1.5", "'1'", "cast(1 as int)"]
_VALUES = st.one_of(
    st.builds(
        "{} {} '{}'".format,
        st.sampled_from("dtk"),
        st.sampled_from(["=", "<", "<>", "<=>", ">="]),
        st.sampled_from(_TEXTS),
    ),
    st.builds("'{}' < {}".format, st.sampled_from(_TEXTS), st.sampled_from("dtk")),
    st.builds(
        "{} {} '{}'".format,
        st.sampled_from("vgc"),
        st.sampled_from(["=", "<", "<>", "<=>", ">="]),
        st.sampled_from(_NUMERALS),
    ),
    st.builds("{} between '0' and '{}'".format, st.sampled_from("vgc"), st.sampled_from(_NUMERALS)),
    st.builds("v in ('{}', 1)".format, st.sampled_from(_NUMERALS)),
    st.builds("{} in ('{}', '2031-01-01')".format, st.sampled_from("dt"), st.sampled_from(_TEXTS)),
    st.builds(
        "cast('{}' as {})".format, st.sampled_from(_TEXTS), st.sampled_from(["date", "timestamp"])
    ),
    st.builds(
        "cast('{}' as {})".format,
        st.sampled_from(_NUMERALS),
        st.sampled_from(["int", "bigint", "double"]),
    ),
    st.builds("{}(c, {})".format, st.sampled_from(["ceil", "floor"]), st.sampled_from(_DIGITS)),
    st.builds(
        "{} between '{}' and '2031-01-01'".format, st.sampled_from("dt"), st.sampled_from(_TEXTS)
    ),
    st.builds(
        "k {} '{}'{}".format,
        st.sampled_from(["like", "not like", "ilike"]),
        st.sampled_from(_PATTERNS),
        st.sampled_from(["", " escape '!'"]),
    ),
    st.builds("try_cast(k as decimal({},{}))".format, st.integers(1, 40), st.integers(0, 40)),
)
_UNIONS = st.builds(
    "select {} as x from a {} select {} as x from a".format,
    st.sampled_from("bvgckdt"),
    st.sampled_from(["union all", "union", "except", "intersect"]),
    st.sampled_from("bvgckdt"),
)


@pytest.fixture(scope="module")
def row(engine: SparkEngine) -> "Iterator[SparkSession]":
    session = engine._sessions.session(StepSize.SMALL)
    names = [each.split() for each in _TYPED.split(", ")]
    given = ["true", "1", "1.5", "2.5", "'a'", "'2031-01-01'", "'2031-01-01'"]
    casts = (f"cast({v} as {kind}) as {n}" for v, (n, kind) in zip(given, names, strict=True))
    session.sql(f"select {', '.join(casts)}").createOrReplaceTempView("one")
    yield session
    session.catalog.dropTempView("one")


@settings(deadline=None, max_examples=examples(40, 1_000))
@given(_VALUES.map("select {} as x from a".format) | _UNIONS)
def test_constants_and_types_that_are_refused_fail_in_spark(
    row: "SparkSession", query: str
) -> None:
    from pyspark.errors import PySparkException

    found = columns_of([QueryStep(None, query)], {"a": parse_ddl(_TYPED)}).wrong_constants
    try:
        rows = row.sql(query.replace("from a", "from one"))
        rows.schema if " select " in query else rows.collect()
    except PySparkException as error:
        assert found, f"{query}: {error.getCondition()}"
    else:
        assert not found, query


_SHARES = ("0", "0.5", "1", "1.5", "-0.5", "2", "g", "g + 0")
_FORMS_OF_CONSTANTS = {
    "percentile(v, {})": _SHARES,
    "percentile_cont({}) within group (order by v)": _SHARES,
    "approx_count_distinct(v, {})": ("0.005", "0.1", "0.39", "0.5", "1", "0", "g"),
    "regexp_replace(k, 'a', 'b', {})": ("1", "2", "0", "-1", "v", "1 + v"),
    "round(g, {})": ("1", "-1", "1 + 1", "v"),
    "xpath_int(k, {})": ("'a/b'", "concat('a', '/b')", "k"),
    "mask(k, 'X', {})": ("'x'", "k"),
    "string_agg(k, {})": ("','", "k"),
    "mode({})": ("v", "v, true", "v, b"),
    "date_part({}, t)": ("'year'", "'YEAROFWEEK'", "'dow'", "'dow_iso'", "'secs'", "'yaer'", "k"),
    "extract({} from t)": ("year", "doy", "mins", "century", "isoyear", "seconds"),
    "k like 'a' escape {}": ("'!'", "'!!'", "''"),
    "{}": (
        *("127Y", "-128Y", "-129Y", "40000S", "1e308", "1e309", "9" * 38, "9" * 39),
        *("date '2031-02-28'", "date '2031-02-30'", "timestamp '2031-02-30 10:00'", "r.p", "r.q"),
        *("r['p']", "r['q']", "array(r).p", "array(r).q", "(r).q", "struct(1 as p).q"),
    ),
}
_WITH_CONSTANTS = sorted(
    f"select {form.format(each)} as x from c"
    for form, values in _FORMS_OF_CONSTANTS.items()
    for each in values
)


@pytest.mark.parametrize("query", _WITH_CONSTANTS)
def test_constants_are_refused_where_the_analyser_refuses_them(
    session: "SparkSession", query: str
) -> None:
    from pyspark.errors import PySparkException

    columns = f"{_TYPED}, r STRUCT<p: INT>"
    session.createDataFrame([], columns).createOrReplaceTempView("c")
    made = columns_of([QueryStep(None, query)], {"c": parse_ddl(columns)})
    found = [*made.wrong_constants, *made.unknown_columns]
    try:
        session.sql(query).schema  # noqa: B018 - analyses it
    except PySparkException:
        assert found, query
    else:
        assert not found, query
