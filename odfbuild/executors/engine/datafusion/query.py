"""Ad hoc queries in DataFusion: views of datasets, the text as it is, rows in memory or in a file.

Of a view the columns that the text may name are read, and all rows: what decides about rows is the
engine alone, as Arrow and the statistics of Parquet files know other rules for NaN and null.
"""

import sys

import pyarrow as pa

from odfbuild.errors import InvalidQueryError, OdfBuildError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView, faults_named
from odfbuild.executors.engine.datafusion.places import placed
from odfbuild.executors.engine.datafusion.session import (
    MEMORY,
    batches_of,
    columns,
    query_context,
    too_large,
)
from odfbuild.executors.engine.datafusion.spool import BYTES_IN_MEMORY, spooled
from odfbuild.executors.engine.datafusion.sums import check_fit
from odfbuild.executors.engine.querier import QueryRequest, check_names
from odfbuild.sql.text.statement import DataFusionStatement
from odfbuild.sql.text.steps import DATAFUSION, QueryStep


def answer(request: QueryRequest) -> Frame:
    """Return the rows of the answer.

    Raises InvalidQueryError for the text and what it does with the data, InvalidChangelogError of
    a dataset that cannot be replayed, EngineFailedError where memory does not do.
    """
    step = QueryStep(None, request.text, engine=DATAFUSION)
    try:
        return _answer(step, request)
    except InvalidQueryError as error:
        raise placed(_seen_with_all_columns(error, step, request), (step,)) from None


def _answer(step: QueryStep, request: QueryRequest) -> Frame:
    statement = step.statement
    assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
    with query_context(spill=request.staging, clock=request.clock) as context:
        for name, view in request.views.items():
            with faults_named():
                context.add(name, _rows(view, _readable_columns(statement, view.columns().names)))
        frame = found = context.last(statement.sent)
        schema, held = columns(frame), BYTES_IN_MEMORY
        check_names(schema.names)
        if request.limit is not None:
            frame, held = frame.limit(request.limit), sys.maxsize
        rows = spooled(batches_of(frame, schema), schema, request.staging, held)
        check_fit(context, found, ((None, statement.sent),))
        return rows


def _seen_with_all_columns(
    error: InvalidQueryError, step: QueryStep, request: QueryRequest
) -> InvalidQueryError:
    """Return what DataFusion says of the text if it knows all columns, and not those that are read.

    It names those that there are, and which of them may be meant.
    """
    try:
        with query_context(spill=request.staging, clock=request.clock) as context:
            for name, view in request.views.items():
                context.add(name, view.columns().empty_table())
            statement = step.statement
            assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
            context.last(statement.sent)
    except InvalidQueryError as found:
        return found
    except OdfBuildError:
        pass
    return error


def _readable_columns(statement: DataFusionStatement, columns: list[str]) -> list[str]:
    """Return the columns that a text may read, one at least: all, if there is any star in it."""
    words = {each.text for each in statement.tokens}
    if "*" in words or "natural" in {each.lower() for each in words}:
        return columns
    return [each for each in columns if each in words] or columns[:1]


def _rows(view: DatasetView, columns: list[str]) -> pa.Table:
    """Return columns of a view.  Raises EngineFailedError when they are more than fit."""
    reader = view.reader(columns)
    found, size = [], 0
    for batch in reader:
        found.append(batch)
        size += batch.nbytes
        if size > MEMORY:
            raise too_large("read the dataset")
    return pa.Table.from_batches(found, reader.schema)
