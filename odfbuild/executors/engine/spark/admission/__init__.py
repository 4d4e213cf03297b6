"""Admission of SQL texts into Spark: the parts of a query are judged before anything runs.

Spark carries out commands as it reads them, and a query may start programs, call any method of
Java, read files and addresses, or name classes to load.  So a text is parsed first; its tree may
hold listed functions and nodes only.  Then Spark analyses it, and all nodes and expressions of that
plan have to be listed as well.  What is not known is refused with its name.

Spark reads a text without a date, such as '12:34', as that time of the day on which it runs.  So
such texts in a query are refused; and those in rows are marked as they are cast, by an expression
that is put into the analysed plan, so that the cast takes them for what is no time.
"""

from collections.abc import Iterator
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from odfbuild.executors.engine.analysis import PlacedQueryError, QueryPlace
from odfbuild.executors.engine.spark.admission.plan_classes import ADMITTED
from odfbuild.executors.engine.spark.cluster.driver import gateway_of, query_of
from odfbuild.executors.engine.spark.errors import SentQuery, one_line, place_of
from odfbuild.sql.findings import Reason
from odfbuild.sql.spark_functions import ALLOWED, REFUSED, TYPE_ARGUMENTS
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_CENSUS: Final = "odfbuild.PlanCensus"
_OPTIONS: Final = """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers
    allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames
    arrayElementName attributePrefix charToEscapeQuoteEscaping charset columnNameOfCorruptRecord
    columnPruning comment dateFormat declaration delimiter dropFieldIfAllNull emptyValue
    enableDateTimeParsingFallback encoding enforceSchema escape escapeQuotes excludeAttribute
    explodeEmbeddedArray extension header ignoreLeadingWhiteSpace ignoreNamespace ignoreNullFields
    ignoreSurroundingSpaces ignoreTrailingWhiteSpace indent inferSchema inferTimestamp
    inputBufferSize lineSep locale maxCharsPerColumn maxColumns mode multiLine nanValue negativeInf
    nullValue positiveInf preferDate prefersDecimal pretty primitivesAsString quote quoteAll
    rootTag rowTag samplingRatio sep singleVariantColumn sortKeys timeFormat timeZone
    timestampFormat timestampNTZFormat unescapedQuoteHandling useLegacyXMLParser useUnsafeRow
    validateName valueTag wildcardColName writeNonAsciiCharacterAsCodePoint
"""
OPTIONS: Final = frozenset(_OPTIONS.lower().split())
"""The options of functions that read and write JSON, CSV and XML; others may name files."""

_METHODS: Final = ("org.apache.spark.sql.catalyst.", "org.apache.spark.unsafe.")


class RefusedPlanError(PlacedQueryError):
    """A query contains something that is not permitted in queries."""

    code = "query-not-admitted"


class ClockError(RefusedPlanError):
    """A query completes a time with the day on which it runs."""

    code = "not-deterministic"


def admitted(
    session: "SparkSession", text: str, sent: SentQuery | None = None, *, evaluated: bool = False
) -> "DataFrame":
    """Return the rows of a query that a user wrote, if it may run; nothing has run yet.

    `sent` says how the text came from the user's.  With `evaluated`, constants that every row needs
    are worked out.  Raises RefusedPlanError, and what Spark says of a text that it cannot read, or
    of a constant that fails (PySparkException).
    """
    read = query_of(session, text, _census)
    _judge(read.parts(), sent)
    _judge(read.constants(), sent)
    read.analyse()
    _judge(read.parts(), sent)
    if evaluated:
        _check_constants(read.failures(), sent)
    return read.rows()


# The judgement


@dataclass(frozen=True, slots=True)
class _PlanPart:
    """Something that a plan has, and where in the text, or -1."""

    kind: str
    name: str
    detail: str
    start: int
    stop: int


def _parts(census: str) -> Iterator[_PlanPart]:
    for line in census.split("\2")[:-1]:
        kind, name, detail, start, stop = line.split("\1")
        yield _PlanPart(kind, name, detail, int(start), int(stop))


def _check_constants(census: str, sent: SentQuery | None) -> None:
    for part in _parts(census):
        at, where = _place(part, sent)
        message = f"{part.name}() fails: {excerpt(one_line(part.detail), 300)}"
        raise PlacedQueryError(
            what=f"{message}{where}",
            why="constants among its arguments are wrong, so a step would fail over its first row",
            fix="correct the constant arguments",
            message=message,
            at=at,
        )


def _place(part: _PlanPart, sent: SentQuery | None) -> tuple[QueryPlace | None, str]:
    if sent is None or part.start < 0:
        return None, ""
    return place_of(sent, part.start, part.stop + 1)


def _judge(census: str, sent: SentQuery | None) -> None:
    for part in _parts(census):
        found = _refusal(part)
        if found is not None:
            what, fix, why = found
            at, where = _place(part, sent)
            refused = ClockError if part.kind == "clock" else RefusedPlanError
            raise refused(
                what=f"{what} is not allowed in a query{where}",
                why=why,
                fix=fix,
                message=f"{what} is not allowed in a query",
                at=at,
            )


