"""Types that functions and operators do not take: refused where known, never where they are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.argument_types import ACCEPTED
from odfbuild.sql.columns import columns_of
from odfbuild.sql.spark_functions import ALLOWED
from odfbuild.sql.text.steps import QueryStep
from tests.sql.spark_types import OPERATORS

COLUMNS = parse_ddl("v INT, k STRING, b BOOLEAN, d DATE, l ARRAY<INT>, s STRUCT<p: INT>")


def said(query: str, *, known: bool = True) -> list[str]:
    inputs = {"a": COLUMNS if known else None}
    wrong = columns_of([QueryStep(None, query)], inputs).wrong_constants
    return [f"{each.what}; {each.fix}" for each in wrong if each.typed]


def test_each_name_of_the_table_is_a_function_or_an_operator() -> None:
    assert {name for name, _ in ACCEPTED} <= ALLOWED | OPERATORS.keys()


REFUSED = {
    "select upper(l) as x from a": "upper() cannot be of ARRAY",
    "select v + b as x from a": "the operator + cannot be of INT and BOOLEAN",
    "select case when b then d else v end as x from a": "the values of a CASE cannot be of DATE",
    "select v from a where v": "a condition cannot be of INT",
    "select v from a where k in ('x', l)": "the operator in cannot be of STRING and ARRAY",
    "select s > 1 as x from a": "the operator < cannot be of STRUCT and INT",
    "select explode(v) as x from a": "explode() cannot be of INT",
    "select cast(l as int) as x from a": "a cast to INT cannot be of ARRAY",
    "select transform(v, x -> x) as x from a": "transform() cannot be of INT",
    "select v from a union all select l from a": "the two sides of UNION have no common type",
}


@pytest.mark.parametrize("query", REFUSED)
def test_types_that_do_not_fit_are_refused_where_they_are_known(query: str) -> None:
    (one,) = said(query)
    assert one.startswith(REFUSED[query])
    assert said(query, known=False) == []


def test_what_would_fit_is_named() -> None:
    (one,) = said("select v + b as x from a")
    assert "give it TINYINT or SMALLINT or INT" in one
    assert "beside INT" in one
    (one,) = said("select unix_date(v) as x from a")
    assert one.endswith("give it DATE, with CAST(... AS ...) if need be")


@given(st.sampled_from(sorted(ACCEPTED)), st.sampled_from(["null", "w", "z.w"]))
def test_what_is_not_known_is_taken(form: tuple[str, int], value: str) -> None:
    name, count = form
    text = OPERATORS.get(name) or f"{name}({', '.join(['{}'] * count)})"
    text = text.replace("b0", "true")
    assert said(f"select {text.format(*[f'({value})'] * count)} as x from z", known=False) == []
