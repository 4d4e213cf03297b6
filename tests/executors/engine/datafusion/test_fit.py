"""Sums that do not fit their type are errors, and all others are those of the values.

DataFusion wraps such sums without an error.  What the sums are, Python's integers tell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.odf.events import TransformSql

KINDS: Final[Mapping[str, pa.DataType]] = {
    "n": pa.int64(),
    "i": pa.int32(),
    "u": pa.uint64(),
    "d": pa.decimal128(38, 0),
    "e": pa.decimal128(30, 2),
    "f": pa.decimal128(20, 2),
}
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "n": (-(2**63), 2**63 - 1),
    "i": (-(2**63), 2**63 - 1),
    "u": (0, 2**64 - 1),
    "d": (1 - 10**38, 10**38 - 1),
    "e": (1 - 10**38, 10**38 - 1),
    "f": (1 - 10**30, 10**30 - 1),
}


def asked(text: str, rows: pa.Table, folder: Path) -> pa.Table:
    query = TransformSql(engine="datafusion", query=text)
    work = RawQueryWork(source=Frame.of(rows), query=query, staging=folder)
    frame = DataFusionEngine().raw_query(work)
    return pa.Table.from_batches(frame.batches(), frame.schema)


def unscaled(value: Any) -> int:
    """Return a number as an integer: of a decimal its digits."""
    if isinstance(value, Decimal):
        _, digits, _ = value.as_tuple()
        size = int("".join(map(str, digits)))
        return -size if value.is_signed() else size
    return int(value)


def by_group(rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    return [[r for r in rows if r["k"] == key] for key in sorted({r["k"] for r in rows})]


def running(rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    ordered = sorted(rows, key=lambda r: r["r"])
    return [ordered[: at + 1] for at in range(len(ordered))]


def running_by_group(rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    return [part for group in by_group(rows) for part in running(group)]


Groups = Callable[[Sequence[Mapping[str, Any]]], Iterable[Sequence[Mapping[str, Any]]]]
FORMS: Final[Mapping[str, Groups]] = {
    "select sum({c}) as s from input": lambda rows: [rows],
    "select k, sum({c}) as s from input group by k order by k": by_group,
    "select sum({c}) over (order by r) as s from input order by r": running,
    "select sum({c}) over (partition by k order by r) as s, k, r from input order by k, r": (
        running_by_group
    ),
    "with q as (select k, sum({c}) as s from input group by k) select s from q order by k": (
        by_group
    ),
    "select q.s from (select k, sum({c}) as s from input group by k) as q join "
    "(select distinct k from input) as p on p.k = q.k order by q.k": by_group,
    "select (select sum({c}) from input) as s from (select 1 as one) as q": lambda rows: [rows],
    "select sum({c}) as s, sum(x) as y, count(distinct k) as z from input": lambda rows: [rows],
    "select sum({c}) as s from (select * from input union all select * from input where r < 0) "
    "as q": lambda rows: [rows],
}


def values(name: str) -> st.SearchStrategy[Any]:
    kind = KINDS[name]
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        near = st.sampled_from([most, -most, most // 2, most // 3 * 2, 1, 0])
        return (near | st.integers(-most, most)).map(lambda v: Decimal(f"{v}E-{kind.scale}"))
    least, most = (0, 2**64 - 1) if kind == pa.uint64() else (-(2**63), 2**63 - 1)
    if kind == pa.int32():
        least, most = -(2**31), 2**31 - 1
    near = st.sampled_from([least, most, most // 2, most // 3 * 2, 1, 0])
    return near | st.integers(least, most)


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    name = draw(st.sampled_from(sorted(KINDS)))
    drawn = st.lists(st.tuples(st.integers(1, 3), values(name) | st.none()), min_size=1, max_size=8)
    return name, [{"k": k, "r": r, name: v, "x": 0.5} for r, (k, v) in enumerate(draw(drawn))]


@given(histories(), st.sampled_from(sorted(FORMS)))
def test_a_sum_is_that_of_its_values_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[str, list[dict[str, Any]]], form: str
) -> None:
    name, rows = drawn
    kinds = [("k", pa.int64()), ("r", pa.int64()), (name, KINDS[name]), ("x", pa.float64())]
    table = pa.Table.from_pylist(rows, pa.schema(kinds))
    read = [[unscaled(r[name]) for r in part if r[name] is not None] for part in FORMS[form](rows)]
    sums = [sum(part) if part else None for part in read]
    least, most = BOUNDS[name]
    fits = all(each is None or least <= each <= most for each in sums)
    sizes = sum(abs(unscaled(r[name])) for r in rows if r[name] is not None)
    try:
        got = asked(form.format(c=name), table, tmp_path_factory.getbasetemp()).column("s")
    except InvalidQueryError as error:
        assert "may take more than" in str(error) or "Overflow" in str(error), error
        assert sizes * 1.01 > most  # a sum of that size is in question at all
        return
    assert fits, (sums, got)
    found = [None if each is None else unscaled(each) for each in got.to_pylist()]
    if "order by" in form and "k, r" not in form:
        assert found == sums
    else:
        assert sorted(found, key=repr) == sorted(sums, key=repr)


SMALL = pa.table(
    {
        "k": [1, 2],
        "n": [1, 2],
        "x": [0.5, 1.0],
        "m": pa.array([1, 2], pa.int32()),
        "t": ["p", "q"],
    }
)
LARGE = SMALL.set_column(1, "n", pa.array([2**63 - 1, 1]))
ALL = "(select sum(n) from input)"


@pytest.mark.parametrize(
    "text",
    [
        f"select x from input order by {ALL} + x",
        f"select sum(x - {ALL}) as s from input",
        f"select sum(x) over (order by {ALL} + x) as s from input",
        f"select sum(x) over (partition by {ALL} + x) as s from input",
        f"select x from input where n < {ALL}",
        f"select x from input where x < {ALL} or x is null",
        f"select x, {ALL} as s from input",
        f"select cast({ALL} as double) as s, -{ALL} as t from input",
        f"select case when x = {ALL} then 1 else 2 end as s from input",
        f"select case when x = 1 then {ALL} end as s from input",
        f"select case x when 1 then {ALL} end as s from input",
        f"select x between 1 and {ALL} as s, x in (1, {ALL}) as t, {ALL} is null as u from input",
        f"select coalesce({ALL}, 1) as s, not (x = {ALL}) as t from input",
        f"select a.x from input as a join input as b on a.k = b.k and a.x + b.x < {ALL}",
        f"select a.x from input as a left join input as b on a.k = b.k and a.x + b.x > {ALL}",
        f"select distinct on ({ALL} + x) x from input",
        f"select sum(m) / {ALL} as s from input",
        f"select k, sum(m) / {ALL} as s from input group by k having sum(m) < {ALL}",
        f"select k, sum({ALL} - m) as s from input group by k",
        f"select sum(x) filter (where x < {ALL}) as s from input",
        f"select array_agg(x order by {ALL} + x) as s from input",
        "with w as (select n from input), q as (select 1 as x) select x, (select sum(n) from w) "
        "as s from q",
        f"with q as (select {ALL} as s) select x, s from input cross join q",
        "select (select min(s) from (select sum(n) over (order by k) as s from input)) as m",
        "select (select sum(case when t <> '[' then n else 0 end) from input) as m",
        "select (select sum(case when t <> '):' then n else 0 end) from input) as m",
        "select (select sum(n) filter (where t <> '[') from input) as m",
        'select (select sum("a[b") from (select n as "a[b" from input)) as m',
        "select (select sum(l[1]) from (select make_array(n) as l from input)) as m",
        f"select k from input where k is distinct from {ALL}",
        f"select k is not distinct from {ALL} as x from input",
        f"select substring(t from greatest({ALL}, 1)) as x from input",
        "select x from (with input as (select n from input) select "
        "(select sum(n) from input) as x) as q",
        "with a as (with u as (select n from input) select (select sum(n) from u) as x) "
        "select x from a",
        "select (with u as (select n from input) select (select sum(n) from u)) as x",
        "select (select sum(n) from input union all select 1 as n limit 1) as x from input",
        "select x from input where x < (select sum(n) - (select max(x) from input) from input)",
        "select x from input where x < (select max(s) from (select sum(n) as s from input) as q)",
        "select x from input where n not in (select sum(n) as n from input)",
        "select x from input as a where exists (select sum(n) as s from input as b "
        "having sum(n) > 1)",
        "select a.x from input as a where a.m < (select sum(b.n) from input as b where b.k <> 9)",
        f"with q as (select max({ALL} + x) as s from input), input as (select 1 as n) "
        "select s from q, input",
    ],
)
def test_a_subquery_may_have_it(text: str, tmp_path: Path) -> None:
    assert asked(text, SMALL, tmp_path).num_rows
    with pytest.raises(InvalidQueryError, match="may take more than 64 bits"):
        asked(text, LARGE, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        f"select sum(n) / {ALL} as s from (with w as (select n from input) select n from w) "
        "as input",
        f"select sum(n) / {ALL} as s from input where x < (select sum(x) from input as b "
        "where input.k = b.k)",
    ],
)
def test_a_subquery_that_cannot_be_read_by_itself_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidQueryError, match="is not understood"):
        asked(text, SMALL, tmp_path)


@pytest.mark.parametrize("of", ["(select sum(x) from input)", "(select max(n) from input)"])
def test_other_subqueries_are_not(of: str, tmp_path: Path) -> None:
    text = f"select sum(x) filter (where x < {of}) as s from input"
    assert asked(text, LARGE, tmp_path).num_rows == 1


def test_sums_over_more_values_than_a_plan_shows_are_looked_at_one_by_one(tmp_path: Path) -> None:
    last, first = 2**63 - 1, "(1), (1), (1), (1), (1)"
    few, many = f"(values {first}, (1), (1)) as v(a)", f"(values {first}, (1), ({last})) as v(a)"
    text = "select sum(a) as s from {} union all select sum(a) as s from {}"
    assert asked(text.format(few, few), SMALL, tmp_path).num_rows == 2
    for tables in ((few, many), (many, few)):
        with pytest.raises(InvalidQueryError, match="may take more than 64 bits"):
            asked(text.format(*tables), SMALL, tmp_path)
