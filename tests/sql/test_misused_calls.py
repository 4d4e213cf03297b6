"""Calls that no engine takes: numbers of arguments, sums of no numbers, nested aggregates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.spark_refusals import misuses
from odfbuild.sql.analysis.typed_findings import typed_findings
from odfbuild.sql.arities import ARITIES
from odfbuild.sql.findings import words
from odfbuild.sql.spark_functions import ALLOWED
from odfbuild.sql.text.steps import QueryStep

FORMS = (
    "date_add(day, 1, t)", "datediff(day, a, b)", "trim(both ' ' from a)", "extract(year from t)",
    "substring(a from 1 for 2)", "position('a' in b)", "overlay(a placing b from 1)", "count(*)",
    "count(distinct a, b)", "struct(*)", "percentile_cont(0.5) within group (order by a)",
    "any_value(a) filter (where b)", "lag(a) over (order by b)", "last_value(a) ignore nulls",
)  # fmt: skip


def found(query: str) -> list[str]:
    return [words(each)[0] for each in misuses([QueryStep(None, query)])]


def test_each_function_of_the_table_is_known_and_takes_some_number() -> None:
    assert ARITIES.keys() <= ALLOWED
    assert all(any(arity.takes(n) for n in range(13)) for arity in ARITIES.values())


@given(st.sampled_from(sorted(ARITIES.keys() - {"and", "or", "not", "between", "div", "any"})))
def test_a_wrong_number_is_refused_with_the_right_one(name: str) -> None:
    counts = [count for count in range(10) if not ARITIES[name].takes(count)]
    for count in counts:
        query = f"select {name}({', '.join('abcdefghij'[:count])}) as x from t"
        said = list(misuses([QueryStep(None, query)]))
        texts = [words(each) for each in said if each.reason.value == "function-arguments"]
        if texts:  # else the words of the call are no call to the parser
            assert f"{name}() with {count} argument" in texts[0][0]
            assert str(ARITIES[name]) in texts[0][2]


@pytest.mark.parametrize("form", FORMS)
def test_forms_with_words_for_commas_are_taken(form: str) -> None:
    assert found(f"select {form} as x from t") == []


def test_a_wrong_number_is_refused_wherever_it_stands() -> None:
    for query in (
        "select abs() as x from t",
        "select a from t where abs() > 1",
        "select a from t join u on nvl(a)",
        "select a, 1 + lower(a, b) as x from (select a, b from t)",
        "select count(*) as c from (select sum(a, b) as s from t)",
    ):
        assert len([text for text in found(query) if "argument" in text]) == 1, query


def test_an_aggregate_in_an_aggregate_is_refused_and_over_a_window_of_groups_not() -> None:
    assert found("select sum(max(a)) as x from t") == ["max() inside of sum()"]
    assert found("select max(sum(a) over ()) as x from t") == ["sum() inside of max()"]
    assert found("select sum(sum(a)) over () as x from t") == []


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ("rows between 1 preceding and 2 preceding", "the frame ends before it begins"),
        ("rows between unbounded following and current row", "begins behind the last row"),
        ("rows between current row and unbounded preceding", "ends before the first row"),
        ("rows between -1 preceding and 2 preceding", "the frame ends before it begins"),
        ("rows between 2 preceding and 1 preceding", ""),
        ("rows between 1 following and current row", ""),
        ("range between 1 preceding and current row", "a RANGE with a distance over 2 keys"),
        ("range between unbounded preceding and current row", ""),
    ],
)
def test_frames_are_judged_by_their_bounds(frame: str, what: str) -> None:
    said = found(f"select sum(v) over (order by a, b {frame}) as x from t")
    assert len(said) == bool(what)
    assert all(what in text for text in said)


@pytest.mark.parametrize("kind", ["BOOLEAN", "DATE", "TIMESTAMP", "BINARY"])
def test_a_sum_of_no_numbers_is_refused_for_that(kind: str) -> None:
    steps = [QueryStep(None, "select k, sum(x) as s from t group by k")]
    columns = parse_ddl(f"k STRING, x {kind}")
    (one,) = typed_findings(steps, {"t": columns}, {})
    assert one.reason.value == "function-arguments"
    what, _, fix = words(one)
    assert what == "sum() of values that are not numbers"
    assert "count_if" in fix


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select a from t where explode(b) > 1", "explode() in WHERE"),
        ("select a from t join u on stack(1, a)", "stack() in ON"),
        ("select max(a) as a from t having inline(b)", "inline() in HAVING"),
        ("select explode(b) + 1 as a from t", "explode() inside of an expression"),
        ("select explode(a), posexplode(b) from t", "posexplode() next to another one in the same"),
    ],
)
def test_calls_that_make_rows_stand_by_themselves(query: str, what: str) -> None:
    (said,) = found(query)
    assert said.startswith(what)
    assert found("select a, explode(b) as b from t lateral view explode(c) as c") == []
