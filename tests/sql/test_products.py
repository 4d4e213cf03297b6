"""Which inputs of inner joins meet: new rows of one need only the rows of those beside it."""

import pyarrow as pa
import pytest

from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.keys.joins import Products, products
from odfbuild.sql.text.steps import QueryStep

INPUTS: dict[str, DataSchema] = {
    name: from_arrow(
        pa.schema(
            [
                ("event_time", pa.timestamp("ms", "UTC")),
                ("k", pa.int64()),
                (f"{name}1", pa.int64()),
                (f"{name}2", pa.string()),
            ]
        )
    )
    for name in ("a", "b", "c")
}


def _products(*texts: str) -> Products | None:
    *named, last = texts
    steps = [QueryStep(f"s{number}", text) for number, text in enumerate(named)]
    return products((*steps, QueryStep(None, last)), INPUTS)


def _compared(found: Products | None) -> set[frozenset[str]]:
    """Return which columns of different inputs are compared."""
    assert found is not None
    by_token: dict[int, set[str]] = {}
    for name, columns in found.compared.items():
        for column, token in columns.items():
            by_token.setdefault(token, set()).add(f"{name}.{column}")
    return {frozenset(each) for each in by_token.values() if len(each) > 1}


def test_joined_inputs_meet_by_the_columns_that_are_compared() -> None:
    found = _products(
        "select a.event_time, a1, b1 from a join b on a.k = b.k and a2 = b2 and a1 < b1"
    )
    assert found is not None
    assert found.beside == {"a": {"b"}, "b": {"a"}}
    assert _compared(found) == {frozenset({"a.k", "b.k"}), frozenset({"a.a2", "b.b2"})}


def test_columns_are_followed_through_parts_and_steps() -> None:
    found = _products(
        "select k as q, b2 from b where b1 > 0",
        "select a.event_time, x.b2 from a join (select q + 0 as p, q, b2 from s0) x on a.a1 = x.q",
    )
    assert _compared(found) == {frozenset({"a.a1", "b.k"})}


def test_what_is_equal_to_the_same_is_equal() -> None:
    found = _products("select a.event_time from a join b using (k) join c on b.k = c.c1")
    assert _compared(found) == {frozenset({"a.k", "b.k", "c.c1"})}


def test_inputs_on_two_sides_of_a_union_never_meet() -> None:
    found = _products(
        "select a.event_time, a.k from a join b on a.k = b.k union all select event_time, k from c"
    )
    assert found is not None
    assert found.beside == {"a": {"b"}, "b": {"a"}, "c": frozenset()}


def test_each_side_of_a_union_meets_what_it_is_joined_with() -> None:
    found = _products(
        "select a.event_time, x.k from a join (select k from b union all select k from c) x "
        "on a.k = x.k"
    )
    assert found is not None
    assert found.beside == {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}
    assert _compared(found) == set()


def test_a_condition_of_an_alternative_compares_nothing() -> None:
    assert (
        _compared(_products("select a.event_time from a join b on a.k = b.k or a1 = b1")) == set()
    )


@pytest.mark.parametrize(
    "text",
    [
        "select event_time, k from a",
        "select x.event_time from a x join a y on x.k = y.k",
        "with x as (select * from a) select u.event_time from x u join x v on u.k = v.k",
        "select a.event_time from a left join b on a.k = b.k",
        "select a.event_time, count(*) from a join b on a.k = b.k group by a.event_time",
        "select distinct a.event_time from a join b on a.k = b.k",
        "select event_time from a where k in (select k from b)",
    ],
)
def test_other_queries_are_no_products(text: str) -> None:
    assert _products(text) is None
