"""A query of the class `state` in two texts: what rows count, and what is made of the numbers."""

import pytest

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.aggregates.accumulators import (
    AccumulatedValue,
    Accumulators,
    accumulators,
)
from odfbuild.sql.analysis.engine_revisions import affected
from odfbuild.sql.text.steps import QueryStep

INPUTS = {
    "a": parse_ddl(
        "event_time TIMESTAMP NOT NULL, k STRING, v INT, w BIGINT, x DOUBLE, n DECIMAL(10,2), "
        "big DECIMAL(30,2), mid DECIMAL(20,2), s STRUCT<k: STRING>"
    ),
    "b": parse_ddl("event_time TIMESTAMP NOT NULL, k STRING, z INT"),
    "c": None,
}


def of(*texts: str | tuple[str, str]) -> Accumulators | None:
    steps = [
        QueryStep(*each) if isinstance(each, tuple) else QueryStep(None, each) for each in texts
    ]
    return accumulators(steps, INPUTS)


def told(*texts: str | tuple[str, str]) -> tuple[str, str]:
    """Return both texts, with single blanks."""
    found = of(*texts)
    assert found is not None
    rows, result = (" ".join(each.text.split()) for each in (found.rows, found.result))
    return rows.replace("`", ""), result.replace("`", "")


SUM = "IF(__odf_c0 = 0, NULL, CAST(__odf_s0 AS BIGINT))"
TEXTS = {
    "select k, sum(v) as s from a group by k": (
        "select k AS __odf_k0, v AS __odf_a0 from a",
        f"SELECT __odf_k0 AS k, {SUM} as s FROM __odf_groups",
    ),
    "with q as (select * from a) select upper(q.k) u, count(*) from q where v > 1 "
    "group by upper(q.k) -- by name": (
        "with q as (select * from a) select upper(q.k) AS __odf_k0 from q where v > 1",
        "SELECT __odf_k0 u, __odf_n AS count(1) FROM __odf_groups",
    ),
    "select v % 10 as d, min(x) + max(x) as y from a group by d": (
        "select v % 10 AS __odf_k0, x AS __odf_a0 from a",
        "SELECT __odf_k0 as d, __odf_l0 + __odf_h0 as y FROM __odf_groups",
    ),
    "select k, count(v) filter (where w > 1) as c from a group by 1": (
        "select k AS __odf_k0, CASE WHEN (w > 1) THEN v END AS __odf_a0 from a",
        "SELECT __odf_k0 AS k, __odf_c0 as c FROM __odf_groups",
    ),
    "select t.k, sum(v) as s from a as t group by k having s > 1 or count(*) = 2": (
        "select k AS __odf_k0, v AS __odf_a0 from a as t",
        f"SELECT k, s FROM (SELECT __odf_k0 AS k, {SUM} as s, __odf_groups.* FROM __odf_groups) "
        "WHERE (s > 1 or __odf_n = 2)",
    ),
    "select s * 2 as t from (select k, sum(v) as s from a group by k) where s > 1": (
        "select k AS __odf_k0, v AS __odf_a0 from a",
        f"select s * 2 as t from (SELECT __odf_k0 AS k, {SUM} as s FROM __odf_groups ) where s > 1",
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_group_is_told_in_two_texts(text: str) -> None:
    assert told(text) == TEXTS[text]


def test_steps_before_the_group_and_behind_it_are_left_as_they_are() -> None:
    steps: list[str | tuple[str, str]] = [
        ("x", "select k, v + 1 as y from a"),
        ("g", "select k, sum(y) as s from x group by k"),
        "select k, s from g where s > 2",
    ]
    found = of(*steps)
    assert found is not None
    assert (found.step, found.keys) == (1, 1)
    assert told(*steps)[0] == "select k AS __odf_k0, y AS __odf_a0 from x"


def test_equal_arguments_are_kept_once() -> None:
    found = of(
        "select k, sum(n) as s, avg(n) as m, min(n) as lo, count(n) as c, max(x) from a group by k"
    )
    assert found is not None
    assert found.kept == (
        AccumulatedValue(scale=2, least=True, greatest=False),
        AccumulatedValue(scale=None, least=False, greatest=True),
    )


WITHOUT = {
    "qualified": "select k, builtin.max(v) as m from a group by k",
    "qualified twice": "select k, system.builtin.count(v) as m from a group by k",
    "a sum that may overflow on the way": "select k, sum(big) as s from a group by k",
    "an average of too many digits": "select k, avg(mid) as s from a group by k",
    "a sum of doubles": "select k, sum(x) as s from a group by k",
    "an average of integers": "select k, avg(v) as s from a group by k",
    "an argument whose type is not known": "select k, sum(y) as s from c group by k",
    "another aggregate": "select k, count(distinct v) as s from a group by k",
    "several arguments": "select k, count(v, w) as s from a group by k",
    "a name that only the engine knows": "select k, min(v) filter (where w > 1) from a group by k",
    "an alias of an earlier item": "select k, sum(v) as s, s + 1 as t from a group by k",
    "a name that is an alias or a column": "select upper(k) as y, count(*) c from c group by y",
    "an aggregate of an alias": "select k, sum(v) as w from a group by k having sum(w) > 1",
    "an event-time window": "select window.start, sum(v) as s from a "
    "group by window(event_time, '1 day')",
    "a common table around it": "with q as (select k, sum(v) as s from a group by k) "
    "select * from q",
    "several groups": "select k, max(s) as m from (select k, sum(v) as s from a group by k) "
    "group by k",
    "a place that there is not": "select max(k) as k, sum(v) as s from a group by 7",
    "a place before the first": "select max(k) as k, sum(v) as s from a group by 0",
    "a place below zero": "select max(k) as k, sum(v) as s from a group by -1",
    "a place behind a key": "select k, sum(v) as s from a group by k, 99",
    "a query that cannot be read": "select k fro a where",
}


@pytest.mark.parametrize("why", WITHOUT)
def test_what_cannot_be_told_so_is_left_to_keys(why: str) -> None:
    assert of(WITHOUT[why]) is None


def test_a_place_in_the_texts_leads_back_to_the_query() -> None:
    text = "select k, sum(cast(k as int)) as s from a group by k having count(*) > length(k)"
    found = of(text)
    assert found is not None
    result = found.result
    assert text[result.origin(result.text.index("length")) :].startswith("length")
    assert text[found.rows.origin(found.rows.text.rindex(" from")) :].startswith(" from a")


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("max(x)", True),
        ("min(y)", True),
        ("max(v + 1)", True),
        ("count(-x)", True),
        ("max(-x)", False),
        ("min(cast(v as double))", False),
        ("max(array(x))", False),
        ("max(struct(x))", False),
    ],
)
def test_zeros_that_a_query_makes_are_not_kept(value: str, is_kept: bool) -> None:
    """What is kept has one zero, and -0.0 may come out as a text."""
    text = f"select k, {value} as r from (select k, v, x, x as y from a) group by k"
    assert (of(text) is not None) is is_kept
    cause = affected([QueryStep(None, text)], INPUTS, "4.3.0+odfbuild.1")
    assert (cause is None) is is_kept
