"""Facts of a SQL text before any engine runs: its inputs, its class, and what it must not use.

Pure.  A query is `linear` when every output row comes from one input row: projections, filters,
generators (explode, LATERAL VIEW) and UNION ALL, in any nesting.  Such a query can run on the new
rows alone and carry the operation of each row through.  Any other query has the name of the clause
because of which it is not linear, for the message of a refusal.

Parsing takes most of the time of a first plan, and datasets of one template have similar queries.
Facts depend on the words of a query, so similar queries share them; problems need positions, so
queries with problems are examined one by one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import DataSchema
from odfbuild.sql.datafusion import is_datafusion, step_findings
from odfbuild.sql.findings import QueryFinding, Reason, words
from odfbuild.sql.forbidden import (
    FORBIDDEN,
    FORBIDDEN_WORDS,
    GENERATORS,
    MANY_ROWS,
    SEVERAL_ROWS,
    WINDOWS,
)
from odfbuild.sql.reserved_names import may_be_reserved, reserved_tables, reserved_words
from odfbuild.sql.text.parse import place_alike, read, skeleton
from odfbuild.sql.text.shape import Call, GroupBy, Join, RowGenerator, Select, SetQuery, TextPlace
from odfbuild.sql.text.statement import SqlTextError, Statement
from odfbuild.sql.text.steps import QueryStep, is_foreign, is_of_spark
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.analysis.sums import Sums
    from odfbuild.sql.columns import QueryColumns


_OF_COLUMN = (
    "write t.`{}` for a column of that name, t its table: from the name alone, it is not known "
    "whether Spark reads the column or the clock"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """The facts of all steps of one transform.

    `inputs` are the declared inputs that are read, in the order of their first use; `outputs` the
    columns of the last step if they are known without schemas.  With `fans_out` one input row may
    give several output rows, with `ordered` the last step has an ORDER BY.
    """

    steps: tuple[QueryStep, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] | None
    names_op: bool
    fans_out: bool
    ordered: bool
    findings: tuple[QueryFinding, ...]

    @property
    def kind(self) -> str:
        """`linear`, or the name of the clause because of which the query is not."""
        return next((f.name for f in self.findings if f.reason is Reason.NOT_LINEAR), "linear")

    @property
    def is_linear(self) -> bool:
        return self.kind == "linear"

    @property
    def refused(self) -> tuple[Reason, ...]:
        """The reasons to refuse a transform: event logs are read row by row only."""
        return tuple(r for r in Reason if r is not Reason.NOT_LINEAR or self.names_op)

    def about(self, *reasons: Reason) -> tuple[QueryFinding, ...]:
        """Return the findings of some reasons, in the order of the text."""
        return tuple(f for f in self.findings if f.reason in reasons)


def examine(
    steps: Sequence[QueryStep], inputs: Collection[str], op_columns: Collection[str] = ("op",)
) -> QueryFacts:
    """Return the facts of the steps, given the names under which the inputs can be read."""
    findings = list(_step_findings(steps))
    if is_foreign(steps):
        return _foreign_facts(steps, inputs, findings)
    known, used = list(inputs), dict[str, None]()
    statements: list[Statement] = []
    for number, step in enumerate(steps):
        try:
            statement = step.statement
        except SqlTextError as error:
            findings.append(
                QueryFinding(Reason.SYNTAX, str(error), number, error.place, error.code)
            )
        else:
            statements.append(statement)
            if is_datafusion(steps):
                findings.extend(step_findings(steps, number, statement, known))
            else:
                findings.extend(_statement_findings(number, statement, known))
                findings.extend(_version_findings(number, step))
            findings.extend(reserved_words(number, statement))
            used |= dict.fromkeys(t.text for t in statement.tables if t.text in inputs)
        known += [step.alias] if step.alias else []
    findings.extend(reserved_tables(known, 0))
    if not is_datafusion(steps):
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


def _foreign_facts(
    steps: Sequence[QueryStep], inputs: Collection[str], findings: Sequence[QueryFinding]
) -> QueryFacts:
    """Return the facts of a query in a dialect that is not parsed: it may read all its inputs."""
    bars = (
        QueryFinding(Reason.NOT_LINEAR, bar.text, number, bar.place)
        for number, step in enumerate(steps)
        for bar in step.statement.bars
    )
    return QueryFacts(
        steps=tuple(steps),
        inputs=tuple(inputs),
        outputs=None,
        names_op=False,
        fans_out=True,
        ordered=False,
        findings=(*findings, *bars),
    )


def diagnostics(
    facts: QueryFacts, reasons: Collection[Reason] = tuple(Reason)
) -> tuple[Diagnostic, ...]:
    """Return the findings of these reasons as diagnostics; the caller adds spans."""
    return tuple(_diagnostic(facts, f) for f in facts.findings if f.reason in reasons)


def _step_findings(steps: Sequence[QueryStep]) -> Iterator[QueryFinding]:
    """Check the aliases of the steps (ODF 0.34.1, "TransformSql")."""
    nowhere = TextPlace(0, 1, 1, 1)
    if not steps:
        yield QueryFinding(Reason.STEPS, "there is no query", 0, nowhere)
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if last and step.alias is not None:
            yield QueryFinding(Reason.STEPS, "the last step has an alias", number, nowhere)
        if not last and not step.alias:
            yield QueryFinding(Reason.STEPS, "a step before the last has no alias", number, nowhere)


def _statement_findings(
    number: int, statement: Statement, known: Sequence[str]
) -> Iterator[QueryFinding]:
    for table in statement.tables:
        if table.text not in known:
            closest = difflib.get_close_matches(table.text, known, n=1)
            hint = closest[0] if closest else ""
            yield QueryFinding(Reason.UNKNOWN_INPUT, table.text, number, table.place, hint)
        elif table.qualifier is not None:
            hint = table.text
            yield QueryFinding(Reason.UNKNOWN_INPUT, table.text, number, table.place, hint)
    for bar in statement.bars:
        yield QueryFinding(Reason.NOT_LINEAR, bar.text, number, bar.place)
    found = list(_call_findings(number, statement))
    yield from found
    if statement.bars or any(each.reason is Reason.NOT_LINEAR for each in found):
        yield from order_findings(number, statement)


def order_findings(
    number: int, query: Statement, sums: Sums | None = None
) -> Iterator[QueryFinding]:
    """Yield the forms because of which a step over several rows cannot be computed in portions.

    They depend on the order of rows, with `sums` also by their types, or are misplaced windows.
    """
    from odfbuild.sql.analysis.order import unordered
    from odfbuild.sql.analysis.windows import loose_windows, odd_months

    for each in unordered(query, sums):
        yield QueryFinding(Reason.ORDER, each.what.text, number, each.what.place, each.fix)
    for window in loose_windows(query):
        yield QueryFinding(Reason.LOOSE_WINDOW, window.text, number, window.place)
    for window in odd_months(query):
        yield QueryFinding(Reason.WINDOW_LENGTH, window.text, number, window.place)


def _version_findings(number: int, step: QueryStep) -> Iterator[QueryFinding]:
    if "system_time" not in step.text.lower():
        return
    from odfbuild.sql.analysis.as_of_joins import join_problems

    yield from join_problems(number, step.statement, step.temporal)


def _table_findings(steps: Sequence[QueryStep], known: Collection[str]) -> Iterator[QueryFinding]:
    keys = steps[0].temporal if steps else ()
    if not keys:
        return
    from odfbuild.sql.analysis.as_of_joins import table_problems

    yield from table_problems(keys, known, len(steps))


def _call_findings(number: int, statement: Statement) -> Iterator[QueryFinding]:
    for call in statement.calls:
        name = f"{call.text}()"
        if call.text in MANY_ROWS:
            yield QueryFinding(Reason.NOT_LINEAR, f"the aggregate {name}", number, call.place)
        elif call.text in WINDOWS:
            yield QueryFinding(Reason.NOT_LINEAR, f"the window {name}", number, call.place)
        elif (reason := FORBIDDEN.get(call.text)) is not None:
            yield QueryFinding(reason, name, number, call.place)
    for call in statement.empty_calls:
        if call.text in {"unix_timestamp", "to_unix_timestamp"}:
            yield QueryFinding(Reason.NOT_DETERMINISTIC, f"{call.text}()", number, call.place)
    for word in statement.words:
        undated = Reason.NOT_DETERMINISTIC if word.text.startswith("'") else None
        if (reason := FORBIDDEN_WORDS.get(word.text, undated)) is not None:
            is_quoted = statement.text[word.place.start] == "`"
            hint = _OF_COLUMN.format(word.text) if is_quoted else ""
            yield QueryFinding(reason, word.text, number, word.place, hint)


def is_row_by_row(statement: Statement) -> bool:
    """Return whether every row of a result comes from one row that the statement reads."""
    return not statement.bars and not any(
        each.text in MANY_ROWS or each.text in WINDOWS for each in statement.calls
    )


def _names(statement: Statement, op_columns: Collection[str]) -> bool:
    """Return whether a statement names the operation column: not `s.op` of a struct `s`."""
    return any(alias.text in op_columns for alias in statement.aliases) or any(
        column.text in op_columns
        and (column.qualifier is None or column.qualifier in statement.relations)
        for column in statement.columns
    )


def _fans_out(statement: Statement) -> bool:
    return statement.unites or any(call.text in SEVERAL_ROWS for call in statement.calls)


def _diagnostic(facts: QueryFacts, found: QueryFinding) -> Diagnostic:
    step = f" of step {found.step + 1}" if len(facts.steps) > 1 else ""
    where = f"line {found.place.line}, column {found.place.column}{step}"
    what, why, fix = words(found, *(each.engine for each in facts.steps[:1]))
    if facts.steps and found.step >= len(facts.steps):
        return Diagnostic(code=found.reason.value, what=what, why=why, fix=fix)
    return Diagnostic(code=found.reason.value, what=f"{what} ({where})", why=why, fix=fix)


_MOST = 4_096

_KNOWN: dict[object, QueryFacts] = {}
_COLUMNS: dict[object, QueryColumns] = {}


def examine_alike(
    steps: Sequence[QueryStep], inputs: Collection[str], op_columns: Collection[str] = ("op",)
) -> QueryFacts:
    """Return what `examine` returns, from the facts of a similar query if there are any.

    Facts are not shared if a column is named by a number or string of the text.  Those of a query
    that is not linear are shared with queries that differ less.
    """
    if not is_of_spark(steps) or may_be_reserved(steps):  # a string may be a name there
        return examine(steps, inputs, op_columns)
    of = (tuple(inputs), frozenset(op_columns))
    keys = [
        (compared, tuple((e.alias, skeleton(e.text, compared=compared)) for e in steps), of)
        for compared in (False, True)
    ]
    known = _KNOWN.get(keys[0]) or _KNOWN.get(keys[1])
    if known is not None:
        return replace(known, steps=tuple(steps), findings=_in_steps(known, steps))
    copies = [replace(step) for step in steps]  # parsed statements are not kept with the facts
    facts = replace(examine(copies, inputs, op_columns), steps=tuple(steps))
    if all(_is_clause(facts, each) for each in facts.findings) and _are_named(facts):
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[keys[bool(facts.findings)]] = facts
    return facts


def _in_steps(known: QueryFacts, steps: Sequence[QueryStep]) -> tuple[QueryFinding, ...]:
    """Return the findings at the positions of their words in the texts of other steps."""
    return tuple(
        replace(each, place=place_alike(each.place, known.steps[each.step].text, text))
        for each in known.findings
        for text in (steps[each.step].text,)
    )


def _is_clause(facts: QueryFacts, found: QueryFinding) -> bool:
    """Return whether a finding is a clause or call of every query with the same words."""
    if found.reason is not Reason.NOT_LINEAR:
        return False
    text = facts.steps[found.step].text
    return place_alike(found.place, text, text) == found.place


def names_operation(steps: Sequence[QueryStep], inputs: Collection[str], column: str) -> bool:
    """Return whether steps name the operation column; most texts need not be parsed for it."""
    if column.isidentifier() and all(
        column.casefold() not in each.text.casefold() for each in steps
    ):
        return False
    return examine_alike(steps, inputs, (column,)).names_op


def columns_alike(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> QueryColumns:
    """Return what `columns_of` returns, from the result of a similar query if there is one.

    Results with problems are not shared, nor those with a column that is named by its expression.
    The positions of columns may be those of the other query.
    """
    from odfbuild.sql.columns import columns_of

    if not is_of_spark(steps):
        return columns_of(steps, inputs)
    words = tuple((step.alias, skeleton(step.text, typed=True), step.temporal) for step in steps)
    key = (words, tuple(inputs.items()))
    known = _COLUMNS.get(key)
    if known is not None:
        return known
    found = columns_of(steps, inputs)
    wrong = found.unknown_columns or found.unknown_functions or found.wrong_constants
    names = [each.name for each in found.outputs or () if each.name]
    if not wrong and all(map(str.isidentifier, names)):
        if len(_COLUMNS) >= _MOST:
            _COLUMNS.clear()
        _COLUMNS[key] = found
    return found


def are_alike(queries: Sequence[Sequence[QueryStep]]) -> bool:
    """Return whether most of some queries are similar to another one of them."""
    kinds = {tuple(skeleton(step.text) for step in steps) for steps in queries}
    return len(kinds) * 2 < len(queries)


def _are_named(facts: QueryFacts) -> bool:
    """Return whether every output is named by a word of the text."""
    tokens = read(facts.steps[-1].text).tokens
    strings = {token.text for token in tokens if token.kind == "STRING"}
    return all(name.isidentifier() and name not in strings for name in facts.outputs or ())


_WORDS = (
    *("filter", "join", "group", "window", "distinct"),
    *("union", "intersect", "except", "explode", "limit"),
)


def shaping_clauses(steps: Sequence[QueryStep]) -> tuple[str, ...] | None:
    """Return which clauses decide on rows, anywhere in the steps; None if one cannot be read.

    They are `filter` (WHERE, HAVING, QUALIFY), `join`, `group`, `window`, `distinct`, `union`,
    `intersect`, `except`, `explode` and `limit`, in this order.
    """
    try:
        found = {word for step in steps for word in _words(step.statement.shape)}
    except SqlTextError:
        return None
    return tuple(word for word in _WORDS if word in found)


def _words(shape: object) -> Iterator[str]:
    pending = [shape]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += value
        elif is_dataclass(value):
            yield from _own(value)
            pending += [getattr(value, each.name) for each in fields(value)]


def _own(value: object) -> Iterator[str]:
    match value:
        case Select():
            if (value.where, value.having, value.qualify) != (None, None, None):
                yield "filter"
            yield from ["distinct"] * value.distinct
            yield from ["limit"] * value.limited
        case SetQuery():
            yield value.kind
            yield from ["distinct"] * value.distinct
            yield from ["limit"] * value.limited
        case Join():
            yield "join"
        case GroupBy():
            yield "group"
        case RowGenerator():
            yield "explode"
        case Call():
            yield from ["window"] * (value.over is not None)
            yield from ["explode"] * (value.name in GENERATORS)
        case _:
            pass
