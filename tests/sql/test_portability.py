"""The list of what Spark and DataFusion read alike: what is in it, and where the rest is named."""

import pyarrow as pa
import pytest

from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.portability.queries import unportable_part
from odfbuild.sql.text.steps import DATAFUSION, SPARK, QueryStep

_MILLIS = pa.timestamp("ms", "UTC")
_A = [
    ("event_time", _MILLIS), ("k", pa.string()), ("n", pa.int64()), ("i", pa.int32()),
    ("j", pa.int16()), ("d", pa.decimal128(12, 3)), ("w", pa.decimal128(38, 10)),
    ("x", pa.float64()), ("f", pa.float32()), ("h", pa.bool_()), ("u", pa.date32()),
    ("q", pa.uint32()), ("l", pa.list_(pa.int32())),
]  # fmt: skip
_B = [("event_time", _MILLIS), ("k", pa.string()), ("v", pa.int64())]
INPUTS: dict[str, DataSchema | None] = {
    "a": from_arrow(pa.schema(_A)),
    "b": from_arrow(pa.schema(_B)),
}
LISTED = (
    "select * from b",
    "select event_time, k, n from a where n > 0 and not (h or k is null)",
    "select event_time, cast(i as bigint) + 1 as m, cast(j as int) * cast(2 as int) as t from a",
    "select event_time, cast(n as decimal(19, 0)) * cast(2 as decimal(1, 0)) as m from a",
    "select event_time, x * 2e0 - 1 as y from a where x between -1 and 15e-1",
    "select event_time, case when h then n else 0 end as m, coalesce(k, '') || 'é' as t from a",
    "select event_time, case k when 'p' then cast(1 as int) end as m from a where k in ('p', 'q')",
    "select event_time, length(k) as m, extract(year from event_time) as y from a",
    "select cast(event_time as date) as event_time, h from a where u >= cast('2024-02-29' as date)",
    "select max(event_time) as event_time, k, count(*) as c, sum(i) as s, min(x) as m from a "
    "group by k having count(*) > 1",
    "select cast(event_time as date) as event_time, count(distinct k) as c, sum(d) as s from a "
    "group by cast(event_time as date)",
    "select l.event_time, l.k, r.v from a as l left join b as r on l.k = r.k and r.v > 0",
    "select l.event_time, r.v from a as l join (select k, v from b) as r on l.k = r.k",
    "select event_time, k from a union all select event_time, k from b",
    "with p as (select event_time, k from a) select event_time, k from p -- of p",
    "select distinct event_time, k from b",
    "select event_time, cast(null as int) as m, cast(h as string) as t from a",
    "select max(event_time) as event_time, min(i) as s, min(a.i) as t, max(cast(i as bigint)) as u "
    "from a group by k having min(i) > 0",
    "select l.event_time, r.v from a as l join b as r on l.n = r.v and cast(l.i as bigint) = r.v "
    "and l.i = r.v where l.k || (l.k || r.k) <> (l.k || l.k) || r.k",
)
NOT_LISTED = {
    "select event_time, upper(k) as k from a": "upper",
    "select event_time, n + 1 as m from a": "n",
    "select event_time, i + cast(1 as int) as m from a": "i",
    "select event_time, i + 1 as m from a": "i",
    "select event_time, j * 2 as m from a": "j",
    "select event_time, 1 as m from a": "m",
    "select event_time, coalesce(i, 0) as m from a": "coalesce",
    "select event_time, n / 2 as m from a": "/",
    "select event_time, n % 2 as m from a": "%",
    "select event_time, 1.5 as m from a": "1.5",
    "select event_time, w * w as m from a": "w",
    "select event_time, cast(x as bigint) as m from a": "x",
    "select event_time, cast(k as int) as m from a": "k",
    "select event_time, cast(d as string) as m from a": "d",
    "select event_time, cast('2024-2-1' as date) as m from a": "select",
    "select event_time, cast('2023-02-29' as date) as m from a": "select",
    "select event_time, try_cast(i as bigint) as m from a": "i",
    "select event_time, cast(i as decimal) as m from a": "decimal",
    "select event_time, k from a where cast(i as decimal) * cast(i as decimal) > 10": "decimal",
    "select event_time, cast(null as decimal) as m from a": "decimal",
    "select event_time, k from a where +event_time = event_time": "+",
    "select event_time, cast(n as decimal(19, 0)) * +cast(2 as decimal(1, 0)) as m from a": "+",
    "select event_time, +(+(u)) as m from a": "+",
    "select all event_time, k from a": "all",
    "select max(event_time) as event_time, count(all k) as c from a group by k": "all",
    "select event_time, x * 2 > 0 as m from a": "x",
    "select event_time, i = x as m from a": "i",
    "select event_time, d = w as m from a": "d",
    "select event_time, k = n as m from a": "k",
    "select event_time, (n > 1) = h as m from a": "n",
    "select event_time, n between 1 and 2 = true as m from a": "n",
    "select event_time, k like 'p%' as m from a": "like",
    "select event_time, k from a order by k limit 1": "order by",
    "select event_time, row_number() over (partition by k order by n) as m from a": "over",
    "select max(event_time) as event_time, sum(n) as s from a group by k": "sum",
    "select max(event_time) as event_time, sum(x) as s from a group by k": "sum",
    "select max(event_time) as event_time, avg(i) as s from a group by k": "avg",
    "select max(event_time) as event_time, max(x * 2) as s from a group by k": "max",
    "select max(event_time) as event_time, x from a group by x": "x",
    "select max(event_time) as event_time, k as n from a group by k having n > 1": "n",
    "select max(event_time) as event_time, 'p' as k from a group by 'p'": "select",
    "select max(event_time) as event_time, k from a group by k, 1": "select",
    "select max(event_time) as event_time from a": "max",
    "select max(event_time) as event_time, min(i) as s, min(cast(a.i as bigint)) as t from a "
    "group by k": "min(cast",
    "select max(event_time) as event_time, count(distinct i) as s from a group by k "
    "having count(distinct cast(i as bigint)) > 1": "count(distinct cast",
    "select max(event_time) as event_time, count((h and h) or h) as s, count(h and (h or h)) as t "
    "from a group by k": "count(h and (",
    "select max(event_time) as event_time from a group by k, cast(a.k as string)": "k as",
    "select max(event_time) as event_time from a group by k || ('p' || k), (k || 'p') || k": (
        "k || 'p') ||"
    ),
    "select l.event_time from a as l join b as r on (l.k || l.k) || l.k = r.k "
    "and l.k || (l.k || l.k) = r.k": "k || (",
    "select l.event_time from a as l join b as r on (l.k || l.k) || l.k = r.k "
    "where l.k || (l.k || l.k) = r.k": "k || (",
    "select * from a": "*",
    "select event_time, q from a": "q",
    "select event_time, l from a": "l",
    "select event_time, f from a": "f",
    "select event_time, 'a\\'b' as m from a": "",
    "select * from a join b on a.k = b.k": "*",
    "select a.event_time, v from a join b using (k)": "using",
    "select a.event_time, k from a join b on a.k = b.k": "k",
    "select a.event_time from a cross join b": "cross join",
    "select event_time, k from a union select event_time, k from b": "select",
    "select event_time, n from a union all select event_time, k from b": "select",
    "select event_time, k from a where exists (select 1 from b)": "exists",
    "select event_time, (select max(v) from b) as m from a": "select",
    "select event_time, `k` from a": "`k`",
    "select event_time, \"k\" from a": '"k"',
    "select event_time, 'it''s' as m from a": "'",
    "select event_time, 'a\\nb' as m from a": "'",
    "select event_time, 1L as m from a": "1",
    "select current_date as event_time from a": "current_date",
    "select event_time, user as m from a": "user",
    "select event_time, k, k from a": "select",
    "select event_time, n * n from a": "n",
    "select event_time, k || k from a": "k",
    "select event_time, nothing from a": "nothing",
    "select event_time from c": "c",
    "select event_time, k + 1 as m, m as o from a": "k",
}  # fmt: skip


