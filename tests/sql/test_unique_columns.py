"""Columns of which a result has one row each: keys of its outermost groups, if it has them."""

import pytest

from odfbuild.odf.events import SqlQueryStep, TransformSql
from odfbuild.sql.analysis.keys.unique import unique_columns
from odfbuild.sql.text.steps import steps_of

_BY_HOUR = "select date_trunc('hour', t) as t, count(*) as n from a group by"


@pytest.mark.parametrize(
    ("query", "unique"),
    [
        ("select max(t) as t, k, count(*) as n from a group by k", "k"),
        ("select max(t) as t, upper(k) as u, k as j from a group by k, upper(k)", "j u"),
        ("select max(t) as t, upper(k) as u from a group by u", "u"),
        (f"{_BY_HOUR} date_trunc('hour', t)", "t"),
        (f"{_BY_HOUR} 1", "t"),
        ("select max(a.t) as t, a.k from a join b on a.k = b.k group by k", "k"),
        ("select max(t) as t, upper(k) from a group by upper(k)", ""),
        ("select max(t) as t from a group by k", ""),
        ("select max(t) as t, k from a group by k, m", ""),
        ("select max(t) as t, k from a group by rollup (k)", ""),
        ("select max(t) as t, k, explode(array(1, 2)) as e from a group by k", ""),
        ("select t, k from a", ""),
        ("select window.start as t, k from a group by window(t, '1 day'), k", "t k"),
        ("select tumble_end(t, interval '1' day) as t from a group by tumble(t, interval '1' day)",
         "t"),
        ("select session_window.end as t from a group by session_window(t, '1 day')", "t"),
        ("select max(t) as t, k from a group by window(t, '1 day'), k", ""),
        ("select t, u as v from (select max(t) as t, upper(k) as u from a group by 2) where u > ''",
         "v"),
        ("select t from (select max(t) as t, upper(k) as u from a group by 2)", ""),
        ("with g as (select max(t) as t, k from a group by k) select * from g", "k"),
        ("with g as (select max(t) as t, k from a group by k) select * except (k) from g", ""),
        ("with g as (select max(t) as t, k from a group by k) select g.* from g, a", ""),
        ("select max(t) as t, k from a group by k union all select t, k from b", ""),
    ],
)  # fmt: skip
def test_keys_of_groups_are_unique(query: str, unique: str) -> None:
    found = unique_columns(steps_of(TransformSql(engine="spark", query=query)))
    assert found == tuple(unique.split())


def test_keys_of_an_earlier_step_are_unique() -> None:
    steps = (
        SqlQueryStep(query="select upper(k) as u, max(t) as t from a group by 1", alias="g"),
        SqlQueryStep(query="select * from g where u <> 'x'"),
    )
    assert unique_columns(steps_of(TransformSql(engine="spark", queries=steps))) == ("u",)
