"""The rule of incremental results: after every step the output is what one batch query gives."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import datafusion
import pyarrow as pa
import pytest

from odfbuild.executors.data.changelog import current_table
from odfbuild.executors.data.rows import hashable_keys, with_one_zero
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.odf.events import TransformSql
from odfbuild.sql.query import Query
from tests.rule.histories import history
from tests.rule.inputs import SYSTEM
from tests.rule.rows import standing as rows_left
from tests.rule.steps import VOCAB, Log, Played, played
from tests.support.effort import examples


@dataclass(frozen=True)
class DataFusionQuery:
    """One text, with the class that the plan shows."""

    text: str
    kind: str
    inputs: tuple[str, ...] = ("a",)

    @property
    def transform(self) -> TransformSql:
        return TransformSql(engine="datafusion", query=self.text)


LINEAR = (
    "select * from a",
    "select * from 'a' where n > 1 or k is null",
    "select event_time, k as K, n / 2 as half, case when n > 1 then 'b' else k end as size from a",
    "with c as (select *, n + m as s from a where m < 2) select event_time, s, s % 2 as odd from c",
    "select event_time, n from (select * from a where k = 'p') as q where n is not null",
    "select event_time, cast(x as varchar) as t, x * 2 as y from a where not (x < 1)",
    "select event_time, 1.0 / x as y, -x as z, atan2(x, -1.0) as w, x > 0 as p from a",
    "select event_time, k, make_array(x, -x, 1.0 / x) as l from a where n > 0",
    "select event_time, named_struct('x', x, 'y', make_array(cast(x as varchar))) as s from a",
)
UNITED = (
    "select event_time, k, n from a union all select event_time, k, w from b where w > 0",
    "select event_time, k, n from a where n > 0 union all select event_time, k, m from a",
)
WHOLE = (
    "select max(event_time) as event_time, k, sum(n) as s, count(*) as c from a group by k",
    "select distinct event_time, n from a",
    "select event_time, k, row_number() over (partition by k order by n) as r, x from a",
    "select event_time, k, sum(x) over (partition by k) as s from a",
    "select max(event_time) as event_time, k, avg(x) as s, sum(x) as t from a group by k",
    "select event_time, k, n from a order by n, k limit 3",
    "select min(event_time) as event_time, date_bin(interval '2 hours', event_time) as w, "
    "max(n) as n from a group by date_bin(interval '2 hours', event_time)",
    "select event_time, n from a where n = (select max(n) from a)",
    "select min(event_time) as event_time, string_agg(k, ',') as ks from a group by n "
    "having count(*) > 1",
    "select event_time, k from a except select event_time, k from a where n > 1",
    "select max(event_time) as event_time, cast(x as varchar) as t, count(*) as c from a "
    "group by cast(x as varchar)",
    "select distinct event_time, make_array(x, 1.0 / x) as l from a",
)
JOINS = (
    "select a.event_time, a.k, n, w from a join b on a.k = b.k",
    "select a.event_time, a.k, n, w from a left join b on a.k = b.k and a.n = b.w",
    "select event_time, n from a where not exists (select 1 from b where b.k = a.k)",
    "select max(a.event_time) as event_time, a.k, sum(n * w) as s from a join b on a.k = b.k "
    "group by a.k",
)
ALL = (
    *(DataFusionQuery(each, "linear") for each in LINEAR),
    *(DataFusionQuery(each, "linear", ("a", "b")) for each in UNITED[:1]),
    *(DataFusionQuery(each, "linear") for each in UNITED[1:]),
    *(DataFusionQuery(each, "whole") for each in WHOLE),
    *(DataFusionQuery(each, "whole", ("a", "b")) for each in JOINS),
)


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    names = sorted(table.column_names)
    return Counter(hashable_keys(with_one_zero(table.select(names))))


def standing(log: Log, *, ordered: bool) -> pa.Table:
    schema = pa.schema([each for each in log.schema if each.name not in SYSTEM])
    rows = pa.Table.from_pylist(rows_left(log.records, schema.names), schema)
    return rows.sort_by([(name, "ascending") for name in schema.names]) if ordered else rows


def batch_result(query: DataFusionQuery, step: Played) -> pa.Table:
    """Return what a plain context gives of all rows at once."""
    config = datafusion.SessionConfig(
        {"datafusion.sql_parser.enable_ident_normalization": "false"}
    ).with_target_partitions(1)
    context = datafusion.SessionContext(config)
    for name, log in step.inputs.items():
        rows = standing(log, ordered=query.kind == "whole")
        context.register_record_batches(name, [rows.to_batches() or [empty(rows.schema)]])
    return context.sql(query.text).to_arrow_table()


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def output_of(step: Played, like: pa.Schema) -> pa.Table:
    kinds = {each.name: _stored(each.type) for each in like}
    schema = pa.schema([("offset", pa.int64()), ("op", pa.int32()), *kinds.items()])
    wanted = [{name: row.get(name) for name in schema.names} for row in step.output]
    return current_table(pa.Table.from_pylist(wanted, schema), list(kinds), VOCAB)


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _stored(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_type))
    return pa.string() if pa.types.is_string_view(kind) else kind


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.text[:60])
def test_every_step_leaves_what_one_batch_query_gives(
    query: DataFusionQuery, tmp_path: Path
) -> None:
    engine = DataFusionEngine()
    for seed in range(examples(3, 100)):
        draw, folder = Random(f"{query.text}{seed}"), tmp_path / str(seed)
        folder.mkdir()
        for step in played(engine, folder, query, history(draw, query.inputs)):
            expected = batch_result(query, step)
            found = output_of(step, expected.schema)
            expected = expected.select(found.column_names).cast(found.schema)
            assert counted(found) == counted(expected), f"seed {seed}, step {step.number}"


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.text[:60])
def test_the_class_that_a_plan_shows_is_the_one_that_is_run(query: DataFusionQuery) -> None:
    from odfbuild.sql.analysis.classes import class_run

    steps = Query.of(query.transform, (), VOCAB).steps
    assert class_run(steps, dict.fromkeys(query.inputs)).name == query.kind
