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
        "{}: no group is made yet where that stands",
        "WHERE, ON and GROUP BY look at single rows, an aggregate at the rows of a group",
        "write the condition in HAVING, or group in a query of its own and filter outside",
    ),
    Reason.UNGROUPED: (
        "the column '{}' is neither grouped by nor inside of an aggregate",
        "a group becomes one row, and its rows may have several values there",
        "add it to GROUP BY, or say which value is meant: max({})",
    ),
    Reason.WIDTHS: (
        "{}",
        "the columns of both sides are put together by their places",
        "select as many on both sides",
    ),
    Reason.WINDOW: (
        "{}",
        "the place of a row in its window, or another row's, is one of rows that are in an order",
        "",
    ),
    Reason.NESTED: (
        "{}",
        "an aggregate looks at the rows of a group, of which no group or window is made yet",
        "work the inner one out in a query of its own, and aggregate its result outside",
    ),
    Reason.ARGUMENTS: (
        "{}",
        "the engine has no such form of the function",
        "",
    ),
    Reason.SUBQUERY: (
        "{}",
        "a subquery in an expression stands for one value",
        "select the one column that is meant, or join with the query",
    ),
    Reason.TWICE: (
        "two queries of one WITH are named '{}'",
        "what is read by that name would not be certain; letter case does not count there",
        "rename one of them",
    ),
    Reason.POSITION: (
        "{}",
        "a number alone in GROUP BY and ORDER BY is the position of a column in the SELECT list, "
        "one in LIMIT and OFFSET is how many rows",
        "write an INT that is right there, or an expression",
    ),
    Reason.UNFILLED: (
        "nothing stands for {} in this query",
        "a query has no parameters, and a definition that is no template is not rendered",
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
                "a query that names the operation column reads its inputs' log row by row, with "
                "filters, explode and UNION ALL: at once, the log shows in which portions it came",
                "leave the operation column out: the query then sees the rows that stand",
            )
        case Reason.NOT_DETERMINISTIC:
            return (
                f"{found.name} may give another result each time",
                "a step must give the same rows when it is run again to verify it",
                found.hint or "use the columns of the input, such as its event time, instead",
            )
        case Reason.ORDER:
            return (
                f"{found.name} depends on the order of rows",
                "rows have no order but that of their values: neither the portions in which they "
                "came nor the number of threads may show",
                found.hint,
            )
        case Reason.LOOSE_WINDOW:
            return (
                f"{found.name}() stands outside of GROUP BY",
                "the row of an event-time window appears when the window has closed, and only "
                "GROUP BY makes rows of windows",
                "name the window in GROUP BY, in the same words; or use date_trunc()",
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
                "a row meets the version of a table that was in force at the row's event time: "
                "rows of one primary key are versions, each from its event time on",
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
        ):
            what, why, fix = _FORM[found.reason]
            return what.format(found.name), why, found.hint or fix.format(found.name)
        case Reason.ENVIRONMENT | Reason.FOREIGN_CODE:
            return (
                f"{found.name} is not allowed in a query",
                "the result may depend on the input rows only, not on files, session or programs",
                f"remove {found.name}",
            )


def _unknown_input(found: QueryFinding, dialect: Dialect) -> tuple[str, str, str]:
    if found.hint == found.name:
        return (
            f"the name {found.name} is read as several parts",
            f"a dot outside {dialect.quotes} separates a database from a table, and there are none "
            "here",
            f"write {dialect.quoted(found.name)} in {dialect.quotes}",
        )
    guess = f"did you mean {dialect.quoted(found.hint)}? Otherwise " if found.hint else ""
    return (
        f"the query reads {found.name!r}, which is not one of its inputs",
        "a query sees its declared inputs and its own earlier steps, letter case included",
        f"{guess}declare the input, or correct the name",
    )
