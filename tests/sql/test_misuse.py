"""What Spark refuses of a query for its form: found with its place, and nothing that is right."""

import pytest

from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import QueryStep

_TWO = "a subquery of 2 columns as one value"
WRONG = {
    "select k, v, sum(n) as s from a group by k": (Reason.UNGROUPED, "v"),
    "select k, sum(n) as s from a": (Reason.UNGROUPED, "k"),
    "select k, upper(v) as v2 from a group by k": (Reason.UNGROUPED, "v"),
    "select a.v, count(*) as c from a group by k": (Reason.UNGROUPED, "a.v"),
    "select * from (select v, max(n) as m from a group by k) q": (Reason.UNGROUPED, "v"),
    "with q as (select v, max(n) as m from a group by k) select * from q": (Reason.UNGROUPED, "v"),
    "select window.start, v, max(n) from a group by window(t, '1 day')": (Reason.UNGROUPED, "v"),
    "select case when k > 0 then v end as c from a group by k": (Reason.UNGROUPED, "v"),
    "select k from a where sum(n) > 1": (Reason.AGGREGATE, "sum() in WHERE"),
    "select a.k from a join b on max(a.n) = b.n": (Reason.AGGREGATE, "max() in ON"),
    "select count(*) as c from a group by max(n)": (Reason.AGGREGATE, "max() in GROUP BY"),
    "select k, n from a union all select k from b": (Reason.WIDTHS, "UNION of 2 and 1 columns"),
    "select k from a except (select k, n from b)": (Reason.WIDTHS, "EXCEPT of 1 and 2 columns"),
    "select k from a union select n from a union select k, n from b": (
        Reason.WIDTHS,
        "UNION of 1 and 2 columns",
    ),
    "select k from a having v > 1": (Reason.UNGROUPED, "k"),
    "select (select k, v from b) as x from a": (Reason.SUBQUERY, _TWO),
    "select k from a where v = (select k, v from b where v = (select 1))": (Reason.SUBQUERY, _TWO),
    "with q as (select 1), Q as (select 2) select * from q": (Reason.TWICE, "Q"),
    "select lag(v) over (partition by k) as x from a": (
        Reason.WINDOW,
        "lag() has no ORDER BY in its window",
    ),
    "select rank() over w as x from a window w as (partition by k)": (
        Reason.WINDOW,
        "rank() has no ORDER BY in its window",
    ),
    "select lead(v) over (order by k rows 1 preceding) as x from a": (
        Reason.WINDOW,
        "lead() has a frame",
    ),
    "select 1 + ntile(0) over (order by k) as x from a": (
        Reason.WINDOW,
        "ntile() counts from 1, but gets 0",
    ),
    "select lag(v, k) over (order by k) as x from a": (
        Reason.WINDOW,
        "the number in lag() is not a constant",
    ),
    "select max(n) as m from a group by 9": (
        Reason.POSITION,
        "GROUP BY 9, and the SELECT list has 1 column",
    ),
    "select k, max(n) as m from a group by k, 2": (
        Reason.POSITION,
        "GROUP BY 2, which is an aggregate",
    ),
    "select k, max(n) as m from a group by cube(k, 0)": (
        Reason.POSITION,
        "GROUP BY 0, and the SELECT list has 2 columns",
    ),
    "select k from a union all select k from b order by 2": (
        Reason.POSITION,
        "ORDER BY 2, and the SELECT list has 1 column",
    ),
    "select k, v from a order by k, -1": (
        Reason.POSITION,
        "ORDER BY -1, and the SELECT list has 2 columns",
    ),
    "select k from a order by k limit 1L": (
        Reason.POSITION,
        "a number of rows in LIMIT or OFFSET is not an INT",
    ),
    "select k from a order by k limit 3 offset -1": (
        Reason.POSITION,
        "LIMIT or OFFSET of -1 rows",
    ),
    "select * from (select k from a order by k limit n) q": (
        Reason.POSITION,
        "a number of rows in LIMIT or OFFSET is not a constant",
    ),
    "select k, grouping(k) as g from a group by k": (
        Reason.ARGUMENTS,
        "grouping() without GROUPING SETS, CUBE or ROLLUP",
    ),
    "select sum(n) as s from a group by window(t, 'month')": (
        Reason.ARGUMENTS,
        "window() has the length 'month'",
    ),
    "select sum(n) as s from a group by session_window(t, '0 minutes')": (
        Reason.ARGUMENTS,
        "session_window() has a length of 0",
    ),
    "select sum(n) as s from a group by hop(t, interval '2' hour, interval '1' hour)": (
        Reason.ARGUMENTS,
        "hop() has a step that is longer than the windows are",
    ),
    "select sum(n) over (order by v rows between 1L preceding and current row) as s from a": (
        Reason.WINDOW,
        "a bound of ROWS is not an INT",
    ),
    "select lag(n, 1e2) over (order by v) as s from a": (
        Reason.WINDOW,
        "the number in lag() is not an INT",
    ),
    "select k from a where k = :id": (Reason.UNFILLED, ":id"),
    "select k from a where k = ?": (Reason.UNFILLED, "?"),
    "select k from {{ table }}": (Reason.UNFILLED, "{{ }}"),
}
RIGHT = [
    "select k, max(n) as m from a group by 1 order by 2, 9L limit 1 + 1 offset 0",
    "select *, max(n) as m from a group by 9 order by k limit all",
    "select k, grouping(k) as g from a group by rollup(k)",
    "select sum(n) as s from a group by window(t, '1.5 seconds', '1 second', '-1 second')",
    "select sum(n) as s from a group by hop(t, interval '1' hour, interval '2' hour)",
    "select sum(n) as s from a group by session_window(t, if(k = 'x', '1 hour', '2 hours'))",
    "select k, sum(n) as s from a group by all",
    "select k as y, sum(n) as s from a group by y",
    "select upper(k) as y, sum(n) as s from a group by y",
    "select upper(k) as y, concat(k, 'x') as z, sum(n) as s from a group by 1",
    "select upper(k) as y, sum(n) as s from a group by upper(k)",
    "select z.k, sum(n) as s from a group by z",
    "select k, max(n) as m, m + 1 as o from a group by k",
    "select k, percentile_approx(n, 0.5) as p from a group by k",
    "select k, first_of_all(v) as p from a group by k",
    "select k, sum(n) over (partition by v) as s from a",
    "select k, rank() over (order by sum(n)) as r from a group by k",
    "select window.start, max(n) as m from a group by window(t, '1 day')",
    "select k, grouping_id() as g, count(*) as c from a group by rollup(k, v)",
    "select k, transform(collect_set(v), x -> x) as l from a group by k",
    "select k from a where n > (select max(n) from b)",
    "select k from a where exists (select 1 from b group by n having max(b.n) = a.n)",
    "select k, (select max(b.n) from b where b.k = a.k) as m from a",
    "select a.k, q.m from a, lateral (select max(b.n) as m, a.v as v2 from b) q",
    "select k, n from a union all by name select k from b",
    "select * from a union all select k from b",
    "select explode(map(k, n)) as (x, y) from a union all select k, n from b",
    "select inline(l) from a union all select k, n from b",
    "select k from a where k = '{{ :x ? }}' -- {{ ? :y",
    "select v:path.to.it as x, l[0]:y as y, '{}':z as z from a",
    "select 1 as k from a having true",
    "select count(*) as c from a having c > 0",
    "with q as (with p as (select 1) select * from p), p as (select 2) select * from q, p",
    "select (select max(k) from b) as x from a where (k, v) in (select k, v from b)",
    "select k from a where exists (select k, v from b)",
    "select lag(v, -1) over (order by k) as x, nth_value(v, 1) over w as y from a "
    "window w as (order by k rows 1 preceding)",
    "select rank() over (order by k rows unbounded preceding) as x from a",
    "select cume_dist() over (order by k range unbounded preceding) as x from a",
    "select first(v) over (partition by k rows 1 preceding) as x from a",
    "select k fro a",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_no_engine_carries_out_is_found(text: str) -> None:
    ((reason, name),) = [(each.reason, each.name) for each in misuses([QueryStep(None, text)])]
    assert (reason, name) == WRONG[text]


@pytest.mark.parametrize("text", RIGHT)
def test_what_may_be_right_is_left_alone(text: str) -> None:
    assert list(misuses([QueryStep(None, text)])) == []
