"""The incremental class of a query, and the clause that makes it so."""

import pytest

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.query_class import QueryClass
from odfbuild.sql.text.steps import QueryStep
from tests.sql.sql_cases import CASES

INPUTS = {
    "a": parse_ddl(
        "event_time TIMESTAMP NOT NULL, k STRING, d DATE, v INT, w BIGINT, x DOUBLE, "
        "n DECIMAL(10,2), l ARRAY<INT>, note STRING"
    ),
    "b": parse_ddl("event_time TIMESTAMP NOT NULL, k STRING, z INT"),
    "c": None,
}


def of(*texts: str | tuple[str, str]) -> QueryClass:
    steps = [
        QueryStep(*each) if isinstance(each, tuple) else QueryStep(None, each) for each in texts
    ]
    return query_class(steps, INPUTS)


LINEAR = [
    "select * from a",
    "select k, v + 1 as w from a where v > 1 and note like 'x%'",
    "select k, explode(l) as y from a",
    "select k, y from a lateral view outer explode(l) e as y",
    "select y from a, lateral explode(l) as e(y)",
    "select k from a union all (select k from b union all select k from c)",
    "with q as (select k, v from a) select transform(array(v), i -> i * 2) as t from q",
    "select k from (select k from (select k, v from a) where v > 1)",
    "select from_json(note, 'x int') as j, case when v > 1 then k end as y from a",
]
JOIN = [
    "select a.k, b.z from a join b on a.k = b.k",
    "select a.k, b.z from a, b where a.v > b.z",
    "select a.k from a cross join b",
    "select k from a join b using (k) join c using (k)",
    "select a.k from a join b on a.k = b.k join c on b.z = c.z",
    "select a.k from a join b on a.k = b.k union all select k from c",
    "select explode(a.l) as y from a join b on a.v < b.z where b.z > 1",
    "select q.k from (select a.k, b.z from a join b on a.k = b.k) q where q.z > 1",
]
STATE = [
    "select k, sum(v) as s from a group by k",
    "select k, count(*) as n, count(v) as m, min(x) as x, max(note) as y from a group by k",
    "select k, avg(n) as m from a group by k having count(*) > 1",
    "select k, sum(n + 1) as s from (select k, n from a where v > 1) group by k",
    "select k, sum(v) as s from a group by 1",
    "select k, sum(v) as s from a group by all",
    "select trunc(d, 'year') as t, sum(w) as s from a group by trunc(d, 'year')",
    "select k, s * 2 as t from (select k, sum(v) as s from a group by k) where s > 1",
    "select k, count(*) as n from (select k from a union all select k from b) group by k",
    "select k, sum(v) filter (where v > 1) as s from a group by k",
    "select k, count(*) as n from c group by k",
]
OVER = "a window function (OVER)"
KEYED = {
    "select k, sum(x) as s from a group by k": "GROUP BY",
    "select k, avg(v) as s from a group by k": "GROUP BY",
    "select k, sum(y) as s from c group by k": "GROUP BY",
    "select k, count(distinct v) as n from a group by k": "GROUP BY",
    "select k, collect_list(v) as n from a group by k": "GROUP BY",
    "select distinct k, v from a": "DISTINCT",
    "select k from a union select k from b": "UNION without ALL",
    "select k, row_number() over (partition by k order by v) as n from a": OVER,
    "select k from a qualify rank() over (partition by k order by v) = 1": OVER,
    "select k, lag(v) over w as p, sum(v) over w as s from a window w as (partition by k)": (OVER),
    "select k from (select k, rank() over (partition by k order by v) as r from a) where r < 4": (
        OVER
    ),
    "select a.k, b.z from a left join b on a.k = b.k": "LEFT JOIN",
    "select a.v, b.z from a right join b on a.k = b.k and a.v > 1": "RIGHT JOIN",
    "select a.v, b.z from a full join b on a.k = b.k": "FULL JOIN",
    "select a.v, z from a left join b on v = z": "LEFT JOIN",
    "select k from a left semi join b using (k)": "SEMI JOIN",
    "select a.k from a left anti join b on a.k = b.k": "ANTI JOIN",
    "select window.start, sum(v) as s from a group by window(event_time, '1 day')": (
        "an event-time window"
    ),
    "select k, count(*) as n from a group by k, session_window(event_time, '1 hour')": (
        "an event-time window"
    ),
    # several operators by the same key
    "select k, max(s) as m from (select k, sum(v) as s from a group by k) group by k": "GROUP BY",
    "select a.k, sum(b.z) as s from a join b on a.k = b.k group by a.k": "GROUP BY",
    "select b.k, sum(a.v) as s from a join b on a.k = b.k group by b.k": "GROUP BY",
    "select k, sum(z) as s from a join b using (k) group by k": "GROUP BY",
    "select a.k, count(*) as n from a left join b on a.k = b.k group by a.k": "GROUP BY",
    "select a.k from a left join b on a.k = b.k left join c on a.k = c.k": "LEFT JOIN",
    "select q.k, b.z from (select k, sum(v) as s from a group by k) q join b on q.k = b.k": "JOIN",
    "select distinct k from (select k, count(*) as n from a group by k)": "DISTINCT",
    "select k, sum(n) over (partition by k) as t from (select k, sum(v) as n from a group by k)": (
        OVER
    ),
    # several operators by keys that share a column
    "select k, max(s) as m from (select k, d, sum(v) as s from a group by k, d) group by k": (
        "GROUP BY"
    ),
    "select k, s from (select k, sum(v) as s from a group by k) group by k, s": "GROUP BY",
    "select a.k, a.v, sum(b.z) as s from a join b on a.k = b.k group by a.k, a.v": "GROUP BY",
    "select q.k, b.z from (select k, v from a group by k, v) q left join b on q.k = b.k": (
        "LEFT JOIN"
    ),
    "select q.k from (select k, max(v) as v from a group by k) q join b on q.k = b.k and v = z": (
        "JOIN"
    ),
    "select distinct k, n from (select k, count(*) as n from a group by k)": "DISTINCT",
    "select k, sum(v) over (partition by k) s, sum(v) over (partition by k, d) t from a": OVER,
}
WHOLE = {
    "select v, z from (select k, v, sum(v) over (partition by k) as s from a) q join b on v = z": (
        "JOIN with a window function (OVER) by another key"
    ),
    "select q.v, z from b left join (select k, v, rank() over (partition by k order by v) as r "
    "from a) q on q.v = b.z": "LEFT JOIN with a window function (OVER) by another key",
    "select sum(v) as s from a": "an aggregate without GROUP BY",
    "select k, sum(v) as s from a group by rollup(k)": "ROLLUP, CUBE or GROUPING SETS",
    "select k from a order by v": "ORDER BY",
    "select k from a limit 3": "LIMIT",
    "select k from a offset 3": "LIMIT",
    "select k from a distribute by k sort by v": "SORT BY, DISTRIBUTE BY or CLUSTER BY",
    "select k from a intersect select k from b": "INTERSECT",
    "select k from a except select k from b": "EXCEPT",
    "select row_number() over (order by v) as n from a": "a window function without PARTITION BY",
    "select k from a where k in (select k from b)": "a subquery in an expression",
    "select (select max(z) from b) as m from a": "a subquery in an expression",
    "select own_function(k) as f from a": "the function own_function()",
    "select rand() as r from a": "the function rand()",
    "select percentile_approx(v, 0.5) as p from a group by k": "the function percentile_approx()",
    "select window(event_time, '1 day') as w from a": "the function window()",
    "select a.k from a left join b on a.v > b.z": "LEFT JOIN without an equality of columns",
    "select * from a natural join b": "NATURAL JOIN",
    "select * from a for system_time as of event_time": "FOR SYSTEM_TIME AS OF",
    "select * from a tablesample (10 rows)": "TABLESAMPLE",
    "select * from (select k, v from a) pivot (sum(v) for k in ('x'))": "PIVOT",
    "select k from a, lateral (select a.v + 1 as y)": "LATERAL",
    "select id from range(3)": "a table function",
    "select 1 as one": "SELECT without FROM",
    "with recursive r as (select k from a union all select k from r) select k from r": (
        "WITH RECURSIVE"
    ),
    "select s, count(*) as n from (select k, sum(v) as s from a group by k) group by s": (
        "GROUP BY over GROUP BY by another key"
    ),
    "select d, max(s) m from (select k, sum(v) s, max(d) as d from a group by k) group by d": (
        "GROUP BY over GROUP BY by another key"
    ),
    "select a.d, sum(b.z) as s from a join b on a.k = b.k group by a.d": (
        "GROUP BY over JOIN by another key"
    ),
    "select b.k, count(*) as n from a left join b on a.k = b.k group by b.k": (
        "GROUP BY over LEFT JOIN by another key"
    ),
    "select q.k, b.z from (select k, sum(v) as s from a group by k) q join b on q.s = b.z": (
        "JOIN with GROUP BY by another key"
    ),
    "select k from (select k, count(*) as n from a group by k) union all select k from b": (
        "UNION over GROUP BY"
    ),
    "select k, rank() over (partition by k order by v) as r, "
    "rank() over (partition by d order by v) as s from a": f"{OVER} over {OVER} by another key",
    "select k fro a where": "the query cannot be read",
}


