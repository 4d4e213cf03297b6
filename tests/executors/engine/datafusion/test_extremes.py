"""Least and greatest values of groups: those of the values, in whatever order rows come."""

from itertools import permutations
from math import copysign, inf, isnan, nan

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion.session import query_context, rows_of
from odfbuild.sql.datafusion.extremes import ordered_extremes

VALUES = (
    (nan, 1.0, -2.0, None),
    (nan, -0.0, 0.0),
    (0.0, -0.0, None),
    (inf, nan, -inf, 3.0),
    (nan, nan),
    (None, None),
)
FORMS = (
    "select k, max(v) as m, min(v) as n from t group by k",
    "select k, MAX(v) as m, Min (v) as n from t group by (k) order by max(v)",
    'select k, "max"(v) as m, "min"(distinct v) as n from t group by 1',
    "select k, max(all v) as m, min(all v) as n from t group by 1",
    "select max(v) as m, min(v) as n from t group by grouping sets ((k))",
    "select max(v) filter (where true) as m, min(case when true then v end) as n from t group by k",
    "select x.m, x.n from (select k, max(v) as m, min(v) as n from t group by k) as x",
    "with x as (select k, max(v) as m, min(v) as n from t group by k) select m, n from x",
    "select m, n from (select max(v) as m, min(v) as n from t group by k having count(*) > 0) as x",
    "select max(x.v) as m, min(x.v) as n from t as x join t as y on x.k = y.k group by y.k",
    "select max(u.v) as m, min(u.v) as n "
    "from (select * from t union all select * from t) as u group by u.k",
    "select max(m) as m, min(n) as n "
    "from (select max(v) as m, min(v) as n, i from t group by i) as x group by 1 = 1",
    "select max(v) as m, min(v) as n from t group by replace('a', '\n', 'b'), k",
    "select max(v) as m, min(v) as n from t group by replace('a', '\nProjection: ', 'b'), k",
    "select max(v) as m, min(v) as n from t",
    "select max(v) over () as m, min(v) over (partition by k) as n from t limit 1",
    "select max(max(v)) over () as m, min(min(v)) over () as n from t group by k",
)


def shown(value: float | None) -> object:
    if value is None or isnan(value):
        return repr(value)
    return value, copysign(1.0, value)


def total_order(value: float) -> tuple[bool, float, float]:
    return isnan(value), 0.0 if isnan(value) else value, copysign(1.0, value)


@pytest.mark.parametrize(
    ("form", "kind"),
    [(FORMS[0], pa.float32()), *((form, pa.float64()) for form in FORMS)],
    ids=str,
)
def test_the_least_and_the_greatest_are_those_of_the_values(form: str, kind: pa.DataType) -> None:
    for values in VALUES:
        there = sorted((each for each in values if each is not None), key=total_order)
        expected = (there[-1], there[0]) if there else (None, None)
        for order in permutations(values):
            table = pa.table(
                {"k": [1] * len(order), "i": range(len(order)), "v": pa.array(order, kind)}
            )
            with query_context(spill=None, clock=False) as context:
                context.add("t", table)
                (row,) = rows_of(context.query(form)).to_pylist()
            assert (shown(row["m"]), shown(row["n"])) == tuple(map(shown, expected)), order


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.decimal128(9, 2), pa.string()])
def test_columns_keep_their_names(kind: pa.DataType) -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"k": ["a"], "v": pa.array(["1"]).cast(kind)}))
        found = rows_of(context.query("select k, max(v), min(v) as n from t group by k"))
    assert found.column_names == ["k", "max(t.v)", "n"]


def test_a_column_that_is_named_by_its_text_is_refused_with_a_way_on() -> None:
    text = 'select x."max(t.v)" as m from (select max(v) from t group by k) as x'
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"k": [1], "v": [1.5]}))
        with pytest.raises(InvalidQueryError, match="max") as refused:
            context.query(text)
    assert "give each of them a name" in refused.value.fix


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("max(a)", "first_value(a order by a desc nulls last)"),
        ("min( distinct f(a, b) )", "first_value(f(a, b)  order by f(a, b)  asc nulls last)"),
        ("max(all a)", "first_value(a order by a desc nulls last)"),
        ("max(1.5), min(distinct 2)", None),
        ("max(a) over (order by b)", None),
        ("max(a) filter (where (b)) over w", None),
        ("x.max, max, maximum(a), 'max(a)', count(*)", None),
    ],
)
def test_what_is_asked(text: str, asked: str | None) -> None:
    assert ordered_extremes(f"select {text} from t") == f"select {asked or text} from t"
