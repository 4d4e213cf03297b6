"""What a SQL text says before any engine runs: its inputs, its class, and what it must not use.

Pure.  A query is `linear` when every output row comes from one input row: projections, filters,
generators (explode, LATERAL VIEW) and UNION ALL, in any nesting.  Such a query can run on the new
rows alone and carry the operation of each row through.  Everything else carries the name of the
clause that makes it otherwise, so that it can be refused in words.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import TransformSql
from odfbuild.planner.sql.findings import Finding, Reason, words
from odfbuild.planner.sql.refusals import (
    FORBIDDEN,
    FORBIDDEN_WORDS,
    MANY_ROWS,
    SEVERAL_ROWS,
    WINDOWS,
)
from odfbuild.planner.sql.statement import Place, SqlTextError, Statement
from odfbuild.planner.sql.temporal import Keys
from odfbuild.planner.sql.text import read

if TYPE_CHECKING:
    from odfbuild.planner.sql.sums import Sums

__all__ = [
    "Finding",
    "Place",
    "QueryFacts",
    "QueryStep",
    "Reason",
    "diagnostics",
    "examine",
    "order_findings",
    "steps_of",
]

_OF_COLUMN = (
    "write t.`{}` for a column of that name, t its table: by the name alone, the text does not "
    "tell whether Spark reads the column or the clock"
)


@dataclass(frozen=True, slots=True)
class QueryStep:
    """One statement of a transform; only the last step has no alias ("SqlQueryStep").

    `temporal` are the tables whose versions it may read ("TemporalTable"), equal in all steps.
    """

    alias: str | None
    text: str
    temporal: Keys = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What the steps of one transform say together.

    `inputs` are the declared inputs that are read, in the order of their first use; `outputs` the
    columns of the last step where they can be told without schemas.  `fans_out` tells that one
    input row may give several output rows, `ordered` that the last step asks for an order.
    """

    steps: tuple[QueryStep, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] | None
    names_op: bool
    fans_out: bool
    ordered: bool
    findings: tuple[Finding, ...]

    @property
    def kind(self) -> str:
        """Return `linear`, or the name of the clause that makes the query something else."""
        return next((f.name for f in self.findings if f.reason is Reason.NOT_LINEAR), "linear")

    @property
    def is_linear(self) -> bool:
        return self.kind == "linear"

    @property
    def refused(self) -> tuple[Reason, ...]:
        """Return why a transform may be refused: the event log is only read row by row."""
        return tuple(r for r in Reason if r is not Reason.NOT_LINEAR or self.names_op)

    def about(self, *reasons: Reason) -> tuple[Finding, ...]:
        """Return the findings of some reasons, in the order of the text."""
        return tuple(f for f in self.findings if f.reason in reasons)


def steps_of(transform: TransformSql) -> tuple[QueryStep, ...]:
    """Return the statements of a transform; a lone `query` is one step without alias."""
    keys = tuple((each.name, each.primary_key) for each in transform.temporal_tables or ())
    if transform.queries is not None:
        return tuple(QueryStep(step.alias, step.query, keys) for step in transform.queries)
    return () if transform.query is None else (QueryStep(None, transform.query, keys),)


def examine(
    steps: Sequence[QueryStep], inputs: Collection[str], op_columns: Collection[str] = ("op",)
) -> QueryFacts:
    """Return what the steps say, given the names under which the inputs can be read."""
    findings = list(_step_findings(steps))
    known, used = list(inputs), dict[str, None]()
    statements: list[Statement] = []
    for number, step in enumerate(steps):
        try:
            statement = read(step.text)
        except SqlTextError as error:
            findings.append(Finding(Reason.SYNTAX, str(error), number, error.place, error.code))
        else:
            statements.append(statement)
            findings.extend(_statement_findings(number, statement, known))
            findings.extend(_version_findings(number, step))
            used |= dict.fromkeys(t.text for t in statement.tables if t.text in inputs)
        known += [step.alias] if step.alias else []
    findings += _table_findings(steps, known)
    readable = len(statements) == len(steps) and bool(steps)
    return QueryFacts(
        steps=tuple(steps),
        inputs=tuple(used),
        outputs=statements[-1].outputs if readable else None,
        names_op=any(_names(statement, op_columns) for statement in statements),
        fans_out=any(_fans_out(statement) for statement in statements),
        ordered=readable and statements[-1].ordered,
        findings=tuple(findings),
    )


def diagnostics(
    facts: QueryFacts, reasons: Collection[Reason] = tuple(Reason)
) -> tuple[Diagnostic, ...]:
    """Return the findings of these reasons in words; without spans, which the caller knows."""
    return tuple(_diagnostic(facts, f) for f in facts.findings if f.reason in reasons)


