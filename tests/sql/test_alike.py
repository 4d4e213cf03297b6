"""Queries that differ in numbers and strings only are examined once, and say what each would."""

from dataclasses import replace

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
    "select t, cast('{s}' as int), cast('\\u0061' as int) from x where a > {n}",
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


def test_a_length_that_is_no_text_stands_for_no_window_of_months() -> None:
    for length in ("", "1 month", "1 day"):
        text = f"select max(t) as t, window.end as e from x group by window(t, '{length}')"
        steps = (QueryStep(None, text),)
        assert examine_alike(steps, ["x"]) == examine(steps, ["x"])


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


SELECTS = [
    "select t, {e} as y, {f} as z from x where {g}",
    "select t, {e} from x where {f} and a % {n} = {m}",
    "select t, y from (select t, {e} as y from x) where y = {f}",
    "select t, `(a * 3)` as y from (select t, a * {n}, {e} as z from x)",
    "select max(t) as t, sum({e}) as y, count({f}) as n from x group by {n}",
    "select '{s}' as g, {e} as y, max(t) as t from x group by {n}, {f}, c having {g}",
    "select t, a from x union all select {e}, {n} from x",
    "select * from (select a, c, e from x) pivot (sum(e) for c in ('{s}' as p, '{z}', {n}))",
    "select t, y from x lateral view explode(array({e}, {n})) q as y",
    "select x.t, y.k from x join (select a as j, {e} as k from x) y on a = j and {f}",
    "select t, k.* from (select t, named_struct('{s}', {e}, '{z}', {n}) as k from x)",
]
EXPRESSIONS = """
    {n}; '{s}'; a * {n}; e * {n}; e + {n}; {n} / e; a / {n}; a div ({n}); e % {n};
    cast(e as decimal({n}, {m})); cast({n} as tinyint); {n}::tinyint; e * {n}::smallint;
    cast('{s}' as int); '{s}'::date; date '{s}'; decimal('{s}'); try_cast('{s}' as int);
    round(e, {n}); round(e, -{n}); ceil(e, {n}); to_number(c, '{s}'); percentile(a, {n});
    slice(array(a), {n}, {m}); array(a, e)[{n}]; sequence({n}, {m}, {n}); array({n}, {m});
    map('{s}', {n})['{z}']; named_struct('{s}', a, '{z}', c).a; from_json(c, 'a {s}').a;
    date_part('{s}', t); date_format(t, '{s}'); to_timestamp(c, '{s}'); trunc(d, '{s}');
    interval '{s}' day; interval '{s}' year to month; interval {n} hour; a in ({n}, {m});
    c like '%{s}'; c like '{s}' escape '{z}'; c rlike '{s}';
    regexp_extract(c, '{s}', {n}); regexp_replace(c, '{s}', '{z}', {n});
    split(c, '{s}')[{n}]; split_part(c, '{s}', {n}); t > '{s}'; d = '{s}'; '{s}' <= d;
    d between '{s}' and '{z}'; (d <> '{s}') = '{z}'; a > {n}; e < {n}; e = {n} * e;
    c = '{s}'; c <=> '{s}' || '{z}'; t >= '{s}'::date; if(a > {n}, '{s}', c);
    case when d > '{s}' then {n} else {m} end; nullif(d, '{s}');
    case d when '{s}' then e else {n} end; case when a = {n} then '{s}' else '{z}' end;
    concat(c, '{s}'); concat('{s}', '{z}'); concat_ws('{s}', c); c || '{s}';
    mask(c, '{s}'); transform(array(a), i -> i * {n}); stack({n}, a, a); typeof({n});
    hash({n}, '{s}')
"""
NUMBERS = """
    0 1 2 3 10 18 39 300 007 70000 123456789 3000000000 99999999999 1.5 0.25 2e3 1e400 5L 1.5D
    300Y 0x1F
"""
CONSTANTS = r"""
    2031-01-01 2031-13-01 2031 epoch 12:34 (a) [a %\\q yyyy YYYY INT STRING year second 9.9 99 0 1-2
    !! /1 \u0061 true
"""
SCHEMA = parse_ddl("t TIMESTAMP, a INT, c STRING, d DATE, e DECIMAL(10,2)")


@given(
    st.sampled_from(SELECTS),
    st.tuples(*[st.sampled_from([each.strip() for each in EXPRESSIONS.split(";")])] * 3),
    st.lists(
        st.tuples(
            *[st.sampled_from(NUMBERS.split())] * 2,
            *[STRINGS | st.sampled_from(CONSTANTS.split())] * 2,
        ),
        min_size=2,
        max_size=12,
    ),
)
def test_columns_are_those_that_each_would_have_alone(
    template: str, parts: tuple[str, str, str], drawn: list[tuple[str, str, str, str]]
) -> None:
    text = template.replace("{e}", parts[0]).replace("{f}", parts[1]).replace("{g}", parts[2])
    for n, m, s, z in drawn:
        steps = (QueryStep(None, text.format(n=n, m=m, s=s, z=z)),)
        assert examine_alike(steps, ["x"]) == examine(steps, ["x"])
        found, alone = columns_alike(steps, {"x": SCHEMA}), columns_of(steps, {"x": SCHEMA})
        assert _unplaced(found) == _unplaced(alone)


def _unplaced(found: QueryColumns) -> QueryColumns:
    outputs = found.outputs and tuple(replace(each, place=None) for each in found.outputs)
    return replace(found, outputs=outputs, places={})


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("a * 12 as b", "a * 45 as b", True),
        ("a * 12 as b", "a * 145 as b", False),
        ("a % 7 as b", "a % 0 as b", False),
        ("round(a, 1) as b", "round(a, 2) as b", False),
        ("case when a > 7 then 'c' end as b", "case when a > 8 then 'd' end as b", True),
        ("concat(a, '-7') as b", "concat(a, '-8') as b", True),
        ("replace(a, '-7') as b", "replace(a, '-8') as b", False),
        ("a > '2031-01-01' as b", "a > '2031-02-01' as b", True),
        ("a > '2031-01-01' as b", "a > '2031-02-30' as b", False),
        ("a = 'c' as b", "a = 'd' as b", True),
        ("a * 2 as `b c`", "a * 3 as `b c`", False),
    ],
)
def test_what_types_depend_on_is_kept(one: str, other: str, alike: bool) -> None:
    both = [skeleton(f"select {each} from x", typed=True) for each in (one, other)]
    assert (both[0] == both[1]) is alike


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
