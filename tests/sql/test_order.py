"""What depends on the order of rows is decided by values, or refused with its name and place."""

import pytest

from odfbuild.odf.events import DataField, DataSchema, DataTypeFloat64, DataTypeInt32
from odfbuild.odf.events import DataTypeString as Text
from odfbuild.sql.analysis.facts import QueryFacts, diagnostics, examine
from odfbuild.sql.analysis.order import order_free_text, unordered
from odfbuild.sql.analysis.sums import Summand, cast_to, sums_of
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.steps import QueryStep

SCHEMA = DataSchema(
    (
        DataField("k", Text()),
        DataField("n", DataTypeInt32()),
        DataField("x", DataTypeFloat64()),
        DataField("t", Text()),
    )
)


def sent(text: str) -> str:
    """Return a query as the engine gets it; it is still one that can be read."""
    changed = order_free_text(read(text), sums_of([QueryStep(None, text)], {"i": SCHEMA})[0]).text
    read(changed)
    return changed


def refused(text: str) -> list[str]:
    sums = sums_of([QueryStep(None, text)], {"i": SCHEMA})[0]
    return [each.what.text for each in unordered(read(text), sums)]


FOLD = "CAST(NULL AS DOUBLE), (__odf_s, __odf_v) -> coalesce(__odf_s + __odf_v, __odf_v))"
SETTLED = {
    "select row_number() over (partition by k order by n desc) r from i": (
        "select row_number() over (partition by k order by n desc, struct(*)) r from i"
    ),
    "select lag(n, 1) ignore nulls over w, rank() over w from i window w as (order by n)": (
        "select lag(n, 1) ignore nulls over (order by n, struct(*)), rank() over w from i "
        "window w as (order by n)"
    ),
    "select first_value(n) over (order by t) from i": (
        "select first_value(n) over (order by t, struct(*)) from i"
    ),
    "select sum(n) over (order by t rows between 1 preceding and current row) from i": (
        "select sum(n) over (order by t, struct(*) rows between 1 preceding and current row) from i"
    ),
    "select k, row_number() over (order by count(*)) from i group by k, window(t, '1 day')": (
        "select k, row_number() over (order by count(*), k, window(t, '1 day')) from i "
        "group by k, window(t, '1 day')"
    ),
    "select collect_list(n) filter (where n > 1) c from i group by k": (
        "select sort_array(collect_list(n) filter (where n > 1)) c from i group by k"
    ),
    "select collect_set(n) over (partition by k) from i": (
        "select sort_array(collect_set(n) over (partition by k)) from i"
    ),
    "select listagg(k, ',') from i": "select listagg(k, ',') WITHIN GROUP (ORDER BY k) from i",
    "select listagg(k) within group (order by n desc) from i": (
        "select listagg(k) within group (order by n desc, k) from i"
    ),
    "select string_agg(distinct k) within group (order by k desc) from i": (
        "select string_agg(distinct k) within group (order by k desc) from i"
    ),
    "select max_by(n, t) from i": (
        "select max_by(n, IF((t) IS NULL, NULL, struct((t), (n)))) from i"
    ),
    "select max_by(n, t, 2) from i": (
        "select max_by(n, IF((t) IS NULL, NULL, struct((t), (n))), 2) from i"
    ),
    "select max(n) over (order by range, t rows 1 preceding) from (select *, x as range from i)": (
        "select max(n) over (order by range, t, struct(*) rows 1 preceding) "
        "from (select *, x as range from i)"
    ),
    "select max(n) over (order by n + rows rows between 1 preceding and current row) from i": (
        "select max(n) over (order by n + rows, struct(*) rows between 1 preceding and current row)"
        " from i"
    ),
    "select row_number() over (partition by rows order by range) r from i": (
        "select row_number() over (partition by rows order by range, struct(*)) r from i"
    ),
    "select k, n from i order by n limit all offset 2": (
        "select k, n from i order by n, 1, 2 limit all offset 2"
    ),
    "select * from i order by n desc limit 3 offset 1;": (
        "select * from i order by n desc, 1, 2, 3, 4 limit 3 offset 1;"
    ),
    "select i.* except (t), b.k kb from i join i b on i.n = b.n order by b.x limit 2": (
        "select i.* except (t), b.k kb from i join i b on i.n = b.n "
        "order by b.x, 1, 2, 3, 4 limit 2"
    ),
    "(select k, n from i) union all (select t, n from i) order by n offset 2": (
        "(select k, n from i) union all (select t, n from i) order by n, 1, 2 offset 2"
    ),
    "select k from i where n in (select n from i order by t limit length(k))": (
        "select k from i where n in (select n from i order by t, 1 limit length(k))"
    ),
    "select k from i qualify row_number() over (partition by k order by n) = 1": (
        "SELECT * EXCEPT (__odf_row1) FROM (select k, struct(*) AS __odf_row1 from i "
        "qualify row_number() over (partition by k order by n, __odf_row1) = 1)"
    ),
    "select * from i qualify avg(n) over w > 1 window w as (order by t rows 1 preceding)": (
        "SELECT * EXCEPT (__odf_row1) FROM (select *, struct(*) AS __odf_row1 from i qualify "
        "(CAST(sum(CAST(n AS DECIMAL(38, 0))) over (order by t, __odf_row1 rows 1 preceding) "
        "AS DOUBLE) / nullif(count(n) over (order by t, __odf_row1 rows 1 preceding), 0)) > 1 "
        "window w as (order by t rows 1 preceding))"
    ),
    "select n as u, k from i qualify lag(k) over (partition by u order by t desc) = 'p' "
    "order by t desc limit 2": (
        "SELECT * EXCEPT (__odf_row1) FROM (select n as u, k, struct(*) AS __odf_row1 from i "
        "qualify lag(k) over (partition by u order by t desc, __odf_row1) = 'p' "
        "order by t desc, 1, 2 limit 2)"
    ),
    "select k from i qualify 1 = ntile(2) over (order by n) union all select k from i": (
        "SELECT * EXCEPT (__odf_row1) FROM (select k, struct(*) AS __odf_row1 from i "
        "qualify 1 = ntile(2) over (order by n, __odf_row1)) union all select k from i"
    ),
    "select last_value(n) over (order by t desc, k desc) l, first(x) over w from i "
    "window w as (order by n range between 1 preceding and current row)": (
        "select min_by(n, struct((t ), (k ), struct(*))) over (order by t desc, k desc) l, "
        "min_by(x, struct((n), struct(*))) over w from i "
        "window w as (order by n range between 1 preceding and current row)"
    ),
    "select k, first(k), any_value(upper(k)) u from i group by k": (
        "select k, (k) AS `first(k)`, (upper(k)) u from i group by k"
    ),
    "select k, any_value(n), any_value(x, true) filter (where n > 1) x, "
    "1 + any_value(t) ignore nulls y, any_value(distinct n) from i group by k": (
        "select k, min(n) AS `any_value(n)`, min(x) filter (where n > 1) x, 1 + min(t) y, "
        "min(distinct n) AS `any_value(DISTINCT n)` from i group by k"
    ),
    "select max(n) over () m from (select any_value(n + 1) n from i) group by n": (
        "select max(n) over () m from (select min(n + 1) n from i) group by n"
    ),
    "select row_number() over (order by count(*)) r from i group by k, rollup(t, (n, x))": (
        "select row_number() over (order by count(*), k, t, n, x, grouping_id()) r from i "
        "group by k, rollup(t, (n, x))"
    ),
    "select upper(k) as u, n, row_number() over (order by count(*)) r from i group by 1, n": (
        "select upper(k) as u, n, row_number() over (order by count(*), upper(k), n) r from i "
        "group by 1, n"
    ),
    "select lag(n) over (w2) from i window w as (order by n), w2 as (w)": (
        "select lag(n) over (order by n, struct(*)) from i window w as (order by n), w2 as (w)"
    ),
    "select mode(n), mode(n, true), mode() within group (order by n) from i": (
        "select mode(n, true), mode(n, true), mode() within group (order by n) from i"
    ),
    "select sum(n), sum(cast(x as decimal(38, 6))), max(x), median(x) from i": (
        "select sum(n), sum(cast(x as decimal(38, 6))), max(x), median(x) from i"
    ),
    "select sum(x) from i": f"select aggregate(sort_array(collect_list(CAST(x AS DOUBLE))), {FOLD} "
    "from i",
    "select avg(distinct n) filter (where n > 1) a from i": (
        "select (CAST(sum(distinct CAST(n AS DECIMAL(38, 0))) filter (where n > 1) AS DOUBLE) "
        "/ nullif(count(DISTINCT n) filter (where n > 1), 0)) a from i"
    ),
    "select avg(n) over (order by t rows 1 preceding) a from i": (
        "select (CAST(sum(CAST(n AS DECIMAL(38, 0))) over (order by t, struct(*) rows 1 preceding) "
        "AS DOUBLE) / nullif(count(n) over (order by t, struct(*) rows 1 preceding), 0)) a from i"
    ),
    "select max_by(sum(x), max(n)) over () from i group by k": (
        f"select max_by(aggregate(sort_array(collect_list(CAST(x AS DOUBLE))), {FOLD}, "
        "IF((max(n)) IS NULL, NULL, struct((max(n)), "
        f"(aggregate(sort_array(collect_list(CAST(x AS DOUBLE))), {FOLD})))) over () "
        "from i group by k"
    ),
}


