"""Spark's exceptions in our words: one readable line, the place in the user's text, a remedy.

What a query or its data did wrong becomes InvalidQueryError, everything else EngineFailedError.
Spark says which by its SQLSTATE: 22 data, 42 text and names, 0A and 54 limits, P0001 raise_error;
what its parser or analyser raises is about the query whatever its name.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.analysis import EngineFaultError, PlacedQueryError, QueryPlace
from odfbuild.executors.engine.spark.cluster.driver import is_spark_error
from odfbuild.executors.engine.spark.cluster.task_errors import error_of_task
from odfbuild.executors.engine.spark.jvm.context import is_given_up
from odfbuild.executors.engine.spark.jvm.failure import (
    MEMORY_FIX,
    JavaGoneError,
    JavaMemoryError,
    says_memory,
)
from odfbuild.executors.engine.spark.session import interrupted
from odfbuild.sql.text.edits import CarriedText, TwiceCarried
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
_USERS = ("22", "42", "0A", "54", "21", "P0001", "KD")
_NAMELESS = ("INTERNAL_ERROR", "FAILED_EXECUTE_UDF")  # their causes say more
_LEGACY = "_LEGACY_ERROR"
_HIDDEN = re.compile(r"(?:`[^`]+`\.)*`?__odf_\w+`?,? ?")
_FIXES = {
    "UNRESOLVED_COLUMN": "correct the name; names are case-sensitive",
    "CAST_INVALID_INPUT": "use try_cast to get NULL for what cannot be converted",
    "CANNOT_PARSE_TIMESTAMP": "give the right format, or use try_to_timestamp to get NULL",
    "REMAINDER_BY_ZERO": "use try_mod, or nullif around the divisor",
    "USER_RAISED_EXCEPTION": "the query itself raises this: correct the data or the query",
    "DATETIME_FIELD_OUT_OF_BOUNDS": "correct the data, or return NULL for invalid dates (CASE)",
    "DIVIDE_BY_ZERO": "use try_divide, or nullif around the divisor",
    "ARITHMETIC_OVERFLOW": "cast to a wider type first, or use a try_ function",
    "INVALID_ARRAY_INDEX": "use try_element_at or get, which give NULL outside the array",
    "UNRESOLVED_ROUTINE": "only functions of Spark can be used",
    "NUMERIC_VALUE_OUT_OF_RANGE": "use a wider decimal, or try_cast",
}
_UNDATED = "'no date: "  # how the cast of a text without a date is marked (PlanCensus.java)
_UNDATED_FIX = "put a date before the time; or use try_cast to get NULL for texts without a date"


@dataclass(frozen=True, slots=True)
class SentQuery:
    """A query text as it was sent to Spark, and how the user's text became it."""

    step: int
    steps: int
    carried: CarriedText | TwiceCarried


class SparkQueryError(PlacedQueryError):
    """Spark refuses a query, or it fails on its data; `condition` is Spark's name for it."""

    def __init__(
        self,
        what: str,
        why: str,
        fix: str,
        condition: str | None,
        *,
        message: str | None = None,
        at: QueryPlace | None = None,
    ) -> None:
        super().__init__(what, why, fix, message=message, at=at)
        self.condition = condition


@contextlib.contextmanager
def spark_errors(
    doing: str, sent: Sequence[SentQuery] = (), log: Path | None = None
) -> Iterator[None]:
    """Turn what Spark raises inside into our errors; `doing` completes "Spark failed to"."""
    import pyspark  # noqa: F401 - before its parts: who imports one first keeps a part from others
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except OdfBuildError:
        raise
    except PySparkException as error:
        raise _translate(error, doing, sent, log) from None
    except Py4JJavaError as error:
        raise _translate(_named_cause(error), doing, sent, log) from None
    except (Py4JError, ConnectionError, EOFError) as error:
        raise _lost(error, doing, log) from None


@contextlib.contextmanager
def noticing_end(session: Any, doing: str, log: Path | None = None) -> Iterator[None]:
    """Raise JavaGoneError for what fails in any way once another thread gave up the session."""
    try:
        yield
    except Exception as error:  # what PySpark is without its context decides which
        if isinstance(error, OdfBuildError) or not is_given_up(session):
            raise
        raise _lost(ConnectionError(), doing, log) from None


def _translate(
    error: Any, doing: str, sent: Sequence[SentQuery], log: Path | None
) -> OdfBuildError:
    if (of_task := error_of_task(str(error))) is not None:
        return of_task
    known = _first_known(error)
    if known is None:
        return _lost(error, doing, log)
    condition, state = known.getCondition(), known.getSqlState() or ""
    message = _one_line(known)
    if condition in _CANCELLED:
        return interrupted()
    about_query = state.startswith(_USERS) or _of_analyser(known)
    if not about_query and says_memory(condition or ""):
        return _without_memory(doing, message)
    if not about_query:
        return EngineFaultError(
            what=f"Spark failed to {doing}: {message}",
            why=f"condition {condition}, which is not about the query",
            fix=_see(log),
        )
    at, fragment = _place(known, sent)
    undated = _UNDATED in message
    return SparkQueryError(
        what=f"{message}{_words(at, sent)}",
        why=f"Spark could not {doing}"
        + ("" if condition is None or condition.startswith(_LEGACY) else f": {condition}")
        + (f" in {fragment!r}" if fragment else ""),
        fix=_UNDATED_FIX if undated else _fix(condition or ""),
        condition=condition,
        message=message,
        at=at,
    )


def _of_analyser(error: Any) -> bool:
    """Tell whether Spark's parser or analyser raised an error, not as one of Spark itself."""
    from pyspark.errors import AnalysisException

    condition = error.getCondition() if isinstance(error, AnalysisException) else _NAMELESS[0]
    return condition is None or not condition.startswith(_NAMELESS)


