"""Findings on a query text, and their messages.  Pure."""

from __future__ import annotations

from enum import Enum

from odfbuild.sql.text.shape import TextPlace
from odfbuild.values import dataclass


class Reason(Enum):
    """Why something in a query text matters."""

    SYNTAX = "syntax-error"
    STEPS = "query-steps"
    UNKNOWN_INPUT = "unknown-input"
    NOT_LINEAR = "unsupported-query"
    NOT_DETERMINISTIC = "not-deterministic"
    ENVIRONMENT = "depends-on-environment"
    FOREIGN_CODE = "calls-foreign-code"
    ORDER = "depends-on-order"
    LOOSE_WINDOW = "loose-window"
    WINDOW_LENGTH = "window-length"
    TEMPORAL = "temporal-table"
    AGGREGATE = "misplaced-aggregate"
    UNGROUPED = "ungrouped-column"
    WIDTHS = "set-columns"
    UNFILLED = "unfilled-query"
    WINDOW = "window-function"
    NESTED = "nested-aggregate"
    ARGUMENTS = "function-arguments"
    SUBQUERY = "subquery-columns"
    TWICE = "duplicate-table"
    POSITION = "clause-number"
    RESERVED = "reserved-name"


@dataclass(frozen=True, slots=True)
class QueryFinding:
    """Something in step number `step` (from 0): a clause, a function or a name, and its place.

    Numbers from that of the steps on are those of the temporal tables of the transform.
    """

    reason: Reason
    name: str
    step: int
    place: TextPlace
    hint: str = ""


