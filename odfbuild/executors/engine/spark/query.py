"""Ad hoc queries on Spark: views of datasets, the text as it is, rows into memory or files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.querier import QueryRequest, check_names
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.changelog import ChangelogReplay, in_vain
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.executors.engine.spark.frames import gather
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.versions import in_force, logged
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.sql.analysis.windows import whole_sessions
from odfbuild.sql.text.as_of_joins import FROM, ROW, TO
from odfbuild.sql.text.edits import CarriedText
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.statement import SqlTextError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DAY: Final = 86_400_000
_LOG: Final = "__odf_log"


def queried(replaying: ChangelogReplay, request: QueryRequest, log: Path | None) -> Frame:
    """Return the rows of the answer.

    Raises InvalidQueryError, with the place in the text where Spark tells it, and
    InvalidChangelogError.
    """
    for number, (name, view) in enumerate(request.views.items()):
        replaying.views.add(name, _seen(replaying, view, f"{_LOG}_{number}"))
    sent = SentQuery(0, 1, _carried_text(request.text))
    try:
        with spark_errors("read the query", (sent,), log):
            rows = admitted(replaying.session, sent.carried.text, sent)
    except SparkQueryError as error:
        raise _with_hint(error, request) from None
    check_names(rows.columns)
    rows = rows.selectExpr(*map(_printable_column, rows.schema.fields))
    size = StepSize.BIG
    if request.limit is not None:
        rows, size = rows.limit(request.limit), StepSize.SMALL
    with in_vain(), spark_errors("run the query", (sent,), log):
        return gather(rows, size, request.staging, rows.columns, _as_they_are)


def _carried_text(text: str) -> CarriedText:
    try:
        return whole_sessions(read(text))
    except SqlTextError:  # Spark says what is wrong with it
        return CarriedText(text, ())


def _seen(replaying: ChangelogReplay, view: DatasetView, name: str) -> "DataFrame":
    schema = to_arrow(view.schema)
    if view.log:
        return replaying.rows(view.paths, schema)
    if view.is_versioned:
        return _in_force(replaying, view, schema, name)
    time = view.vocab.event_time_column

    def early(rows: "DataFrame") -> "DataFrame":
        if view.until is None:
            return rows
        return rows.where(f"{quoted(time)} <= {_literal(view.until, schema.field(time).type)}")

    columns = view.columns().names
    return replaying.current_rows(view.paths, schema, columns, view.vocab, name, early)


def _in_force(
    replaying: ChangelogReplay, view: DatasetView, schema: pa.Schema, name: str
) -> "DataFrame":
    """Return the version of each key that was in force at the event time that is asked for."""
    assert view.until is not None  # noqa: S101 - of the property
    columns, time = view.columns().names, view.vocab.event_time_column
    rows = logged(replaying, view.paths, schema, columns, view.vocab, view.key, name)
    versions = in_force(replaying, rows, view.key, time, f"{name}_rows")
    at = _literal(view.until, schema.field(time).type)
    return versions.where(f"{FROM} <= {at} AND ({TO} IS NULL OR {at} < {TO})").select(f"{ROW}.*")


def _literal(at: Timestamp, kind: Any) -> str:
    if pa.types.is_date(kind):
        return f"date_from_unix_date({at.millis // _DAY})"
    return f"timestamp_millis({at.millis}L)"


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _printable_column(field: Any) -> str:
    """Return a column as it is, or as text if its type is of Spark's own."""
    kind, column = field.dataType, quoted(field.name)
    if _is_own(kind):
        return f"CAST({column} AS STRING) AS {column}"
    if _has_own(kind):
        raise InvalidQueryError(
            what=f"column {field.name!r} has the type {kind.simpleString()}",
            why="intervals, variants and untyped nulls exist only in Spark",
            fix=f"give it a type: CAST(... AS STRING) AS {quoted(field.name)}",
        )
    return column


def _is_own(kind: Any) -> bool:
    return "interval" in kind.typeName() or kind.typeName() in {"void", "variant"}


def _has_own(kind: Any) -> bool:
    match kind.typeName():
        case "array":
            return _has_own(kind.elementType)
        case "map":
            return _has_own(kind.keyType) or _has_own(kind.valueType)
        case "struct":
            return any(_has_own(field.dataType) for field in kind.fields)
        case _:
            return _is_own(kind)


def _with_hint(error: SparkQueryError, request: QueryRequest) -> SparkQueryError:
    """Add what to do to the error for a question that names system columns which it cannot see."""
    said = error.what.split("Did you mean")[0]
    for view in request.views.values():
        vocab = view.vocab
        system = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
        named = next((name for name in system if f"`{name}`" in said), None)
        if named is not None and not view.log:
            return SparkQueryError(
                error.what,
                f"{named!r} is a column of the changelog; current rows do not have it",
                "omit it, or query the changelog (--log)",
                error.condition,
                message=error.message,
                at=error.at,
            )
    return error
