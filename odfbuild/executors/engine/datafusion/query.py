"""Ad hoc queries in DataFusion: views of datasets, the text as it is, rows in memory or in a file.

Of a view the columns that the text may name are read, and all rows: what decides about rows is the
engine alone, as Arrow and the statistics of Parquet files know other rules for NaN and null.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.datafusion.session import (
    MEMORY,
    QueryContext,
    batches_of,
    columns,
    too_large,
)
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.sql.text.statement import DataFusionStatement
from odfbuild.sql.text.steps import DATAFUSION, QueryStep

if TYPE_CHECKING:
    import datafusion

_HELD: Final = 64 << 20  # bytes of an answer that is held in memory


def answer(request: QueryRequest) -> Frame:
    """Return the rows of the answer.

    Raises InvalidQueryError for the text and what it does with the data, InvalidChangelogError of
    a dataset that cannot be replayed, EngineFailedError where memory does not do.
    """
    statement = QueryStep(None, request.text, engine=DATAFUSION).statement
    assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
    context = QueryContext(spill=True, clock=True)
    for name, view in request.views.items():
        context.add(name, _rows(view, _named(statement, view.columns().names)))
    frame = context.query(statement.sent)
    names = columns(frame).names
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise InvalidQueryError(
            what=f"the query gives two columns named {twice!r}",
            why="the columns of an answer have different names",
            fix="rename one of them with AS",
        )
    return _gathered(frame if request.limit is None else frame.limit(request.limit), request)


def _named(statement: DataFusionStatement, columns: list[str]) -> list[str]:
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


def _gathered(frame: "datafusion.DataFrame", request: QueryRequest) -> Frame:
    schema, held, size = columns(frame), [], 0
    batches = batches_of(frame, schema)
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > _HELD and request.limit is None:
            return _written(request, schema, held, batches)
    return Frame.of(pa.Table.from_batches(held, schema))


def _written(
    request: QueryRequest,
    schema: pa.Schema,
    held: list[pa.RecordBatch],
    rest: Iterator[pa.RecordBatch],
) -> Frame:
    path = request.staging / f"rows-{uuid4().hex}.parquet"
    with pq.ParquetWriter(path, schema, compression="snappy", write_page_checksum=True) as writer:
        for part in (held, rest):
            for batch in part:
                writer.write_batch(batch)
    return Frame.at(path, schema=schema)
