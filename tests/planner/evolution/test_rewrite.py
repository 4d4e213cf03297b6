"""What changes in the text of queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.planner.evolution.columns.query_diff import QueryRewrite, compare_queries, tokens
from odfbuild.sql.text.steps import QueryStep

UNION = "select a from t union all select a from u"
WITH = "with x as (select {} from t) select a from x"


def compare(
    before: str, after: str, renamed: dict[str, str] | None = None, engine: str = "spark"
) -> QueryRewrite:
    one, other = (QueryStep(None, each, (), engine) for each in (before, after))
    return compare_queries([one], [other], renamed)


@pytest.mark.parametrize(
    "after",
    [
        "SELECT a, b AS c FROM t WHERE a > 1",
        "select a,\n  b as c -- the other\nfrom t where a>1",
        "select /* all */ a, b as c from t where a > 1 ;",
        "select `a`, b as c from `t` where a > 1",
    ],
)
def test_spaces_comments_and_the_case_of_keywords_are_form(after: str) -> None:
    found = compare("select a, b as c from t where a > 1", after)
    assert found.form
    assert found.same


@pytest.mark.parametrize(
    "after",
    [
        "select A from t",
        "select 'a' from t",
        "select a from `from`",
        "select `a.b` from t",
        "select /*+ broadcast(t) */ a from t",
    ],
)
def test_names_texts_and_hints_are_more_than_form(after: str) -> None:
    assert not compare("select a from t", after).form


def test_words_inside_of_texts_stay_as_they_are() -> None:
    assert list(tokens("SELECT 'FROM -- x', `Select`, \"A\"")) == [
        "select", "'FROM -- x'", ",", "`Select`", ",", '"A"',
    ]  # fmt: skip
    assert list(tokens("  -- nothing\n")) == []


@pytest.mark.parametrize("engine", ["spark", "datafusion"])
@pytest.mark.parametrize(
    ("before", "after", "values", "rows"),
    [
        ("select a from t", "select a, b from t", False, False),
        ("select a, b from t", "select a from t", False, False),
        ("select a, b from t", "select b, a from t", False, False),
        ("select a + 1 as x from t", "select a + 2 as x from t", True, False),
        ("select a from t", "select b as a from t", True, False),
        ("select a from t where a > 1", "select a from t where a > 2", False, True),
        ("select a from t", "select distinct a from t", False, True),
        ("select distinct a from t", "select distinct a, b from t", False, True),
        ("select a from t", "select a, explode(b) as x from t", False, True),
        ("select a, explode(b) as x from t", "select a from t", False, True),
        ("select a from t", "select a, count(*) over (partition by b) as n from t", False, False),
        ("select max(a) as a from t", "select max(a) as a, count(*) as n from t", False, False),
        ("select 1 as a from t", "select 1 as a, count(*) as n from t", False, True),
        ("select a, b from t order by 1 limit 2", "select b, a from t order by 1 limit 2",
         False, True),
        ("select a from t order by a limit 2", "select a, b from t order by a limit 2",
         False, False),
        ("select a + 1 as x, b from t order by x limit 2",
         "select a + 2 as x, b from t order by x limit 2", True, True),
        ("select a as x, count(*) as n from t group by x",
         "select b as x, count(*) as n from t group by x", True, True),
        (UNION, "select a from t union all select b as a from u", True, False),
        ("select a, b from t union all select a, b from u",
         "select a, b from t union all select b, a from u", True, False),
        ("select a from t except select a from u", "select a, b from t except select a, b from u",
         False, True),
        ("select a from t union all by name select a from u",
         "select a, b from t union all by name select b, a from u", False, False),
        ("select * from t union all select * from u",
         "select *, 1 as x from t union all select *, 1 as x from u", True, False),
        ("select a, max(b) as x from t group by 1", "select c, a, max(b) as x from t group by 1",
         False, True),
        (UNION, "select a, b from t union all select a, b from u",
         False, False),
        (UNION, "select a from t union all select 1 as a from u",
         True, False),
        (UNION, "select a from t union select a from u",
         True, True),
        ("select * from t", "select *, b + 1 as c from t", False, False),
        ("select * from t", "select * except (b) from t", True, False),
        ("select 1 as a", "select 1 as a, 2 as b", False, False),
        (WITH.format("a"), WITH.format("b as a"),
         False, True),
    ],
)  # fmt: skip
def test_values_and_rows_are_told_apart(
    before: str, after: str, values: bool, rows: bool, engine: str
) -> None:
    found = compare(before, after, engine=engine)
    assert (found.values, found.rows, found.form) == (values, rows, False)
    assert found.same is not (values or rows)


def test_the_columns_that_both_make_alike_are_named() -> None:
    found = compare("select a, b + 1 as b, c from t", "select a, b + 2 as b, d from t")
    assert found.kept == {"a"}
    assert found.changed == {"b"}


@pytest.mark.parametrize(
    "after",
    ["select a from t tablesample (5 rows)", "select transform(a) using 'cat' from t"],
)
def test_all_counts_as_changed_where_a_query_is_not_understood(after: str) -> None:
    found = compare("select a from t", after)
    assert found.values or found.rows or found.unreadable is not None


def test_what_is_made_of_a_changed_column_of_its_list_is_changed() -> None:
    found = compare(
        "select a + 1 as x, x * 2 as y, b from t", "select a + 2 as x, x * 2 as y, b from t"
    )
    assert found.changed == {"x", "y"}
    assert found.kept == {"b"}


@pytest.mark.parametrize(
    ("before", "after", "form"),
    [
        ('select a from "t"', "SELECT a\n  FROM t -- all\n;", True),
        ("select UPPER(a) as b from t", "select upper(a) as b from t", True),
        (
            "select a, '\\' as c, 'x  y' as b from t",
            "select a, '\\' as c, 'x y' as b from t",
            False,
        ),
        ("select a from t", "select A from t", False),
        ('select "a b" from t', "select 'a b' from t", False),
        ("select a.b from t", 'select "a.b" from t', False),
        ('select "user" from t', "select user from t", False),
        ("select Range from t", "select range from t", False),
    ],
)
def test_words_in_the_dialect_of_datafusion(before: str, after: str, form: bool) -> None:
    found = compare(before, after, engine="datafusion")
    assert found.form is form
    assert found.same is form or not found.kept


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("select b, a + 1 from t", "select b, a + 2 from t", True),
        ("select cast(a as int) from t", "select b, cast(a as varchar) from t", True),
        ("select b from t", "select b, a + 2 from t", False),
    ],
)
def test_columns_without_alias_have_the_names_that_datafusion_gives(
    before: str, after: str, values: bool
) -> None:
    found = compare(before, after, engine="datafusion")
    assert (found.values, found.rows) == (values, False)


def test_another_number_of_steps_is_another_query() -> None:
    one = [QueryStep(None, "select a from t")]
    two = [QueryStep("x", "select a from t"), QueryStep(None, "select a from x")]
    assert compare_queries(one, two) == QueryRewrite(values=True, rows=True)
    assert compare_queries(two, [QueryStep("y", two[0].text), two[1]]).rows
    changed = [QueryStep("x", "select b as a from t"), two[1]]
    assert compare_queries(two, changed) == QueryRewrite(values=True, rows=True)
    assert compare_queries(two, two).form


def test_another_name_of_an_input_is_form() -> None:
    assert compare("select t.a from t", "select u.a from u", {"t": "u"}).form
    assert compare("select a from `x.y`", "select a from z", {"x.y": "z"}).form
    assert not compare("select a from t", "select a from u").form


def test_an_unreadable_text_is_told_with_its_place_and_side() -> None:
    found = compare("select a from t", "select a b c from t")
    assert found.unreadable
    assert found.place is not None
    assert found.now
    back = compare("select a b c from t", "select a from t")
    assert back.unreadable
    assert not back.now


@given(st.text(max_size=60))
def test_any_text_is_taken_apart_and_is_itself(text: str) -> None:
    words = list(tokens(text))
    assert all(words)
    assert compare(text, text).form
