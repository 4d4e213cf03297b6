"""Sums of decimals beside counts of distinct values, which DataFusion gives another type."""

from decimal import Decimal

import pyarrow as pa
import pytest

from odfbuild.executors.engine.datafusion.session import last_of, query_context, rows_of

ROWS = pa.table(
    {
        "k": pa.array([1, 2, 2, None], pa.int32()),
        "d": pa.array(map(Decimal, ("1.50", "2.00", "-0.25", "9.99")), pa.decimal128(10, 2)),
        "w": pa.array([Decimal(1)] * 4, pa.decimal128(28, 0)),
        "x": [1.0, 2.0, 3.0, 4.0],
        "s": ["p", "q", "q", "p"],
    }
)


def answered(text: str) -> pa.Table:
    with query_context(spill=None, clock=False) as context:
        context.add("a", ROWS)
        return rows_of(context.last(text))


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        (
            "select s, sum(d) as v, count(distinct k) as n from a group by s",
            pa.decimal128(20, 2),
            ["11.49", "1.75"],
        ),
        ("select sum(d) as v, count(distinct s) as n from a", pa.decimal128(20, 2), ["13.24"]),
        (
            "select v + v as v from (select s, sum(d) as v, min(k) as m, count(distinct x) as n "
            "from a group by s) as q",
            pa.decimal128(21, 2),
            ["22.98", "3.50"],
        ),
        (
            "with q as (select s, sum(d) as v, count(distinct x) as n from a group by s) "
            "select case when v > cast(2 as decimal(20, 2)) then v end as v from q",
            pa.decimal128(20, 2),
            ["11.49", None],
        ),
        (
            "select s, sum(w) as v, count(distinct k) as n from a group by s",
            pa.decimal128(38, 0),
            ["2", "2"],
        ),
    ],
)
def test_a_sum_has_the_type_that_the_query_has(
    text: str, kind: pa.DataType, values: list[str | None]
) -> None:
    found = answered(text)
    assert found.schema.field("v").type == kind
    wanted = [None if each is None else Decimal(each) for each in values]
    assert found.column("v").to_pylist() == wanted


def test_a_later_step_adds_up_so_too() -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("a", ROWS)
        frame = context.query("select s, sum(d) as v, count(distinct k) as n from a group by s")
        context.name("one", frame)
        last = context.query("select max(v) as v, sum(v) as t, sum(n) as n from one")
        assert rows_of(last).to_pylist() == [{"v": Decimal("11.49"), "t": Decimal("13.24"), "n": 2}]


BOTH = "sum(d) as v, sum(x) as f, count(distinct k) as n"


@pytest.mark.parametrize(
    ("text", "values", "floats"),
    [
        (f"select s, {BOTH} from a group by s", ["11.49", "1.75"], [5.0, 5.0]),
        (f"select {BOTH} from a", ["13.24"], [10.0]),
        (
            f"select v, f, n from (select s, {BOTH} from a group by s) as q",
            ["11.49", "1.75"],
            [5, 5],
        ),
        (
            f"with q as (select s, {BOTH} from a group by s) "
            "select sum(v) as v, max(f) as f from q",
            ["13.24"],
            [5.0],
        ),
        (
            "select p.v, q.f from "
            "(select s, sum(d) as v, count(distinct k) as n from a group by s) as p join "
            "(select s, sum(x) as f, count(distinct k) as n from a group by s) as q "
            "on p.s = q.s",
            ["11.49", "1.75"],
            [5.0, 5.0],
        ),
    ],
)
def test_sums_of_both_kinds_beside_a_count_are_those_of_the_query(
    text: str, values: list[str], floats: list[float]
) -> None:
    found = answered(text)
    assert sorted(map(str, found.column("v").to_pylist())) == sorted(values)
    assert sorted(found.column("f").to_pylist()) == floats


def test_steps_that_mix_sums_are_computed_as_one_query() -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("a", ROWS)
        steps = (
            ("one", f"select s, {BOTH} from a group by s"),
            (None, "select s, v, f from one where v > 1"),
        )
        found = rows_of(last_of(context, steps))
    assert found.schema.field("v").type == pa.decimal128(20, 2)
    assert len(found) == 2


NEAR = [0.1, 0.2, 0.3, 1e16, -1e16, 0.7, 1.1, 2.3]


def test_a_query_that_could_be_computed_adds_up_floats_as_before() -> None:
    """What the rule decides stays as it is: slices that were written have these sums."""
    rows = pa.table(
        {
            "x": NEAR,
            "k": [1, 2, 1, 2, 3, 3, 1, 2],
            "d": pa.array([Decimal(1)] * len(NEAR), pa.decimal128(10, 2)),
        }
    )
    with_casts = "select cast(sum(d) as double) as d, sum(x) as f, count(distinct k) as n from a"
    alone = "select sum(x) as f, count(distinct k) as n from a"
    found = []
    for text in (with_casts, alone):
        with query_context(spill=None, clock=False) as context:
            context.add("a", rows)
            found.append(rows_of(context.last(text)).column("f").to_pylist())
    assert found[0] == found[1]
