"""Queries that differ in numbers and strings only are examined once, and say what each would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis import spark_refusals
from odfbuild.sql.analysis.facts import (
    are_alike,
    columns_alike,
    examine,
    examine_alike,
    names_operation,
)
from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.sql.text.parse import skeleton
from odfbuild.sql.text.steps import QueryStep

TEMPLATES = [
    "select t, a + {n} as b, concat(c, '{s}') as c from x where d > {n} and e <> '{s}'",
    "select {n}, '{s}', t from x",
    "select '{s}' as {s}, t from x",
    "select date '{s}' as d, cast('{s}' as date) as e, t from x",
    "select t, explode(split(a, '{s}')) as b from x union all select t, '{s}' from x",
    "select sum(a) as s from x group by b having count(1) > {n}",
    "select * from x limit {n}",
    "select b, '{s}' as c, sum(a) as s from x\n where d > {n}\n group by b having count(1) <> {n}",
    "select count(1) as n from x where c = '{s}' group by tumble(t, interval '{n}' day), b",
    "select a, rank() over (order by b + {n}) as r from x where c = '{s}' and d = {n}",
    "select a from x where a in (select a from x where c = '{s}' order by b)\nlimit {n}",
    "select distinct a, {n} as b from x where c = '{s}'\nunion select a, b from x -- {n}",
    "select op, `{s}` from x where rand({n}) > 0",
    "select a from x -- {s}\n where b = {n}",
    "select a from y where b = '{s}",
    "with y as (select t, '{s}' as b from x) select t, b from y where b like '%{s}%'",
]
STRINGS = st.sampled_from(["a", "b", "now", " Today ", "t", "x", "1", "", "it''s", "a\\tb"])


@given(
    st.lists(st.tuples(st.sampled_from(TEMPLATES), st.integers(0, 99), STRINGS), max_size=12),
    st.sampled_from([("x",), ("x", "y")]),
)
def test_what_is_said_is_what_each_would_say_alone(
    made: list[tuple[str, int, str]], inputs: tuple[str, ...]
) -> None:
    for template, number, string in made:
        steps = (QueryStep(None, template.format(n=number, s=string)),)
        assert examine_alike(steps, inputs) == examine(steps, inputs)


COLUMNS = [
    "select t, a + {n} as b, concat(c, '{s}') as c, if(d > 1, {n}, 1) as d from x",
    "select t, {n} as n, {n} * a as p, e + {n} as q from x where e <> '{s}'",
    "select t, named_struct('{s}', {n}) as s from x",
    "select t, '{s}' as {s} from x",
    "select t, map('{s}', {n}) as m, array({n}) as l, zz from x",
    "select * from (select a, c, e from x) pivot (sum(e) for c in ('{s}', '{n}'))",
    "select t, case when a > {n} then {n} else a end as v, cast('{s}' as int) as w from x",
]
FORMS = [
    "select t, a + {n} as b, '{s}' as '{s}' from x where d > {n}",
    "select a, c, sum(d) as d from x group by {n}, c",
    "select a, '{s}' as c, sum(d) as d from x group by a, {n} having sum(d) > {n}",
    "select a, lag(d, {n}) over (order by t) as l, ntile({n}) over (order by t) as n from x",
    "select sum(d) over (order by t rows between {n} preceding and {m} preceding) as s from x",
    "select sum(d) over w as s from x window w as (order by t rows between {n} following and {m} "
    "following)",
    "select a, sum(d) filter (where c = '{s}' and d > {n}) as s from x group by a",
    "select a from x where c = :{s} or d = {n}",
    "select a from x union all select {n}, '{s}' from x",
    "select substr(c, {n}, {m}) as c, concat(c, '{s}') as d, upper(c, '{s}') as e from x",
    "select a, op from x where op = {n}",
]


@given(
    st.lists(
        st.tuples(st.sampled_from(FORMS), st.integers(0, 4), st.integers(0, 4), STRINGS),
        max_size=12,
    )
)
def test_what_is_refused_is_what_each_would_be_alone(made: list[tuple[str, int, int, str]]) -> None:
    for template, number, other, string in made:
        steps = (QueryStep(None, template.format(n=number, m=other, s=string)),)
        found = list(misuses(steps))
        spark_refusals._SOUND.clear()
        assert found == list(misuses(steps))
        assert names_operation(steps, ("x",), "op") == examine(steps, ("x",), ("op",)).names_op


NUMBERS = st.sampled_from(
    ["7", "12", "3000000000", "1.5", "0.25", "2e3", "5L", "1.5D", "99999999999"]
)
SCHEMA = parse_ddl("t TIMESTAMP, a INT, c STRING, d INT, e DECIMAL(10,2)")


@given(st.lists(st.tuples(st.sampled_from(COLUMNS), NUMBERS, STRINGS), max_size=12))
def test_columns_are_those_that_each_would_have_alone(made: list[tuple[str, str, str]]) -> None:
    for template, number, string in made:
        steps = (QueryStep(None, template.format(n=number, s=string)),)
        found, alone = columns_alike(steps, {"x": SCHEMA}), columns_of(steps, {"x": SCHEMA})
        assert found.unknown_columns == alone.unknown_columns
        assert found.unknown == alone.unknown
        assert _columns(found) == _columns(alone)


def _columns(found: QueryColumns) -> object:
    return found.outputs and [(each.name, each.type, each.sources) for each in found.outputs]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("select a + 1 from x", "select a  +\n 22 from x", True),
        ("select 'a' as b from x", "select 'now' as b from x", False),
        ("select a from x", "select b from x", False),
        ("select a from x", "select `a` from x", False),
        ("select 1 from x", "select 'a' from x", False),
        ("select /*+ broadcast(x) */ a from x", "select a from x", False),
    ],
)
def test_texts_have_their_words_in_common_or_not(one: str, other: str, alike: bool) -> None:
    assert (skeleton(one) == skeleton(other)) is alike


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("a = 1 and b <> 'x' and c >= 2", "a = 22 and b <> 'it' and c >= 3", True),
        ("a = 1", "a = 3000000000", False),
        ("a = 1", "a = 1.5", False),
        ("a = 1", "a = 300Y", False),
        ("a = 1", "a = -1", False),
        ("a = 1", "1 = a", False),
        ("a like 'x'", "a like 'y'", False),
        ("a like 'x' escape '!'", "a like 'x' escape '!!'", False),
        ("a > date '2024-01-01'", "a > date '2024-13-01'", False),
        ("date_part('year', a) = 1", "date_part('yaer', a) = 1", False),
        ("s['p'] = 1", "s['q'] = 1", False),
    ],
)
def test_what_an_analyser_may_look_at_is_kept(one: str, other: str, alike: bool) -> None:
    both = [skeleton(f"select a from x where {each}", compared=True) for each in (one, other)]
    assert (both[0] == both[1]) is alike


def test_constant_columns_are_alike_and_group_by_their_number_is_not() -> None:
    text = "select {}, 'b' as d, sum(v) from x group by 1"
    texts = [text.format(first) for first in ("'c' as c", "1 as c")]
    same = "select 'd' as c, 'e' as d, sum(v) from x group by 1"
    assert skeleton(texts[0], compared=True) == skeleton(same, compared=True)
    assert skeleton(texts[0], compared=True) != skeleton(same[:-1] + "3", compared=True)
    assert skeleton(texts[0], compared=True) != skeleton(texts[1], compared=True)


def test_a_text_that_cannot_be_divided_into_words_has_no_skeleton() -> None:
    assert skeleton("select 'a from x") is None


def test_queries_of_one_template_are_alike_and_others_are_not() -> None:
    made = [[QueryStep(None, f"select a + {number} as b from x")] for number in range(10)]
    other = [[QueryStep(None, f"select a{number} as b from x")] for number in range(10)]
    assert are_alike(made)
    assert not are_alike(other)