@pytest.mark.parametrize("text", SETTLED)
def test_values_decide_where_they_can(text: str) -> None:
    assert refused(text) == []
    assert sent(text) == SETTLED[text]


UNTOUCHED = [
    "select n from i limit all",
    "select `limit`, t.offset as offset from (select n as `limit`, x as offset from i) t "
    "where offset > 1 and t.limit = 2 order by t.limit, offset",
    "select * from (select k, n from i) pivot (sum(n) as s for k in ('a', 'b'))",
    "select rank() over (order by n), dense_rank() over (order by n) from i",
    "select sum(n) over (partition by k order by t) from i",
    "select sum(n) over (partition by k rows between unbounded preceding "
    "and unbounded following) from i",
    "select count(*), min(x), bool_and(n > 1), approx_count_distinct(x) from i group by k",
    "select * from i pivot (sum(cast(x as decimal(38, 6))), max(x) for k in ('a'))",
    "with pivot (k, s) as (select k, sum(n) from i group by k) select max(s) from pivot",
    "select n as first, k as `limit`, `first`.a from i where `last` > 1 order by n nulls last",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_what_depends_on_values_alone_stays_as_it_is(text: str) -> None:
    assert refused(text) == []
    assert sent(text) == text


REFUSED = {
    "select first(n) from i group by k": "first()",
    "select first_value(n) over (partition by k) from i": "first_value() over rows",
    "select nth_value(n, 2) over (order by t) from i": "nth_value() with rows of equal rank",
    "select first(n, true) over (order by t) from i": "first() with rows of equal rank",
    "select sum(n) over (partition by k rows 1 preceding) from i": "sum() over rows",
    "select row_number() over (w order by n) from i window w as (partition by k)": (
        "row_number() over rows"
    ),
    "select distinct k from i qualify row_number() over (order by n) = 1": (
        "row_number() behind the SELECT list"
    ),
    "select k from i order by row_number() over (order by n)": (
        "row_number() behind the SELECT list"
    ),
    "select last(n) over (order by t nulls last) from i": "last() with rows of equal rank",
    "select last(n) over (order by t, k desc) from i": "last() with rows of equal rank",
    "select last_value(n) over (partition by k) from i": "last_value() over rows",
    "select first(k) from i group by rollup(k)": "first()",
    "select first(concat(k, t)) from i group by k": "first()",
    "select *, row_number() over (order by k) from i group by 1": "row_number() over groups",
    "select row_number() over (order by n) from i group by all": "row_number() over groups",
    "select collect_list(n) over (order by t) from i": "collect_list() in an ordered window",
    "select mode(n, false) from i": "mode(), of two that are as frequent,",
    "select percentile_approx(n, 0.5) from i": "percentile_approx()",
    "select stddev(n) over (partition by k) from i": "stddev() in a window",
    "select * from i pivot (corr(n, x) for k in ('a'))": "corr() in a PIVOT",
    "select * from i pivot (sum(x) for k in ('a'))": "sum() of floating-point numbers in a PIVOT",
    "select try_sum(n) from i": "try_sum()",
    "select hll_sketch_agg(n) from i": "hll_sketch_agg()",
    "select sum(x) over (partition by k) from i": ("sum() of floating-point numbers in a window"),
    "select avg(from_json(k, 'a int').a) from i": "avg() of values of an unknown type",
    "select k from (select * from i) pivot (max(x), avg(from_json(k, 'a int').a) for k in ('a'))": (
        "avg() of values of an unknown type"
    ),
    "select any_value(n) ignore nulls from i group by k": "any_value() with words for nulls",
    "select * from i pivot (any_value(x), max(t) for k in ('a'))": "any_value()",
    "select n from i limit length('ab')": "LIMIT without ORDER BY",
    "select system.builtin.first(n) from i group by k": "first() by a qualified name",
    "select builtin . `row_number` () over (order by n) r from i": (
        "`row_number`() by a qualified name"
    ),
    "select distinct posexplode(array(n)), k from i order by k limit 3": (
        "LIMIT over columns that cannot be counted"
    ),
    "select inline /* structs */ (array(struct(n, k))) from i order by k limit 3": (
        "LIMIT over columns that cannot be counted"
    ),
    "select explode(map(n, k)), t from i order by t limit 3": (
        "LIMIT over columns that cannot be counted"
    ),
    "select n from i where n in (select n from i limit 1 offset 2)": "LIMIT without ORDER BY",
    "select n from (select n from i order by n) offset 2": "OFFSET without ORDER BY",
    "select n from i sort by n limit 3": "LIMIT without ORDER BY",
    "select n from i order by all limit 3": "LIMIT behind ORDER BY ALL",
    "select posexplode(array(x)) from i order by 1 limit 3": (
        "LIMIT over columns that cannot be counted"
    ),
    "select max(n) from i tablesample (10 percent)": "TABLESAMPLE",
    "select count(*) from i group by k collate unicode_ci": "COLLATE",
    "select max(collate(k, 'unicode_ci')) from i": "collate()",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_values_do_not_decide_is_refused_by_name(text: str) -> None:
    assert refused(text)[0] == REFUSED[text]


@pytest.mark.parametrize(
    "text",
    [t for t in REFUSED if "(x)" not in t and "from_json" not in t and "counted" not in REFUSED[t]],
)
def test_the_refusal_needs_no_types_and_tells_the_place(text: str) -> None:
    found = facts(text).about(Reason.ORDER)
    assert found[0].name == REFUSED[text]
    named = text[found[0].place.start :][: found[0].place.length]
    assert found[0].name.lower().startswith(named.lower())
    assert found[0].hint


def facts(text: str) -> QueryFacts:
    return examine([QueryStep(None, text)], ["i"])


def test_the_type_of_what_a_pivot_adds_up_is_that_of_its_source() -> None:
    text = "select * from (select k, n, x * 2 as y from i) pivot (sum(n), sum(y) for k in ('a'))"
    assert facts(text).about(Reason.ORDER) == ()  # without types
    assert refused(text) == ["sum() of floating-point numbers in a PIVOT"]
    assert refused(text.replace("sum(y)", "max(y)")) == []


def test_the_words_say_how_to_go_on() -> None:
    text = "select k,\n  first(n) from i group by k"
    found = diagnostics(facts(text), [Reason.ORDER])[0]
    assert found.code == "depends-on-order"
    assert found.what == "first() depends on the order of rows (line 2, column 3)"
    assert "max_by(x, event_time)" in (found.fix or "")


def test_a_window_that_no_group_names_is_refused() -> None:
    found = diagnostics(facts("select window(t, '1 day').start from i"), [Reason.LOOSE_WINDOW])
    assert [each.what for each in found] == [
        "window() is used outside of GROUP BY (line 1, column 8)"
    ]


def test_row_by_row_queries_are_not_looked_at() -> None:
    assert facts("select n, k as first from i where n > 1").findings == ()


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("cast(a.b as decimal(38, 6))", Summand.EXACT),
        ("CAST(f(a) AS\nBIGINT)", Summand.INTEGER),
        ("cast(a as double)", Summand.UNKNOWN),
        ("cast(a as int) / 2", Summand.UNKNOWN),
        ("a", Summand.UNKNOWN),
    ],
)
def test_a_cast_says_what_is_added_up(text: str, added: Summand) -> None:
    assert cast_to(text) is added


def test_an_earlier_step_says_what_a_later_one_adds_up() -> None:
    steps = [
        QueryStep("s", "select k, n, x * 2 as y from i"),
        QueryStep(None, "select sum(y) a, sum(n) from s"),
    ]
    first, second = sums_of(steps, {"i": SCHEMA})
    added = list(second.added.values())
    assert (dict(first.added), added) == ({}, [Summand.FLOATING, Summand.INTEGER])


def test_places_lead_back_into_the_text() -> None:
    text = "select max_by(n, t), collect_list(n) from i"
    changed = order_free_text(read(text), sums_of([QueryStep(None, text)], {})[0])
    assert changed.origin(changed.text.index("from i")) == text.index("from i")