def _step_findings(steps: Sequence[QueryStep]) -> Iterator[Finding]:
    """Check the aliases of the steps (ODF 0.34.1, "TransformSql")."""
    nowhere = Place(0, 1, 1, 1)
    if not steps:
        yield Finding(Reason.STEPS, "there is no query", 0, nowhere)
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if last and step.alias is not None:
            yield Finding(Reason.STEPS, "the last step has an alias", number, nowhere)
        if not last and not step.alias:
            yield Finding(Reason.STEPS, "a step before the last has no alias", number, nowhere)


def _statement_findings(
    number: int, statement: Statement, known: Sequence[str]
) -> Iterator[Finding]:
    for table in statement.tables:
        if table.text not in known:
            near = difflib.get_close_matches(table.text, known, n=1)
            hint = near[0] if near else ""
            yield Finding(Reason.UNKNOWN_INPUT, table.text, number, table.place, hint)
        elif table.qualifier is not None:
            hint = table.text
            yield Finding(Reason.UNKNOWN_INPUT, table.text, number, table.place, hint)
    for bar in statement.bars:
        yield Finding(Reason.NOT_LINEAR, bar.text, number, bar.place)
    found = list(_call_findings(number, statement))
    yield from found
    if statement.bars or any(each.reason is Reason.NOT_LINEAR for each in found):
        yield from order_findings(number, statement.text)


def order_findings(number: int, text: str, sums: Sums | None = None) -> Iterator[Finding]:
    """Yield what keeps a step that looks at several rows from being computed in portions.

    That is what depends on the order of rows, with `sums` also by types, and time out of place.

    Raises SqlTextError.
    """
    from odfbuild.planner.sql.order import unordered
    from odfbuild.planner.sql.windows import loose_windows, odd_months

    for each in unordered(text, sums):
        yield Finding(Reason.ORDER, each.what.text, number, each.what.place, each.fix)
    for window in loose_windows(text):
        yield Finding(Reason.LOOSE_WINDOW, window.text, number, window.place)
    for window in odd_months(text):
        yield Finding(Reason.WINDOW_LENGTH, window.text, number, window.place)


def _version_findings(number: int, step: QueryStep) -> Iterator[Finding]:
    if "system_time" not in step.text.lower():
        return
    from odfbuild.planner.sql.temporal_checks import join_problems

    yield from join_problems(number, step.text, step.temporal)


def _table_findings(steps: Sequence[QueryStep], known: Collection[str]) -> Iterator[Finding]:
    keys = steps[0].temporal if steps else ()
    if not keys:
        return
    from odfbuild.planner.sql.temporal_checks import table_problems

    yield from table_problems(keys, known, len(steps))


def _call_findings(number: int, statement: Statement) -> Iterator[Finding]:
    for call in statement.calls:
        name = f"{call.text}()"
        if call.text in MANY_ROWS:
            yield Finding(Reason.NOT_LINEAR, f"the aggregate {name}", number, call.place)
        elif call.text in WINDOWS:
            yield Finding(Reason.NOT_LINEAR, f"the window {name}", number, call.place)
        elif (reason := FORBIDDEN.get(call.text)) is not None:
            yield Finding(reason, name, number, call.place)
    for call in statement.empty_calls:
        if call.text in {"unix_timestamp", "to_unix_timestamp"}:
            yield Finding(Reason.NOT_DETERMINISTIC, f"{call.text}()", number, call.place)
    for word in statement.words:
        undated = Reason.NOT_DETERMINISTIC if word.text.startswith("'") else None
        if (reason := FORBIDDEN_WORDS.get(word.text, undated)) is not None:
            is_quoted = statement.text[word.place.start] == "`"
            hint = _OF_COLUMN.format(word.text) if is_quoted else ""
            yield Finding(reason, word.text, number, word.place, hint)


def _names(statement: Statement, op_columns: Collection[str]) -> bool:
    """Tell whether a statement names the operation column: not `s.op` of a struct `s`."""
    return any(alias.text in op_columns for alias in statement.aliases) or any(
        column.text in op_columns
        and (column.qualifier is None or column.qualifier in statement.relations)
        for column in statement.columns
    )


def _fans_out(statement: Statement) -> bool:
    return statement.unites or any(call.text in SEVERAL_ROWS for call in statement.calls)


def _diagnostic(facts: QueryFacts, found: Finding) -> Diagnostic:
    step = f" of step {found.step + 1}" if len(facts.steps) > 1 else ""
    where = f"line {found.place.line}, column {found.place.column}{step}"
    what, why, fix = words(found)
    if facts.steps and found.step >= len(facts.steps):
        return Diagnostic(code=found.reason.value, what=what, why=why, fix=fix)
    return Diagnostic(code=found.reason.value, what=f"{what} ({where})", why=why, fix=fix)