class _Thrown:
    """An exception of the JVM that PySpark has no class for, by the methods of those it has."""

    def __init__(self, thrown: Any) -> None:
        self._thrown = thrown

    def getCondition(self) -> str | None:
        return self._thrown.getCondition()  # type: ignore[no-any-return]

    def getSqlState(self) -> str | None:
        return self._thrown.getSqlState()  # type: ignore[no-any-return]

    def getMessage(self) -> str:
        return str(self._thrown.getMessage())

    def getQueryContext(self) -> tuple[()]:
        return ()


def _named_cause(error: Any) -> Any:
    """Return the first cause that Spark has a name for, where PySpark did not look for one."""
    cause = error.java_exception
    for _ in range(8):
        if cause is None:
            break
        thrown = _Thrown(cause)
        if is_spark_error(cause) and _first_known(thrown) is not None:
            return thrown
        cause = cause.getCause()
    return error


def _first_known(error: Any) -> Any | None:
    """Return the exception, or the first of its causes, that carries a condition of Spark."""
    seen = 0
    while error is not None and seen < 8:
        condition = error.getCondition() if hasattr(error, "getCondition") else None
        if (condition and not condition.startswith(_NAMELESS)) or _of_analyser(error):
            return error
        error, seen = getattr(error, "_cause", None), seen + 1
    return None


def _one_line(error: Any) -> str:
    return one_line(str(error.getMessage() or error))


def one_line(text: str) -> str:
    """Return a message of Spark's without its class, its SQL excerpt and our own columns."""
    text = re.split(r"\n\n?== |\n\nJVM stacktrace|;\n['+:]", text, maxsplit=1)[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\] ", "", text)
    text = re.sub(r" ?SQLSTATE: \w+", "", text)
    text = re.sub(r' If necessary set "spark[^"]*" to "\w+"[^.]*\.?', "", text)
    text = re.sub(r"\.?; line \d+ pos \d+$", "", text.rstrip(" ;\n"))  # of servers
    text = _HIDDEN.sub("", text).replace(", ]", "]")
    text = re.sub(r" ?\(line \d+, pos \d+\)", "", text)
    return " ".join(text.split()).rstrip(" .;")


def _place(error: Any, sent: Sequence[SentQuery]) -> tuple[QueryPlace | None, str | None]:
    """Return where in the user's text the error is, and the text there."""
    if not sent:
        return None, None
    for context in error.getQueryContext() or ():
        if context.contextType().name != "SQL":
            continue
        start, end, fragment = context.startIndex(), context.stopIndex() + 1, context.fragment()
        for query in reversed(sent):
            if _as_java(query.carried.text, start, end) == fragment.replace("\ufffd", "?"):
                return place_of(query, start, end)[0], _shown(query, start, end)
    query = sent[-1]
    found = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if found is None:
        return QueryPlace(query.step, None), None
    offset = _offset(query.carried.text, *map(int, found.groups()))
    return QueryPlace(query.step, query.carried.origin(offset)), None


def place_of(sent: SentQuery, start: int, end: int) -> tuple[QueryPlace, str]:
    """Return which part of the user's text a part of the sent one is, and words for that."""
    origin = sent.carried.origin
    at = QueryPlace(sent.step, origin(start), max(1, origin(end) - origin(start)))
    return at, _words(at, (sent,))


def _words(at: QueryPlace | None, sent: Sequence[SentQuery]) -> str:
    query = next((each for each in sent if at is not None and each.step == at.step), None)
    if at is None or query is None:
        return ""
    several = query.steps > 1
    if at.start is None:
        return f" (in step {at.step + 1})" if several else ""
    text, start = query.carried.original, at.start
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    step = f" of step {at.step + 1}" if several else ""
    return f" (line {line}, column {column}{step})"


def _as_java(text: str, start: int, end: int) -> str:
    """Return what Spark shows of a text: it counts characters, and cuts by halves of some."""
    cut = text.encode("utf-16-le", "replace")[2 * start : 2 * end]
    return cut.decode("utf-16-le", "replace").replace("\ufffd", "?")


def _shown(query: SentQuery, start: int, end: int) -> str:
    origin = query.carried.origin
    text = query.carried.original[origin(start) : origin(end)]
    return excerpt(" ".join(text.split()), 80)


def _offset(text: str, line: int, column: int) -> int:
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + column


def _fix(condition: str) -> str:
    known = next((fix for start, fix in _FIXES.items() if condition.startswith(start)), None)
    return known or "correct the query; it is Spark SQL in ANSI mode"


def _lost(error: BaseException, doing: str, log: Path | None) -> EngineFailedError:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    text = str(error)
    if "cancelled" in text or "SparkContext was shut down" in text:
        return interrupted()
    if isinstance(error, ConnectionError | EOFError | Py4JNetworkError):
        return JavaGoneError(
            what=f"Spark failed to {doing}",
            why="the connection to its Java process was lost",
            fix=_see(log),
        )
    if says_memory(text):
        return _without_memory(doing, next(filter(says_memory, text.splitlines())).strip())
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    thrown = isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError)
    kind = EngineFaultError if thrown else JavaGoneError  # an answer that broke off, maybe
    return kind(
        what=f"Spark failed to {doing}",
        why=excerpt(first.strip(), 300),
        fix=_see(log),
    )


def _without_memory(doing: str, said: str) -> JavaMemoryError:
    return JavaMemoryError(
        what=f"Spark failed to {doing}: Java ran out of memory",
        why=f"it printed: {excerpt(said, 200)}",
        fix=MEMORY_FIX,
    )


def _see(log: Path | None) -> str:
    return f"see {log}" if log is not None else "run again; if it persists, report it"
