"""One query over one history: what its steps leave, beside what plain batch SQL gives."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.analysis import AnalysedInput, Analysis, QueryAnalyser
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.text.steps import steps_of
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import SPARK, Dialect
from tests.rule.grammar.duck import duck_rows
from tests.rule.grammar.oracles import Asked, Oracle, Unanswered, counted
from tests.rule.grammar.queries import Composed, composed
from tests.rule.grammar.tables import Table, drawn_history, drawn_tables
from tests.rule.histories import History
from tests.rule.inputs import Row
from tests.rule.rows import standing
from tests.rule.steps import VOCAB, Transforms, played

__all__ = ["Outcome", "Pair", "Record", "columns_of", "drawn_pair", "outcome"]

Record = tuple[Sequence[int], Sequence[int]]
_OF_VALUES = "the query returns rows without"
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
    `kind` is the class of the query; `why` the reason, `duck` what DuckDB has to say: `same`,
    `other`, `order` where that of rows decides and may be another there, or `no words`.
    """

    name: str
    kind: str
    why: str = ""
    duck: str = ""
    of_values: bool = False


def drawn_pair(
    seed: int, number: int = 0, record: Record | None = None, dialect: Dialect = SPARK
) -> Pair:
    """Return the pair of a seed; other numbers give the same query over other histories.

    With a record only that counts.
    """
    shape = Choices(None if record else f"query {seed}", record[0] if record else ())
    tables = drawn_tables(shape, dialect)
    query = composed(shape, tables, dialect)
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


def outcome(
    engine: Transforms, plain: Oracle, pair: Pair, plans: QueryAnalyser | None = None
) -> Outcome:
    """Play the history, and compare its last state and one before with what the oracles say.

    With `plans` a plan, too, has to say whether there will be rows.
    """
    found = _outcome(engine, plain, pair)
    if plans is None or found.name == "fails":
        return found
    refused = _refused(plans, pair)
    if found.name == "same" and refused is not None and not _has_records(pair):
        return replace(found, name="refused", why=refused)  # no step ran
    if found.name in {"same", "differs", "lenient"} and refused is not None:
        return replace(found, name="fails", why=f"the plan refuses what steps do: {refused}")
    if found.name in {"refused", "invalid"} and refused is None and not found.of_values:
        return replace(found, name="fails", why=f"the plan does not refuse it: {found.why}")
    return found if refused is None else replace(found, why=refused)


def _has_records(pair: Pair) -> bool:
    return any(rows for each in pair.history.portions for rows in each.records.values())


def _refused(plans: QueryAnalyser, pair: Pair) -> str | None:
    """Return why a plan refuses the query, with the code in front."""
    inputs = (AnalysedInput(each.name, from_arrow(each.schema), VOCAB) for each in pair.tables)
    steps = steps_of(pair.query.transform)
    try:
        plans.analyse(Analysis(steps=steps, inputs=tuple(inputs), vocab=VOCAB))
    except OdfBuildError as error:
        return _coded(error)
    return None


def _coded(error: OdfBuildError) -> str:
    codes = [each.code or type(error).__name__ for each in error.diagnostics()]
    return f"{codes[0]}: {error.what}"


def _outcome(engine: Transforms, plain: Oracle, pair: Pair) -> Outcome:
    try:
        kind = query_class(steps_of(pair.query.transform), columns_of(pair.tables)).name
    except Exception as error:
        return Outcome("fails", "", f"{type(error).__name__}: {error}")
    states = _states(pair)
    plain.ask(pair.query, [asked for _, asked in states])
    ours: dict[int, Counter[str]] | Outcome
    try:
        with tempfile.TemporaryDirectory() as folder:
            ours = _ours(engine, Path(folder), pair)
    except EngineFailedError as error:
        ours = Outcome("fails", kind, str(error))
    except OdfBuildError as error:
        of_values = error.what.startswith(_OF_VALUES)
        ours = Outcome("refused", kind, _coded(error), of_values=of_values)
    except Exception as error:
        ours = Outcome("fails", kind, f"{type(error).__name__}: {error}")
    answer = plain.answer()
    if isinstance(answer, Unanswered):
        if isinstance(ours, Outcome) or not ours:  # a history may run no step at all
            return Outcome("invalid", kind, answer.why, of_values=answer.of_values)
        return Outcome("lenient" if answer.of_values else "fails", kind, answer.why)
    if isinstance(ours, Outcome):
        return ours
    duck = _duck(pair, states[-1][1], answer[-1])
    for (number, _), rows in zip(states, answer, strict=True):
        left, expected = ours.get(number), counted(rows)
        if left is not None and left != expected:
            why = f"step {number}: too many {left - expected}, missing {expected - left}"
            return Outcome("differs", kind, why, duck)
    return Outcome("same", kind, duck=duck)


def _ours(engine: Transforms, folder: Path, pair: Pair) -> dict[int, Counter[str]]:
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


def _duck(pair: Pair, state: Asked, answer: Sequence[Row]) -> str:
    rows = duck_rows(pair.query, state)
    if rows is None:
        return "no words"
    if counted(rows) == counted(answer):
        return "same"
    return "order" if pair.query.goes_by_order else "other"
