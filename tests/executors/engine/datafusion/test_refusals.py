"""Queries whose rows could depend on more than the values of their inputs are refused."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import AnalysedInput, Analysis
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.datafusion.session import check_sums, last_of, query_context
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.odf.events import DatasetVocabulary, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.datafusion import step_findings
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import steps_of

ROWS = pa.table({"n": pa.array([1, 2]), "x": [0.5, 1.0], "s": ["7", "b"]})
EITHER = "(select k, n from a union all select k, n from b) as q"


def asked(text: str, rows: pa.Table, folder: Path) -> pa.Table:
    query = TransformSql(engine="datafusion", query=text)
    work = RawQueryWork(source=Frame.of(rows), query=query, staging=folder)
    return pa.Table.from_batches(DataFusionEngine().raw_query(work).batches())


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0)], ids=["rows", "no row"])
@pytest.mark.parametrize(
    "text",
    [
        "select n from input union all select x as n from input",
        "select n from (select n from input union all select x as n from input) as q",
        "select case when n = 1 then n else s end as z from input",
        "select case when isnan(x) then n else 0.5 end as z from input",
    ],
)
def test_branches_of_several_types_are_no_column(text: str, rows: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidQueryError, match="several types"):
        asked(text, rows, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "select cast(n as double) as n from input union all select x as n from input",
        "select coalesce(x, n) as z, greatest(n, x) as g from input",
        "select case when n = 1 then x else n end as z from input",
        "select n, s, x from input where n > 0 and n < 5",
        "select s from input union all select cast(s as varchar) as s from input",
        "select to_timestamp_seconds(n) as t from input union all select timestamp '2020-01-01'",
        "select case when n > 1 then date_bin(interval '1 day', t) else t end as t "
        "from (select to_timestamp_millis(n) as t, n from input) as q",
        "select sum(n) over w as n from input window w as (partition by x)",
        "select n from input order by x offset 1",
        "select n from (select n from input order by x limit 9 offset 1) as q",
    ],
)
def test_branches_of_one_type_are(text: str, tmp_path: Path) -> None:
    assert asked(text, ROWS, tmp_path).num_rows > 0


@pytest.mark.parametrize("sign", ["\n", "\n  ", " [", "]\n  x [", ";N", '""', "\u2028", "\t:"])
@pytest.mark.parametrize(
    "form",
    [
        "select replace(s, '{}', '+') as z from input",
        "select n as \"a{}b\" from input where s <> '{}'",
        "select case when s = '{}' then n end as z from input",
        "select n from input where s not in (select '{}')",
        "select q.z from (select concat(s, '{}') as z from input) as q",
    ],
)
def test_texts_and_names_may_have_any_sign(form: str, sign: str, tmp_path: Path) -> None:
    assert asked(form.replace("{}", sign), ROWS, tmp_path).num_rows == 2


@pytest.mark.parametrize(
    "text",
    [
        "select * replace (0 as __odf_op) from input",
        "select n as __ODF_pos from input",
        'select n as "__odf_op" from input',
        "with recursive r as (select 1 as i union all select i + 1 from r) select i from r",
        "select all n from input",
        "select n from input for system_time as of '2020-01-01'",
        "select n from (select n from input order by x offset 1) as q",
        "select n from input where n in (select n from input order by x limit all offset 1)",
        "with q as (select n from input order by x offset 1) select max(n) as n from q",
        "select sum(n) over (w) as n from input window w as (order by x)",
        'select sum(n) over ("w" order by s) as n from input window w as (partition by x)',
        "select sum(n) over v as n from input window w as (order by x), v as (w)",
        "select sum(n) over v as n from input window w as (order by x), v as (w order by n)",
    ],
)
def test_texts_that_reach_behind_the_rows_are_not_read(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidQueryError):
        asked(text, ROWS, tmp_path)


STRUCTS = pa.table({"n": [1, 2], "z": [{"k": "p", "m": 1}, {"k": "q", "m": 2}]})


@pytest.mark.parametrize(
    "text",
    [
        "select y.k as k from (select case when n > 1 then z end as y from input) as q",
        "select y.k as k from (select case n when 1 then z else null end as y from input) as q",
        "select y.k as k from (select nullif(z, named_struct('k', 'p', 'm', 1)) as y from input)",
        "select n from input where (case when n > 1 then z end)['k'] = 'p'",
        "select y.z.k as k from (select named_struct('z', case when n > 1 then z end) as y "
        "from input) as q",
        "select sum(y[1]['m']) as s from (select make_array(case when n > 1 then z end) as y "
        "from input) as q",
    ],
)
def test_members_of_a_struct_that_a_query_makes_null_are_not_read(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidQueryError, match="a member of a struct") as refused:
        asked(text, STRUCTS, tmp_path)
    assert "take the member first" in refused.value.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select case when n > 1 then z.k end as k from input", [None, "q"]),
        ("select case when n > 1 then z end as k from input", [None, {"k": "q", "m": 2}]),
        ("select z.k as k, case when n > 1 then 'a' end as s from input", ["p", "q"]),
        (
            "select y.k as k from (select case when n > 1 then z else named_struct('k', 'e', 'm', "
            "0) end as y from input) as q",
            ["e", "q"],
        ),
        ("select nullif(z.k, 'p') as k, z from input", [None, "q"]),
    ],
)
def test_others_are(text: str, expected: list[object], tmp_path: Path) -> None:
    assert asked(text, STRUCTS, tmp_path).column("k").to_pylist() == expected


COLUMNS = from_arrow(pa.schema([("event_time", pa.timestamp("ms", "UTC")), ("n", pa.int64())]))


def analysed(text: str) -> pa.Schema:
    steps = steps_of(TransformSql(engine="datafusion", query=text))
    inputs = (AnalysedInput("a", COLUMNS, DatasetVocabulary()),)
    question = Analysis(steps=steps, inputs=inputs, vocab=DatasetVocabulary())
    return DataFusionEngine().analyse(question)


@pytest.mark.parametrize(
    "text",
    [
        "select max(event_time) as event_time, stddev_pop(distinct n) as n from a",
        "select distinct on (n) event_time, n from a order by n, event_time, event_time",
        "select event_time, n in (select n from a) as m from a",
        "select a.event_time, u.m from a, lateral (select a.n + 1 as m) as u",
    ],
)
def test_a_plan_refuses_what_is_read_and_has_no_plan(text: str) -> None:
    with pytest.raises(InvalidQueryError, match=r"(not implemented|not available|cannot compute)"):
        analysed(text)


@pytest.mark.parametrize(
    "below", ["a", "a where n > 5", "a join (select n as m from a) o on n = m"]
)
@pytest.mark.parametrize(
    "form",
    [
        "select max(event_time) as event_time, first_value(n order by {}) as f from {} group by n",
        "select event_time from a where n in (select last_value(n order by {}) as f from {} "
        "group by event_time)",
        "select event_time from a where n > (select last_value(n order by {}) as f from {} "
        "group by n limit 1)",
    ],
)
def test_a_plan_refuses_an_aggregate_that_fails_over_its_first_row(form: str, below: str) -> None:
    with pytest.raises(InvalidQueryError, match="cannot compute Aggregate") as refused:
        analysed(form.format("event_time, n, n", below))
    assert "an alias" in refused.value.fix
    assert analysed(form.format("event_time, n", below))


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("select distinct on (k) n as k, event_time from a where n > 5 order by k, n", True),
        ("select distinct on (k) n as k, event_time from a where n > 5 order by k", False),
        ("select first_value(n order by n, n) as n, max(event_time) as event_time from a", False),
        (
            "select array_agg(n order by n, n) as l, max(event_time) as event_time from a "
            "where n > 5 group by n",
            False,
        ),
        (
            "select max(event_time) as event_time, first_value(n order by n + 1, 1 + n desc) as n "
            "from a where n > 5 group by n",
            True,
        ),
        (
            "select max(event_time) as event_time, first_value(n order by n, cast(n as bigint)) "
            "as n from a where n > 5 group by n",
            True,
        ),
        (
            "select first_value(n > 1 order by n, n) as b, max(event_time) as event_time from a "
            "where n > 5 group by n",
            False,
        ),
    ],
)
def test_a_column_twice_in_an_order_is_refused_where_it_cannot_run(
    text: str, is_refused: bool
) -> None:
    if not is_refused:
        assert analysed(text)
        return
    with pytest.raises(InvalidQueryError, match="cannot compute"):
        analysed(text)


def test_a_preprocess_says_what_cannot_run_over_no_rows(tmp_path: Path) -> None:
    text = "select first_value(s order by n, n) as s from input where n > 5 group by x"
    with pytest.raises(InvalidQueryError, match="cannot compute"):
        asked(text, ROWS.slice(0, 0), tmp_path)


def test_a_plan_refuses_what_cannot_join_in_the_order_that_a_step_may_choose() -> None:
    """Over no rows DataFusion exchanges the sides of this join, and fails if it does not."""
    inner = (
        "select *, cast(dense_rank() over (partition by n order by n desc) as bigint) as r from a"
    )
    rank = "cast(rank() over (partition by v.r order by v.event_time desc) as bigint)"
    other = f"(select * from ({inner}) as q where r = 1) as v"
    with pytest.raises(InvalidQueryError, match="SanityCheckPlan"):
        analysed(f"select v.event_time, {rank} as n from a right join {other} on a.n = v.n")


@pytest.mark.parametrize(
    "text",
    [
        f"select distinct on (k) k, n from {EITHER}",
        f"select k, count(*) over (rows unbounded preceding) as c from {EITHER}",
        f"select k, max(n) over (order by k rows 1 preceding) as c from {EITHER}",
        f"select k, n from {EITHER} limit 3",
        f"select k, avg(n) as n from {EITHER} group by k",
    ],
)
def test_what_goes_by_order_is_refused_beside_a_union(text: str) -> None:
    steps = steps_of(TransformSql(engine="datafusion", query=text))
    found = step_findings(steps, 0, steps[0].statement, ("a", "b"))
    assert Reason.ORDER in {each.reason for each in found}


TWICE = "(select n, x from a union all select n, x from a) as q"
TAKEN = [
    ["select sum(n) as z from {}"],
    ["select sum(distinct n) as z, max(x) as x, count(*) as c from {}"],
    ["select n, sum(n + 1) filter (where n > 1) as z from {} group by n"],
    ["select sum(cast(x as decimal(9, 2))) as z from {}"],
    ["select x, z from (select x, sum(n) as z from {} group by x) as b"],
    ["select n from a where n in (select sum(n) from {})"],
    ["select sum(x) as z from a where s <> 'Union' and s <> '\nUnion [' and s <> 'Subquery:'"],
    ['select sum("Union") as "Union" from (select x as "Union", \'Union\' as u from a) as "Union"'],
    ["select sum(n) as z, 'Subquery:' as y from {}"],
    ["select sum(x) as z from a", "select z from s1 where z > 1 union all select z from s1"],
    ["select sum(x) as z from a union all select sum(x + 1) as z from a"],
    ["select n from a where x < (select sum(x) from a)", "select n from s1 union select n from s1"],
]
REFUSED = [
    ["select sum(x) as z from {}"],
    ["select sum(n) as m, sum(x) + 1 as z from {} group by n"],
    ["select sum(distinct x) as z from {}"],
    ["select n from a where n < (select sum(x) from {})"],
    ["select sum(s) > 3 as z from (select n as s from a union select x from a)"],
    ["select sum(case when n = 1 then n else x end) > 3 as z from {}"],
    ['select sum("sum(n)") as z from (select x as "sum(n)" from {})'],
    ["with u as (select * from {}) select n, sum(cast(x as real)) as z from u group by n"],
    ["select n, x from {}", "select sum(x) as z from s1"],
    ["select n, x from {}", "select n from s1 order by (select sum(x) from s1), n"],
    ["select sum(z) as z from (select n, max(x) as z from {} group by n)"],
    ["select sum(b.x) as z from a as b join {} on b.n = q.n"],
]


def _sums(texts: list[str]) -> None:
    """Look at the sums of steps, of which each reads the one before."""
    *before, last = [text.replace("{}", TWICE) for text in texts]
    steps = [(f"s{number}", text) for number, text in enumerate(before, 1)]
    with query_context(spill=None, clock=False, joins_subqueries=True) as context:
        context.add("a", ROWS)
        check_sums(last_of(context, [*steps, (None, last)]))


@pytest.mark.parametrize("texts", TAKEN, ids=str)
def test_sums_that_no_order_changes_are_taken_beside_a_union(texts: list[str]) -> None:
    _sums(texts)


@pytest.mark.parametrize("texts", REFUSED, ids=str)
def test_sums_of_floating_point_numbers_of_a_union_are_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidQueryError, match="UNION") as refused:
        _sums(texts)
    assert "in no order" in refused.value.why


def test_a_plan_refuses_sums_that_go_by_order_and_a_preprocess_does_not(tmp_path: Path) -> None:
    either = "(select event_time, n * 1.5 as x from a union all select event_time, 0.5 from a) as q"
    with pytest.raises(InvalidQueryError, match="beside a UNION"):
        analysed(f"select max(event_time) as event_time, sum(x) as z from {either}")
    below = f"a where n > (select sum(x) from {either})"
    with pytest.raises(InvalidQueryError, match="beside a UNION"):
        analysed(f"select max(event_time) as event_time, count(*) as z from {below}")
    alone = "(select event_time, n from a where n * 1.5 < (select sum(n * 1.5) from a))"
    united = f"select event_time, n from {alone} as p union select event_time, n from {alone} as q"
    assert analysed(united)
    text = "select sum(x) as z from (select x from input union all select x from input) as q"
    assert asked(text, ROWS, tmp_path).column("z").to_pylist() == [3.0]


@pytest.mark.parametrize("sets", ["rollup (n, s)", "cube (n, s)", "grouping sets ((s), (n))"])
@pytest.mark.parametrize(
    "text",
    [
        "select n, s, count(*) as c from {} group by SETS",
        "select n, s, sum(n) as c from {} group by SETS",
        "select n, s, max(n) as c from {} where n = 1 group by SETS",
        "with u as (select * from {}) select n, s, min(n) as c from u group by SETS",
        "select n from input where n in (select count(*) from {} group by SETS)",
    ],
)
def test_groups_of_several_kinds_are_refused_beside_a_union(
    text: str, sets: str, tmp_path: Path
) -> None:
    either = "(select n, s from input union all select n, s from input) as q"
    with pytest.raises(InvalidQueryError, match="beside a UNION"):
        asked(text.replace("{}", either).replace("SETS", sets), ROWS, tmp_path)
    alone = text.replace("{}", "input as q").replace("SETS", sets)
    both = f"select 'ROLLUP (' as t, 'Union' as u, n from ({alone}) as r"
    assert asked(both, ROWS, tmp_path).num_columns == 3


def test_a_step_that_others_read_skips_no_rows_without_a_limit() -> None:
    texts = (
        SqlQueryStep(alias="s", query="select n from a order by n offset 1"),
        SqlQueryStep(alias=None, query="select n from s"),
    )
    steps = steps_of(TransformSql(engine="datafusion", queries=texts))
    found = examine(steps, ["a"], ())
    assert [(each.reason, each.step) for each in found.about(Reason.ORDER)] == [(Reason.ORDER, 0)]
    assert "LIMIT" in diagnostics(found, (Reason.ORDER,))[0].fix
