"""Those who know what a query means of itself: engines that are given all rows at once."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from odfbuild.executors.engine.spark.jvm.java import find_java
from tests.rule.grammar.plain_spark import plain
from tests.rule.grammar.queries import Composed
from tests.rule.grammar.tables import Table, literal
from tests.rule.inputs import Row

__all__ = ["Asked", "Oracle", "PlainSpark", "Unanswered", "arrow_rows", "counted"]

_OF_VALUES = "SQLSTATE: 22"  # data exceptions of the SQL standard
_SCRIPT = Path(__file__).with_name("plain_spark.py")


@dataclass(frozen=True, slots=True)
class Asked:
    """A query over the current rows at some time."""

    tables: tuple[Table, ...]
    rows: Mapping[str, Sequence[Row]]
    watermark: int | None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there are no rows; `of_values` tells that it is for a value in them."""

    why: str
    of_values: bool


class Oracle(Protocol):
    """What answers plain batch queries, one question at a time."""

    def ask(self, query: Composed, states: Sequence[Asked]) -> None:
        """Ask; the answer is to be fetched before the next question."""

    def answer(self) -> list[list[Row]] | Unanswered:
        """Return the rows of each state."""

    def close(self) -> None:
        """Free everything."""


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

    def answer(self) -> list[list[Row]] | Unanswered:
        """Return the rows of each state, or why there are none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process of plain Spark has ended: {self._log.read_text()[-2000:]}"
        found = json.loads(line)
        if "error" in found:
            return Unanswered(found["error"], _OF_VALUES in found["error"])
        return list(found["rows"])

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


def arrow_rows(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table; what is in a struct that is null is null."""
    names = [each.name for each in table.columns]
    schema = pa.schema([table.schema.field(name) for name in names])
    made = pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)
    return pa.table([_with_nulls(each) for each in made.columns], schema)


def _with_nulls(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if not pa.types.is_struct(found.type):
        return found
    fields = [found.type.field(number) for number in range(found.type.num_fields)]
    return pa.StructArray.from_arrays(found.flatten(), fields=fields, mask=found.is_null())
