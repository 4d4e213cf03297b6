"""One query over one history: what its steps leave, beside what plain batch SQL gives."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.text.steps import steps_of
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.oracles import Asked, PlainSpark, counted, duck_rows
from tests.rule.grammar.queries import Composed, composed
from tests.rule.grammar.tables import Table, drawn_history, drawn_tables
from tests.rule.histories import History
from tests.rule.inputs import Row
from tests.rule.rows import standing
from tests.rule.steps import played

__all__ = ["Outcome", "Pair", "Record", "columns_of", "drawn_pair", "outcome"]

Record = tuple[Sequence[int], Sequence[int]]
_OF_VALUES = "SQLSTATE: 22"  # data exceptions of the SQL standard
_SYSTEM = {"offset", "op", "system_time"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a history, and the record of choices that makes both again."""

    tables: tuple[Table, ...]
    query: Composed
    history: History
    record: Record


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pair: `same`, `differs`, `fails`, `refused`, or `invalid` for both sides.

    `lenient` is a query that fails over a value of the full inputs (a text that is no time, in a
    row that nothing needs) and whose steps had no need to compute that value.
    `kind` is the class of the query; `why` the reason, `duck` what DuckDB has to say.
    """

    name: str
    kind: str
    why: str = ""
    duck: str = ""


def drawn_pair(seed: int, number: int = 0, record: Record | None = None) -> Pair:
    """Return the pair of a seed; other numbers give the same query over other histories.

    With a record only that counts.
    """
    shape = Choices(None if record else f"query {seed}", record[0] if record else ())
    tables = drawn_tables(shape)
    query = composed(shape, tables)
    rows = Choices(None if record else f"history {seed} {number}", record[1] if record else ())
    return Pair(tables, query, drawn_history(rows, tables), (shape.taken, rows.taken))


def columns_of(tables: Sequence[Table]) -> dict[str, DataSchema]:
    """Return the columns of inputs as queries see them."""
    found = {}
    for each in tables:
        full = from_arrow(each.schema)
        fields = tuple(field for field in full.fields if field.name not in _SYSTEM)
        found[each.name] = DataSchema(fields=fields)
    return found


def outcome(engine: SparkEngine, plain: PlainSpark, pair: Pair) -> Outcome:
    """Play the history, and compare its last state and one before with what the oracles say."""
    try:
        kind = query_class(steps_of(pair.query.transform), columns_of(pair.tables)).name
    except Exception as error:
        return Outcome("fails", "", f"{type(error).__name__}: {error}")
    states = _states(pair)
    plain.ask(pair.query, [asked for _, asked in states])
    ours: dict[int, Counter[str]] | str
    try:
        with tempfile.TemporaryDirectory() as folder:
            ours = _ours(engine, Path(folder), pair)
    except EngineFailedError as error:
        ours = f"fails: {error}"
    except OdfBuildError as error:
        codes = [each.code or type(error).__name__ for each in error.diagnostics()]
        ours = f"refused: {codes[0]}: {error.what}"
    except Exception as error:
        ours = f"fails: {type(error).__name__}: {error}"
    told = plain.answer()
    if isinstance(told, str):
        if isinstance(ours, str) or not ours:  # a history may run no step at all
            return Outcome("invalid", kind, told)
        return Outcome("lenient" if _OF_VALUES in told else "fails", kind, told)
    if isinstance(ours, str):
        name, _, why = ours.partition(": ")
        return Outcome(name, kind, why)
    duck = _duck(pair, states[-1][1], told[-1])
    for (number, _), rows in zip(states, told, strict=True):
        left, expected = ours.get(number), counted(rows)
        if left is not None and left != expected:
            why = f"step {number}: too many {left - expected}, missing {expected - left}"
            return Outcome("differs", kind, why, duck)
    return Outcome("same", kind, duck=duck)


def _ours(engine: SparkEngine, folder: Path, pair: Pair) -> dict[int, Counter[str]]:
    """Return what is in the output after each step; a step that had nothing to do leaves it."""
    found: dict[int, Counter[str]] = {}
    for step in played(engine, folder, pair.query, pair.history):
        found[step.number] = counted(standing(step.output, step.columns))
    for number in range(len(pair.history.portions)):
        if number not in found and number - 1 in found:
            found[number] = found[number - 1]
    return found


def _states(pair: Pair) -> list[tuple[int, Asked]]:
    """Return the last state of the inputs, and one before, with the numbers of their steps."""
    last = len(pair.history.portions) - 1
    early = sum(pair.record[1])
    at = sorted({early % (last + 1) if early % 3 == 0 else last, last})
    found = []
    for number in at:
        rows: dict[str, list[Row]] = {}
        for table in pair.tables:
            records = [
                each
                for portion in pair.history.portions[: number + 1]
                for each in portion.records[table.name]
            ]
            rows[table.name] = standing(records, [each.name for each in table.columns])
        mark = pair.history.portions[number].watermark
        found.append((number, Asked(pair.tables, rows, mark)))
    return found


def _duck(pair: Pair, state: Asked, told: Sequence[Row]) -> str:
    rows = duck_rows(pair.query, state)
    if rows is None:
        return "no words"
    return "same" if counted(rows) == counted(told) else "other"