@pytest.mark.parametrize("engine", [SPARK, DATAFUSION])
@pytest.mark.parametrize("text", LISTED)
def test_what_is_listed_is_so_in_either_engine(text: str, engine: str) -> None:
    assert unportable_part([QueryStep(None, text, engine=engine)], INPUTS) is None


@pytest.mark.parametrize("text", NOT_LISTED)
def test_what_is_not_listed_is_named_with_its_place(text: str) -> None:
    found = unportable_part([QueryStep(None, text)], INPUTS)
    assert found is not None
    assert found.what
    assert text[found.place.start :].lower().startswith(NOT_LISTED[text].lower())


def test_a_part_of_a_later_step_is_found_there() -> None:
    steps = [QueryStep("s1", "select event_time, k from a"), QueryStep(None, "select z from s1")]
    found = unportable_part(steps, INPUTS)
    assert found is not None
    assert (found.step, found.place.start) == (1, 7)


@pytest.mark.parametrize(
    "steps",
    [
        [QueryStep(None, "select event_time from a", (("a", ("k",)),))],
        [QueryStep("b", "select event_time from a"), QueryStep(None, "select event_time from b")],
    ],
)
def test_versions_of_tables_and_hidden_inputs_are_not_listed(steps: list[QueryStep]) -> None:
    assert unportable_part(steps, INPUTS) is not None


def test_nothing_is_said_of_columns_that_are_not_known() -> None:
    found = unportable_part([QueryStep(None, "select event_time from a")], {"a": None})
    assert found is not None
    assert "not known" in found.what
