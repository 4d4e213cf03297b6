"""Edits of queries: the gate says of them the same for DataFusion as for Spark, and what is so.

The oracle runs the query before and after the edit over the same rows, in DataFusion: where the
gate says that neither values nor rows change, the columns that both give are equal.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import datafusion
import pyarrow as pa

from odfbuild.planner.evolution.columns.query_diff import compare_queries
from odfbuild.sql.text.steps import QueryStep
from tests.planner.evolution.assessing import Versions, derivative, root
from tests.planner.evolution.datafusion_versions import answer, for_datafusion
from tests.planner.evolution.edited_queries import Edited, edited
from tests.support.effort import examples

_FIRST = 1600
_DRAWN = examples(25, 5_000)
_UNKNOWN = {"ODF212", "ODF213", "ODF312"}
_OTHERWISE = {"ODF310"}  # what a step has to read differs between engines
_TIMES = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(9)]
_ROWS = pa.table(
    {
        "event_time": pa.array(_TIMES, pa.timestamp("ms", "UTC")),
        "id": pa.array([1, 2, 2, 3, None, 1, 0, 2, 1], pa.int64()),
        "fee": pa.array([None] * 9, pa.decimal128(18, 2)),
        "note": pa.array(["x", "y", "x", None, "x", "Y", "y", "x", "z"], pa.string()),
    }
)


def test_edits_are_of_the_same_classes_as_for_spark_and_of_the_right_ones() -> None:
    outcomes = Counter(map(_outcome, range(_FIRST, _FIRST + _DRAWN)))
    assert outcomes["changed"] > 0.5 * _DRAWN, outcomes
    assert outcomes["invalid"] < 0.2 * _DRAWN, outcomes


def _outcome(seed: int) -> str:
    query = edited(seed)
    rows = [_rows(query.before), _rows(query.after)]
    if None in rows:
        return "invalid"
    before, after = ((root("src"), derivative("out", e)) for e in (query.before, query.after))
    of_spark = Versions(before, after).hits("out")
    versions = Versions(for_datafusion(before), for_datafusion(after))
    ours = versions.hits("out", engine=answer)
    spark, found = ({(e.code, e.column) for e in hits} for hits in (of_spark, ours))
    shown = f"{seed}\n{query.before}\n{query.after}\n{sorted(map(str, spark ^ found))}"
    if "ODF211" in _codes(spark | found):  # the engine gives no types without an event time
        assert "ODF211" in _codes(spark) & _codes(found), shown
        assert "ODF213" not in _codes(found), shown
    elif _UNKNOWN.isdisjoint(_codes(spark | found)):
        assert {e for e in spark ^ found if e[0] not in _OTHERWISE} == set(), shown
    for engine in ("spark", "datafusion"):
        _check_values(query, engine, *rows)
    return "changed" if found else "same"


def _codes(hits: set[tuple[str, str | None]]) -> set[str]:
    return {code for code, _ in hits}


def _check_values(query: Edited, engine: str, before: Any, after: Any) -> None:
    texts = (query.before, query.after)
    one, other = ([QueryStep(None, each, (), engine)] for each in texts)
    rewrite = compare_queries(one, other)
    both = [name for name in before.column_names if name in after.column_names]
    if rewrite.same:
        assert _counted(before, both) == _counted(after, both), query
    elif not rewrite.rows and "*" not in rewrite.changed:
        kept = [name for name in both if name in rewrite.kept]
        assert _counted(before, kept) == _counted(after, kept), query


def _counted(rows: pa.Table, names: list[str]) -> Counter[str]:
    return Counter(str(sorted(each.items())) for each in rows.select(names).to_pylist())


def _rows(text: str) -> pa.Table | None:
    """Return what a query gives; None of one that fails."""
    config = datafusion.SessionConfig().with_target_partitions(1)
    config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
    context = datafusion.SessionContext(config)
    context.from_arrow(_ROWS, "src")
    try:
        return context.sql(text).to_arrow_table()
    except BaseException:  # a panic of Rust is no Exception
        return None