@pytest.mark.parametrize("text", LINEAR)
def test_projections_filters_generators_and_unions_are_linear(text: str) -> None:
    assert of(text) == QueryClass("linear")


@pytest.mark.parametrize("text", JOIN)
def test_inner_joins_of_linear_parts_are_joins(text: str) -> None:
    assert of(text) == QueryClass("join", "JOIN")


@pytest.mark.parametrize("text", STATE)
def test_exact_sums_by_key_go_on_from_a_state(text: str) -> None:
    assert of(text) == QueryClass("state", "GROUP BY")


@pytest.mark.parametrize(("text", "clause"), KEYED.items())
def test_operators_by_one_key_are_keyed(text: str, clause: str) -> None:
    assert of(text) == QueryClass("keyed", clause)


@pytest.mark.parametrize(("text", "clause"), WHOLE.items())
def test_all_else_is_whole_and_names_the_clause(text: str, clause: str) -> None:
    assert of(text) == QueryClass("whole", clause)


def test_steps_are_one_query() -> None:
    assert of(
        ("p", "select k, v from a where v > 1"), "select k, sum(v) as s from p group by k"
    ) == (QueryClass("state", "GROUP BY"))
    grouped = ("p", "select k, sum(v) as s from a group by k")
    assert of(grouped, "select s, count(*) as n from p group by s").name == "whole"
    assert of(grouped, "select k, s + 1 as t from p") == QueryClass("state", "GROUP BY")


