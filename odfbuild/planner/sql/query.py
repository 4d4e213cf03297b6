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
from enum import Enum

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import TransformSql
from odfbuild.planner.sql.statement import (
    CLOCK_WORDS,
    MOMENTS,
    SESSION_WORDS,
    Place,
    SqlTextError,
    Statement,
)
from odfbuild.planner.sql.text import read

__all__ = [
    "Finding",
    "Place",
    "QueryFacts",
    "QueryStep",
    "Reason",
    "diagnostics",
    "examine",
    "steps_of",
]


@dataclass(frozen=True, slots=True)
class QueryStep:
    """One statement of a transform; only the last step has no alias ("SqlQueryStep")."""

    alias: str | None
    text: str


class Reason(Enum):
    """Why something in a query text matters."""

    SYNTAX = "syntax-error"
    STEPS = "query-steps"
    UNKNOWN_INPUT = "unknown-input"
    NOT_LINEAR = "unsupported-query"
    NOT_DETERMINISTIC = "not-deterministic"
    ENVIRONMENT = "depends-on-environment"
    FOREIGN_CODE = "calls-foreign-code"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in step number `step` (from 0): a clause, a function or a name, and its place."""

    reason: Reason
    name: str
    step: int
    place: Place
    hint: str = ""


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
    if transform.queries is not None:
        return tuple(QueryStep(step.alias, step.query) for step in transform.queries)
    return () if transform.query is None else (QueryStep(None, transform.query),)


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
            used |= dict.fromkeys(t.text for t in statement.tables if t.text in inputs)
        known += [step.alias] if step.alias else []
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
    yield from _call_findings(number, statement)


def _call_findings(number: int, statement: Statement) -> Iterator[Finding]:
    for call in statement.calls:
        name = f"{call.text}()"
        if call.text in _AGGREGATES:
            yield Finding(Reason.NOT_LINEAR, f"the aggregate {name}", number, call.place)
        elif call.text in _WINDOWS:
            yield Finding(Reason.NOT_LINEAR, f"the window {name}", number, call.place)
        elif (reason := _FORBIDDEN.get(call.text)) is not None:
            yield Finding(reason, name, number, call.place)
    for call in statement.empty_calls:
        if call.text in {"unix_timestamp", "to_unix_timestamp"}:
            yield Finding(Reason.NOT_DETERMINISTIC, f"{call.text}()", number, call.place)
    for word in statement.words:
        if (reason := _FORBIDDEN_WORDS.get(word.text)) is not None:
            yield Finding(reason, word.text, number, word.place)


def _names(statement: Statement, op_columns: Collection[str]) -> bool:
    """Tell whether a statement names the operation column: not `s.op` of a struct `s`."""
    return any(alias.text in op_columns for alias in statement.aliases) or any(
        column.text in op_columns
        and (column.qualifier is None or column.qualifier in statement.relations)
        for column in statement.columns
    )


def _fans_out(statement: Statement) -> bool:
    return statement.unites or any(call.text in _GENERATORS for call in statement.calls)


def _diagnostic(facts: QueryFacts, found: Finding) -> Diagnostic:
    step = f" of step {found.step + 1}" if len(facts.steps) > 1 else ""
    where = f"line {found.place.line}, column {found.place.column}{step}"
    what, why, fix = _words(found)
    return Diagnostic(code=found.reason.value, what=f"{what} ({where})", why=why, fix=fix)


def _words(found: Finding) -> tuple[str, str, str]:
    match found.reason:
        case Reason.SYNTAX:
            return (
                f"the query cannot be read: {found.name}",
                "a query is one SELECT statement of Spark SQL, checked before anything runs",
                "correct the text; put names that are also SQL words in backticks",
            )
        case Reason.STEPS:
            return (
                found.name,
                'all steps but the last have an alias, the last has none (ODF, "TransformSql")',
                "add or remove the alias",
            )
        case Reason.UNKNOWN_INPUT:
            return _unknown_input(found)
        case Reason.NOT_LINEAR:
            return (
                f"{found.name} over the event log",
                "a query that names the operation column reads its inputs' log row by row, with "
                "filters, explode and UNION ALL: at once, the log shows in which portions it came",
                "leave the operation column out: the query then sees the rows that stand",
            )
        case Reason.NOT_DETERMINISTIC:
            return (
                f"{found.name} may give another result each time",
                "a step must give the same rows when it is run again to verify it",
                "use the columns of the input, such as its event time, instead",
            )
        case Reason.ENVIRONMENT | Reason.FOREIGN_CODE:
            return (
                f"{found.name} is not allowed in a query",
                "the result may depend on the input rows only, not on files, session or programs",
                f"remove {found.name}",
            )


def _unknown_input(found: Finding) -> tuple[str, str, str]:
    if found.hint == found.name:
        return (
            f"the name {found.name} is read as several parts",
            "a dot outside backticks separates a database from a table, and there are none here",
            f"write `{found.name}` in backticks",
        )
    guess = f"did you mean `{found.hint}`? " if found.hint else ""
    return (
        f"the query reads {found.name!r}, which is not one of its inputs",
        "a query sees its declared inputs and its own earlier steps, letter case included",
        f"{guess}Declare the input, or correct the name",
    )


def _all(reason: Reason, names: str) -> dict[str, Reason]:
    return dict.fromkeys(names.split(), reason)


_FORBIDDEN = {
    **_all(
        Reason.NOT_DETERMINISTIC,
        "rand randn random randstr uniform uuid shuffle now curdate current_date current_time "
        "current_timestamp localtime localtimestamp monotonically_increasing_id aes_encrypt",
    ),
    **_all(
        Reason.ENVIRONMENT,
        "user current_user session_user current_catalog current_database current_schema "
        "current_path current_timezone version spark_partition_id input_file_name "
        "input_file_block_length input_file_block_start identifier collations sql_keywords "
        "python_worker_logs from_protobuf to_protobuf",
    ),
    **_all(Reason.FOREIGN_CODE, "reflect java_method try_reflect"),
}
_FORBIDDEN_WORDS = {
    **dict.fromkeys(CLOCK_WORDS, Reason.NOT_DETERMINISTIC),
    **{f"'{moment}'": Reason.NOT_DETERMINISTIC for moment in MOMENTS},
    **dict.fromkeys(SESSION_WORDS, Reason.ENVIRONMENT),
}
_WINDOWS = frozenset(["window", "session_window", "window_time", "tumble", "hop", "session"])
_GENERATORS = frozenset(
    [
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "posexplode",
        "posexplode_outer",
        "stack",
        "json_tuple",
        "variant_explode",
        "variant_explode_outer",
    ]
)
_AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "collect_union",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "measure",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_variant_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "var_pop",
        "var_samp",
        "variance",
        "vector_avg",
        "vector_sum",
    ]
)
