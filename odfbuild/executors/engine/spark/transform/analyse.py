"""Analysis of a query by Spark over inputs without rows or carried columns."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.executors.engine.analysis import Analysis
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.protocol import unseen_columns
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.changelog import ChangelogReplay
from odfbuild.executors.engine.spark.cluster.driver import view_rows
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.executors.engine.spark.frames import from_table
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.transform.columns import check_columns
from odfbuild.executors.engine.spark.transform.inputs import visible
from odfbuild.executors.engine.spark.transform.linear import check_stable, with_hint
from odfbuild.executors.engine.spark.transform.versions import in_force, time_of
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.sql.analysis.windows import closing
from odfbuild.sql.text.as_of_joins import as_of, tables_of, versions_view
from odfbuild.sql.text.edits import CarriedText, edited

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def analysed(
    session: "SparkSession", views: Views, question: Analysis, facts: QueryFacts, log: Path | None
) -> pa.Schema:
    """Return the columns that the query gives: operation, event time, then the others.

    Raises InvalidQueryError, with the place in the user's text where Spark tells it.
    """
    raw = facts.names_op
    for source in question.inputs:
        if source.alias in facts.inputs:
            full = to_arrow(source.schema)
            seen = pa.schema([full.field(name) for name in visible(full, source.vocab, raw=raw)])
            views.add(source.alias, from_table(session, _nullable(seen).empty_table()))
    frame = _last(session, views, question, facts, log)
    check_stable(frame)
    check_columns(frame, question.vocab, raw=raw)
    return _schema(frame, question)


def _last(
    session: "SparkSession", views: Views, question: Analysis, facts: QueryFacts, log: Path | None
) -> "DataFrame":
    """Analyse the steps of the query in turn and return the last."""
    unseen = () if facts.names_op else unseen_columns(each.vocab for each in question.inputs)
    frame = None
    for number, step in enumerate(question.steps):
        tables = tuple(tables_of(step.statement))
        changes = [partial(closing, until=None), *[partial(as_of, until=None)] * bool(tables)]
        carried = edited(CarriedText.of(step.statement), *changes)
        sent = SentQuery(number, len(question.steps), carried)
        for table in tables:
            _add_versions(session, views, question, table)
        try:
            with spark_errors("read the query", (sent,), log):
                frame = admitted(session, sent.carried.text, sent, evaluated=True)
        except SparkQueryError as error:
            raise with_hint(error, unseen) from None
        if step.alias is not None:
            views.add(step.alias, frame)
    assert frame is not None  # noqa: S101 - a query has a step
    return frame


def _add_versions(session: "SparkSession", views: Views, question: Analysis, table: str) -> None:
    """Make the versions of a table readable: those of an input, or of an earlier step."""
    rows = view_rows(session, table)
    own = next((each.vocab for each in question.inputs if each.alias == table), None)
    vocabs = [question.vocab, *(each.vocab for each in question.inputs)] if own is None else [own]
    time = time_of(table, rows.columns, [vocab.event_time_column for vocab in vocabs])
    key = dict(question.steps[0].temporal)[table]
    replaying = ChangelogReplay(session=session, views=views, size=StepSize.SMALL)
    found = in_force(replaying, rows, key, time, f"__odf_rows_of_{table}")
    views.add(versions_view(table), found)


def _schema(frame: "DataFrame", question: Analysis) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    found = plain_schema(to_arrow_schema(frame.schema, timezone="UTC"))
    op, time = question.vocab.operation_type_column, question.vocab.event_time_column
    data = [field for field in found if field.name not in {op, time}]
    return pa.schema([pa.field(op, pa.int32()), found.field(time), *data])


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