def test_a_part_that_is_used_twice_has_other_columns_each_time() -> None:
    twice = "select x.k, count(*) as n from p x join p y on x.k = y.v group by y.k"
    assert of(("p", "select k, v from a"), twice).name == "whole"


def test_a_step_may_have_the_name_of_what_it_reads() -> None:
    assert of(("a", "select k, count(*) as n from a group by k"), "select k from a") == (
        QueryClass("state", "GROUP BY")
    )


def test_no_query_has_no_class_but_whole() -> None:
    assert of() == QueryClass("whole", "there is no query")


def test_parts_that_use_each_other_many_times_are_not_followed_forever() -> None:
    steps = [("s0", "select k from a")]
    steps += [
        (f"s{n}", f"select x.k from s{n - 1} x join s{n - 1} y on x.k = y.k") for n in range(1, 40)
    ]
    assert of(*steps, "select k from s39") == QueryClass("whole", "the size of the query")


@pytest.mark.parametrize("text", [case.query for case in CASES])
def test_a_linear_query_is_one_that_runs_row_by_row_today(text: str) -> None:
    steps = [QueryStep(None, text)]
    found = query_class(steps, dict.fromkeys(["trades", "rates"]))
    if found.name == "linear":
        facts = examine(steps, ["trades", "rates"])
        assert facts.is_linear or facts.kind in {"JOIN"}, facts.kind