_FORM = {
    Reason.AGGREGATE: (
        "{} is not possible there: groups are formed later",
        "WHERE, ON and GROUP BY are about single rows, an aggregate about the rows of a group",
        "write the condition in HAVING, or group in a subquery and filter outside",
    ),
    Reason.UNGROUPED: (
        "the column '{}' is neither grouped by nor inside of an aggregate",
        "a group becomes one row, but its rows may have several values of it",
        "add it to GROUP BY, or choose a value: max({})",
    ),
    Reason.WIDTHS: (
        "{}",
        "the columns of both sides are combined by position",
        "select the same number on both sides",
    ),
    Reason.WINDOW: (
        "{}",
        "positions of rows in a window need an order",
        "",
    ),
    Reason.NESTED: (
        "{}",
        "an aggregate needs the rows of a group, which are not formed yet inside of another one",
        "compute the inner one in a subquery, and aggregate its result outside",
    ),
    Reason.ARGUMENTS: (
        "{}",
        "the engine does not support this form of the function",
        "",
    ),
    Reason.SUBQUERY: (
        "{}",
        "a subquery in an expression is one value",
        "select a single column, or join with the query",
    ),
    Reason.TWICE: (
        "two queries of one WITH are named '{}'",
        "the name would be ambiguous; names of WITH are compared without case",
        "rename one of them",
    ),
    Reason.POSITION: (
        "{}",
        "a number in GROUP BY and ORDER BY is the position of a column in the SELECT list, one in "
        "LIMIT and OFFSET is a number of rows",
        "write a valid INT, or an expression",
    ),
    Reason.RESERVED: (
        "{}",
        "names that begin with __odf_, in any case, are those of columns and tables that steps of "
        "transforms add",
        "rename it; a column of a root can be renamed by its preprocess query",
    ),
    Reason.UNFILLED: (
        "{} has no value in this query",
        "queries have no parameters, and only templates are rendered",
        "write the value; or make the file a template, its name ending in .yaml.j2",
    ),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a dialect is called, and what stands around a name that is not a plain word."""

    language: str
    quotes: str
    mark: str

    def quoted(self, name: str) -> str:
        """Return a name as it is written in a query."""
        return f"{self.mark}{name}{self.mark}"


_SPARK = Dialect("Spark SQL", "backticks", "`")
_DIALECTS = {"datafusion": Dialect("DataFusion's SQL", "double quotes", '"')}


def dialect_of(engine: str) -> Dialect:
    """Return the dialect of an engine."""
    return _DIALECTS.get(engine, _SPARK)


def words(found: QueryFinding, engine: str = "spark") -> tuple[str, str, str]:
    """Return what is found, why it matters and how to correct it, of a text for an engine."""
    dialect = dialect_of(engine)
    match found.reason:
        case Reason.SYNTAX:
            return (
                f"the query cannot be read: {found.name}",
                f"a query is one SELECT statement of {dialect.language}, checked before anything "
                "runs",
                f"correct the text; put names that are also SQL words in {dialect.quotes}",
            )
        case Reason.STEPS:
            return (
                found.name,
                'all steps but the last have an alias, the last has none (ODF, "TransformSql")',
                "add or remove the alias",
            )
        case Reason.UNKNOWN_INPUT:
            return _unknown_input(found, dialect)
        case Reason.NOT_LINEAR:
            return (
                f"{found.name} over the event log",
                "a query that names the operation column can only read the event log row by row, "
                "with filters, explode and UNION ALL: otherwise its result would depend on the "
                "steps in which rows came",
                "omit the operation column: the query then reads the current rows",
            )
        case Reason.NOT_DETERMINISTIC:
            return (
                f"{found.name} may give another result each time",
                "a step must give the same rows when verification reruns it",
                found.hint or "use the columns of the input, such as its event time, instead",
            )
        case Reason.ORDER:
            return (
                f"{found.name} depends on the order of rows",
                "rows are only ordered by their values: the result must not depend on the steps "
                "in which they came or on the number of threads",
                found.hint,
            )
        case Reason.LOOSE_WINDOW:
            return (
                f"{found.name}() is used outside of GROUP BY",
                "the row of an event-time window is written when the window has closed, and only "
                "GROUP BY makes rows of windows",
                "repeat the same window in GROUP BY; or use date_trunc()",
            )
        case Reason.WINDOW_LENGTH:
            return (
                f"{found.name}() cannot have this length in months",
                "months differ in length: the calendar gives windows of 1, 2, 3, 4, 6 and 12 of "
                "them, one after the other",
                "write tumble(TIME, interval '1' month), or quarters, or one year; else name days",
            )
        case Reason.TEMPORAL:
            return (
                found.name,
                "a row is joined with the version of a table that was in force at the row's event "
                "time: rows of one primary key are versions, each valid from its event time on",
                found.hint,
            )
        case (
            Reason.AGGREGATE
            | Reason.UNGROUPED
            | Reason.WIDTHS
            | Reason.WINDOW
            | Reason.NESTED
            | Reason.ARGUMENTS
            | Reason.SUBQUERY
            | Reason.TWICE
            | Reason.UNFILLED
            | Reason.POSITION
            | Reason.RESERVED
        ):
            what, why, fix = _FORM[found.reason]
            return what.format(found.name), why, found.hint or fix.format(found.name)
        case Reason.ENVIRONMENT | Reason.FOREIGN_CODE:
            return (
                f"{found.name} is not allowed in a query",
                "the result may only depend on the input rows, not on files, session or programs",
                f"remove {found.name}",
            )


def _unknown_input(found: QueryFinding, dialect: Dialect) -> tuple[str, str, str]:
    if found.name and found.hint == found.name:
        return (
            f"the name {found.name} is read as several parts",
            f"a dot outside {dialect.quotes} separates a database from a table, but there are no "
            "databases",
            f"write {dialect.quoted(found.name)} in {dialect.quotes}",
        )
    guess = f"did you mean {dialect.quoted(found.hint)}? Otherwise " if found.hint else ""
    return (
        f"the query reads {found.name!r}, which is not one of its inputs",
        "a query can read its declared inputs and its own earlier steps; names are case-sensitive",
        f"{guess}declare the input, or correct the name",
    )