_Refusal = tuple[str, str, str]
"""What is refused, the way out, and why."""
_WHY: Final = (
    "a query can only compute rows from the rows of its inputs: it cannot start programs, read "
    "files, addresses or settings, or change anything"
)


def _refusal(part: _PlanPart) -> _Refusal | None:
    """Return what is refused of a part in words; None if it is admitted."""
    match part.kind:
        case "class":
            spoken = f"{part.detail}()" if part.detail else _plain(part.name)
            return None if part.name in ADMITTED else (spoken, "leave it out", _WHY)
        case "function":
            return _refused_function(part)
        case "option":
            if part.detail != "relation" and part.name.lower() in OPTIONS:
                return None
            return f"the option {part.name!r}", "leave it out", _WHY
        case "method":
            if part.name.startswith(_METHODS):
                return None
            return f"the method {part.name}.{part.detail}", "leave it out", _WHY
        case "clock":
            return _refused_clock(part)
        case "map":
            return (
                f"a group for each value of a {part.name}",
                "group by a text of it, such as to_json(...), or by its parts",
                "this version of Spark takes nulls in such a map for zeros where it groups by it",
            )
        case _:
            return f"the name {part.name!r}", "name an input of the query, in backticks", _WHY


def _refused_clock(part: _PlanPart) -> _Refusal:
    match part.name:
        case "TIME":
            what, fix = (
                f"a TIME as {part.detail}",
                "make_timestamp(a date, the time) gives it a date",
            )
        case "VARIANT":
            what = f"a value of a VARIANT as {part.detail}"
            fix = "get it as 'STRING', and cast that to TIMESTAMP"
        case "NESTED":
            what = f"a cast of nested texts to {part.detail}"
            fix = "cast each text by itself: transform(texts, each -> CAST(each AS TIMESTAMP))"
        case "PARSED":
            what = f"a TIMESTAMP of {part.detail}() without a format"
            fix = "read it as STRING and cast that; or give map('timestampFormat', '...') alone"
        case "CONSTANT":
            what = f"a text that is worked out as {part.detail}"
            fix = "write the value itself, such as '2024-05-01 12:34:00'"
        case "PIVOT":
            what = f"a PIVOT of a {part.detail} for values that may have no date"
            fix = "write the value itself, such as TIMESTAMP'2024-05-01 12:34:00'"
        case "?":
            what, fix = f"this way to write a {part.detail}", "write TIMESTAMP'2024-05-01 12:34:00'"
        case _:
            what = f"{excerpt(part.name, 60)} as {part.detail}"
            fix = "write the date, too, such as '2024-05-01 12:34:00'"
    why = "a time without a date gets the date on which the query runs"
    return what, fix, why


def _refused_function(part: _PlanPart) -> _Refusal | None:
    name = _function(part.name)
    reason = REFUSED.get(name)
    if name not in ALLOWED and reason is not Reason.NOT_DETERMINISTIC:
        if reason is not None:
            return f"{name}()", f"remove {name}", _WHY
        known = "only known harmless functions of Spark are allowed (UNRESOLVED_ROUTINE)"
        return (
            f"the function {name}()",
            "only functions of Spark can be used",
            known,
        )
    at, kinds = TYPE_ARGUMENTS.get(name), part.detail.split(" ")[:-1]
    if at is None or at >= len(kinds):
        return None
    if kinds[at] == "literal" or _function(kinds[at].removesuffix("()")).startswith("schema_of_"):
        return None
    return (
        f"{name}() of a type that is worked out or written as JSON",
        "write the type as one text, such as 'a INT, b STRING', or as schema_of_json('...')",
        "a type in JSON may name classes of Java or Python to load",
    )


def _function(name: str) -> str:
    """Return the name of a function of Spark's without where Spark has it."""
    return name.lower().removeprefix("system.").removeprefix("builtin.")


def _plain(name: str) -> str:
    """Return the name of a class as users may know it from Spark's plans."""
    return name.rpartition(".")[2].removesuffix("$")


# The other side


_last: list[tuple[object, Any]] = []  # the gateway to the JVM of this process, and the census there
_loading = Lock()


def _census(session: "SparkSession") -> Any:
    """Return the census in a JVM.

    It is loaded there once, as Py4J takes methods of a class for those of another of that name.
    """
    gateway = gateway_of(session)
    with _loading:
        if not _last or _last[0][0] is not gateway:
            _last[:] = [(gateway, _load_census(gateway))]
        return _last[0][1]


def _load_census(gateway: Any) -> Any:
    """Return the class that lists what plans consist of; PlanCensus.java is its source."""
    view = gateway.jvm
    code = (files("odfbuild.executors.engine.spark.admission") / "PlanCensus.class").read_bytes()
    classes = view.java.util.HashMap()
    classes.put(_CENSUS, code)
    parent = view.java.lang.Thread.currentThread().getContextClassLoader()
    util = view.org.codehaus.commons.compiler.util.reflect
    loaded = util.ByteArrayClassLoader(classes, parent).loadClass(_CENSUS)
    none = gateway.new_array(view.java.lang.Class, 0)
    return loaded.getDeclaredConstructor(none).newInstance(
        gateway.new_array(view.java.lang.Object, 0)
    )
