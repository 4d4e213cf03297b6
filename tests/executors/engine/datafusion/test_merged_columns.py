"""Columns that USING and NATURAL make one: those of DuckDB, or a refusal with the reason."""

import random
from collections import Counter
from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion.session import query_context, rows_of
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from tests.support.effort import examples

KINDS = ("", "left", "right", "full")
SHAPES = (
    "select {qualified} from {source}",
    "select * from {source}",
    "select a.*, b.b as other from {source}",
    "select k, {own} from {source}",
    "select {own} from {source} where k > 1",
    "select {own} from {source} order by k, {own} limit 2",
    "select k, count(*) as n from {source} group by k",
    "select a.k, count(*) as n from {source} group by a.k",
    "select coalesce(a.k, b.k) as v, {own} from {source}",
    "select {own} from {source} where exists (select 1 as x from d where d.k = k)",
    "select max(k) as m from {source} having count(k) > 0",
)


def _table(draw: random.Random, name: str) -> pa.Table:
    rows = range(draw.randint(1, 5))
    return pa.table(
        {
            "k": pa.array([draw.choice([1, 2, 3, None]) for _ in rows], pa.int64()),
            "l": pa.array([draw.choice([1, 2, None]) for _ in rows], pa.int64()),
            name: [f"{name}{number}" for number in rows],
        }
    )


def _source(draw: random.Random, names: list[str]) -> str:
    text = names[0]
    for name in names[1:]:
        kind = draw.choice(KINDS)
        text += draw.choice(
            (
                f" natural {kind} join {name}",
                f" {kind} join {name} using (k)",
                f" {kind} join {name} using (k, l)",
                f" {kind} join {name} on {names[0]}.k = {name}.k",
            )
        )
    return text


def _query(draw: random.Random) -> str:
    names = ["a", "b", "c"][: draw.choice([2, 2, 3])]
    source = _source(draw, names)
    return draw.choice(SHAPES).format(
        source=f"({source})" if draw.random() < 0.1 else source,
        own=", ".join(f"{each}.{each}" for each in names),
        qualified=", ".join(f"{each}.k as k{each}, {each}.l as l{each}" for each in names),
    )


def _answer(tables: Mapping[str, pa.Table], text: str) -> list[str] | None:
    """Return the rows that a query gives here, None for one that is refused."""
    try:
        sent = QueryStep(None, text, engine="datafusion").statement
    except SqlTextError as error:
        assert "write ON, and name the side" in str(error)
        return None
    with query_context(spill=None, clock=False) as context:
        for name, table in tables.items():
            context.add(name, table)
        try:
            rows = rows_of(context.last(sent.text))
        except InvalidQueryError:
            return None
    return sorted(map(str, zip(*(each.to_pylist() for each in rows.columns), strict=True)))


def test_what_is_not_refused_has_the_rows_of_another_engine() -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(600, 20_000)):
        draw = random.Random(seed)
        tables = {each: _table(draw, each) for each in "abcd"}
        text = _query(draw)
        with duckdb.connect() as other:
            for name, table in tables.items():
                other.register(name, table)
            try:
                expected = sorted(map(str, other.execute(text).fetchall()))
            except duckdb.Error:
                continue
        found = _answer(tables, text)
        seen["refused" if found is None else "same"] += 1
        assert found is None or found == expected, (seed, text)
    assert min(seen["refused"], seen["same"]) > 50, seen


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("select a.k as k, x from a full join b using (k)", None),
        ("select k from a left join b using (k)", None),
        ("select * from (select a.k as k from a full join b using (k)) as q", None),
        ("with q as (select a.k as k from a right join b using (k)) select k from q", None),
        ("select a.k from (select k from c) as a full join b using (k)", None),
        ("select a.k, a.x from a natural right join b", None),
        ("select * from a right anti join b using (k)", None),
        ("select k from a full join b using (k)", 8),
        ("select x, K from a right join b using (k)", 11),
        ("select k.x from a right join b using (k)", 10),
        ("select a.k, x from a natural right join b", 13),
        ("select * from a natural full outer join b", 8),
        ("select x from a full join b using (k) group by k", 48),
        ("select a.x from a full join b using (k) join c on c.k = k", 57),
    ],
)
def test_what_may_show_a_merged_column_is_refused_at_its_place(
    text: str, column: int | None
) -> None:
    step = QueryStep(None, text, engine="datafusion")
    if column is None:
        assert step.statement.text == text
        return
    with pytest.raises(SqlTextError, match="write ON, and name the side") as caught:
        _ = step.statement
    assert caught.value.place.column == column
