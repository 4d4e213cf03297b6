"""Those who know what a query means of itself: plain Spark in another process, and DuckDB."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odfbuild.executors.engine.spark.jvm.java import find_java
from tests.rule.grammar.plain_spark import plain
from tests.rule.grammar.queries import Composed
from tests.rule.grammar.tables import Table, literal
from tests.rule.inputs import Row

if TYPE_CHECKING:
    import duckdb

__all__ = ["Asked", "PlainSpark", "counted", "duck_rows"]

_SCRIPT = Path(__file__).with_name("plain_spark.py")


@dataclass(frozen=True, slots=True)
class Asked:
    """A query over the rows that stand at some time."""

    tables: tuple[Table, ...]
    rows: Mapping[str, Sequence[Row]]
    watermark: int | None


class PlainSpark:
    """A process that answers plain batch queries; one question may be under way."""

    def __init__(self, folder: Path, java_options: Sequence[str] = ()) -> None:
        java = find_java()
        env = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "TZ": "UTC",
            "SPARK_LOCAL_DIRS": str(folder),
        }
        env.pop("PYTHONPATH", None)
        self._log = folder / "plain-spark.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_SCRIPT), *java_options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=env,
            )

    def ask(self, query: Composed, states: Sequence[Asked]) -> None:
        """Ask; the answer is to be fetched before the next question."""
        asked = []
        for state in states:
            *steps, (_, last) = query.batch(state.watermark)
            views = [[each.name, _values(each, state.rows[each.name])] for each in state.tables]
            asked.append({"views": [*views, *map(list, steps)], "query": last})
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"states": asked}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[list[Row]] | str:
        """Return the rows of each state, or why there are none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process of plain Spark has ended: {self._log.read_text()[-2000:]}"
        found = json.loads(line)
        return str(found["error"]) if "error" in found else list(found["rows"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._process:  # closes its output, and waits
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()


def counted(rows: Sequence[Row]) -> Counter[str]:
    """Count equal rows."""
    return Counter(
        json.dumps({name: plain(value) for name, value in row.items()}, sort_keys=True)
        for row in rows
    )


def duck_rows(query: Composed, state: Asked) -> list[Row] | None:
    """Return what DuckDB makes of the query; None where its dialect has no words for it."""
    import duckdb
    import sqlglot

    database, made = _duck(), []
    for each in state.tables:
        database.register(each.name, _arrow(each, state.rows[each.name]))
    try:
        *steps, (_, last) = query.batch(state.watermark)
        for alias, text in steps:
            told = sqlglot.transpile(text, read="spark", write="duckdb")[0]
            database.execute(f"create temp view {alias} as {told}")
            made.append(alias)
        told = sqlglot.transpile(last, read="spark", write="duckdb")[0]
        found = database.sql(told).to_arrow_table().to_pylist()
        return [{name: _as_spark(value) for name, value in row.items()} for row in found]
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        return None
    finally:
        for alias in reversed(made):
            database.execute(f"drop view {alias}")
        for each in state.tables:
            database.unregister(each.name)


@cache
def _duck() -> "duckdb.DuckDBPyConnection":
    """Return the database of this process: to open one takes ten times as long as to ask it."""
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    database.execute("set timezone = 'UTC'")
    return database


def _as_spark(value: Any) -> Any:
    """Return a value of DuckDB as one of Spark: its sums are decimal, its times may lack a zone."""
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_as_spark(each) for each in value]
    return value


def _values(table: Table, rows: Sequence[Row]) -> str:
    names = ", ".join(each.name for each in table.columns)
    every = [
        "(" + ", ".join(literal(each, row[each.name]) for each in table.columns) + ")"
        for row in rows
    ]
    if every:
        return f"select * from values {', '.join(every)} as v({names})"
    nothing = ", ".join(f"{literal(each, None)} as {each.name}" for each in table.columns)
    return f"select {nothing} where false"


def _arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    names = [each.name for each in table.columns]
    schema = pa.schema([table.schema.field(name) for name in names])
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)
