"""DuckDB's opinion on a query: its dialect is another one, and so are some of its rules."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.rule.grammar.dialects import SPARK
from tests.rule.grammar.oracles import Asked, arrow_rows
from tests.rule.grammar.queries import Composed
from tests.rule.inputs import Row

if TYPE_CHECKING:
    import duckdb

__all__ = ["duck_rows"]

_DATAFUSION = (
    (r"\bmake_array\(", "list_value("),
    (r"\barray_append\(", "list_append("),
    (r"\barray_distinct\(", "with_nulls("),  # there is none that keeps nulls
    (r"\bleft (semi|anti) join\b", r"\1 join"),
    (r"\bdate_bin\(", "time_bucket("),
    (r"\b(except|exclude) \((?!select\b|\()", "exclude ("),
    (r"\bstruct<(\w+) (\w+), (\w+) (\w+)>", r"struct(\1 \2, \3 \4)"),
    (r" <=> ", " is not distinct from "),
    (r" / 2\b", " // 2"),
    (r"\bto_timestamp_seconds\(", "to_timestamp("),
)
"""Words of DataFusion, and what they are in DuckDB."""
_CAPITAL = re.compile(r"\b([KN])\b")
_MACROS = (
    "create macro to_unixtime(t) as cast(epoch(t) as bigint)",
    "create macro nanvl(x, y) as case when isnan(x) then y else x end",
    "create macro nvl(x, y) as coalesce(x, y)",
)


def duck_rows(query: Composed, state: Asked) -> list[Row] | None:
    """Return what DuckDB makes of the query; None where its dialect has no words for it."""
    import duckdb
    import sqlglot

    database, made = _duck(query.dialect.engine), []
    for each in state.tables:
        rows = arrow_rows(each, state.rows[each.name])
        rows = rows.rename_columns(list(map(_capitals, rows.column_names)))
        database.register("arrow_rows", rows)  # over those NaN is compared as Arrow does
        database.execute(f"create or replace temp table {each.name} as from arrow_rows")
    try:
        *steps, (_, last) = query.batch(state.watermark)
        for alias, text in steps:
            database.execute(f"create temp view {alias} as {_words(query, text)}")
            made.append(alias)
        found = database.sql(_words(query, last)).to_arrow_table().to_pylist()
        return [{name.rstrip("_"): _as_told(v) for name, v in row.items()} for row in found]
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        return None
    finally:
        for alias in reversed(made):
            database.execute(f"drop view {alias}")
        for each in state.tables:
            database.execute(f"drop table {each.name}")


def _words(query: Composed, text: str) -> str:
    """Return a text in DuckDB's words."""
    import sqlglot

    if query.dialect == SPARK:
        return sqlglot.transpile(text, read="spark", write="duckdb")[0]
    for pattern, word in _DATAFUSION:
        text = re.sub(pattern, word, text, flags=re.IGNORECASE)
    return _capitals(text)


def _capitals(text: str) -> str:
    """Return names with capitals as others: DuckDB takes them for those without."""
    return _CAPITAL.sub(r"\1_", text)


@cache
def _duck(engine: str) -> "duckdb.DuckDBPyConnection":
    """Return the database of this process: to open one takes ten times as long as to ask it."""
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    database.execute("set timezone = 'UTC'")
    if engine != SPARK.engine:
        database.execute("set default_null_order = 'nulls_last_on_asc_first_on_desc'")
        for macro in _MACROS:
            database.execute(macro)
    return database


def _as_told(value: Any) -> Any:
    """Return a value as engines give it: sums of DuckDB are decimal, its times may lack a zone."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else value
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_as_told(each) for each in value]
    return value
