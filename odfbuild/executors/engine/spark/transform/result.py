"""Result of a query over several rows, as stored, and the changes between two results.

A query of the kinds `keyed` and `whole` runs over rows that stand.  Before Spark sees it, all that
depends on order is decided by values, and windows and versions wait for the watermark.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.arrow.requirements import check_event_time
from odfbuild.executors.engine.protocol import (
    TransformInputFrame,
    TransformWork,
    system_columns,
    unseen_columns,
)
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.changelog import changelog_text, in_vain
from odfbuild.executors.engine.spark.cluster.driver import built, functions
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.executors.engine.spark.frames import gather
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.ingest.merge_parts import kinds_of
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.columns import check_columns
from odfbuild.executors.engine.spark.transform.fine_times import note_fine
from odfbuild.executors.engine.spark.transform.linear import check_stable, with_hint
from odfbuild.executors.engine.spark.transform.run import StepRun
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.types import is_optional
from odfbuild.sql.analysis.windows import closing
from odfbuild.sql.text.as_of_joins import as_of, tables_of, versions_view
from odfbuild.sql.text.edits import edited

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_BEFORE: Final = "__odf_before"
_AFTER: Final = "__odf_after"
_HELD: Final = "__odf_held"


def sent_steps(work: TransformWork) -> tuple[SentQuery, ...]:
    """Return the steps of the query as Spark gets them, as of the watermark."""
    until = None if work.watermark is None else work.watermark.millis
    steps, found = work.query.steps, []
    for number, (step, first) in enumerate(zip(steps, work.query.order_free, strict=True)):
        changes = [partial(closing, until=until)]
        if any(tables_of(step.statement)):
            changes.append(partial(as_of, until=until))
        found.append(SentQuery(number, len(steps), edited(first, *changes)))
    return tuple(found)


@contextmanager
def result_errors(run: StepRun, sent: Sequence[SentQuery]) -> Iterator[None]:
    """Tell errors of Spark with the place in the user's text, and those of changelogs."""
    with in_vain(), spark_errors("run the query", sent, run.log):
        yield


def planned_result(
    run: StepRun,
    work: TransformWork,
    sent: Sequence[SentQuery],
    rows: "Callable[[TransformInputFrame], DataFrame]",
    versions: "Callable[[str], DataFrame]",
) -> "DataFrame":
    """Let Spark analyse the query and return what it gives; `sent` are its steps.

    `rows` gives those of an input that stand, `versions` those of a temporal table.
    """
    for source in work.inputs:
        if source.alias in work.query.read_plainly:
            run.views.add(source.alias, rows(source))
    found = _last(run, work, sent, versions)
    check_stable(found)
    check_columns(found, work.vocab, raw=False)
    return found


def stored_result(
    run: StepRun, work: TransformWork, sent: Sequence[SentQuery], found: "DataFrame"
) -> "DataFrame":
    """Return a result as it is stored; times that are cut by that are noted."""
    with result_errors(run, sent):
        note_fine(found, [step.text for step in work.query.steps])
    return as_stored(found, work)


def _last(
    run: StepRun,
    work: TransformWork,
    sent: Sequence[SentQuery],
    versions: "Callable[[str], DataFrame]",
) -> "DataFrame":
    """Let Spark analyse the steps of the query in turn, and return the last."""
    unseen = unseen_columns(each.vocab for each in work.inputs)
    frame = None
    for step, query in zip(work.query.steps, sent, strict=True):
        for table in tables_of(step.statement):
            run.views.add(versions_view(table), versions(table))
        try:
            with spark_errors("read the query", (query,), run.log):
                frame = admitted(run.session, query.carried.text, query)
        except SparkQueryError as error:
            raise with_hint(error, unseen) from None
        if step.alias is not None:
            run.views.add(step.alias, frame)
    assert frame is not None  # noqa: S101 - a query has a step
    return frame


def as_stored(result: "DataFrame", work: TransformWork) -> "DataFrame":
    """Return what a query gives as the dataset stores it: the event time, then the other columns.

    Columns that the dataset has and the query no longer gives are null.
    """
    time = work.vocab.event_time_column
    others = [name for name in result.columns if name != time]
    return complete(normal(result.select([quoted(name) for name in (time, *others)])), work)


def complete(result: "DataFrame", work: TransformWork) -> "DataFrame":
    """Return a result with a null for each column that the dataset has and it lacks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    stored = () if work.in_force is None else work.in_force.fields
    gone = {*system_columns(work.vocab), *result.columns}
    retired = tuple(each for each in stored if each.name not in gone and is_optional(each.type))
    for each in from_arrow_schema(plain_schema(to_arrow(DataSchema(retired)))).fields:
        result = result.withColumn(each.name, functions(result).lit(None).cast(each.dataType))
    return result


def stored_rows(
    run: StepRun,
    work: TransformWork,
    kinds: Mapping[str, Any],
    chosen: "Callable[[DataFrame], DataFrame]" = lambda rows: rows,
) -> "DataFrame":
    """Return the rows that the dataset holds, with these columns; `chosen` picks some of them."""
    from pyspark.sql.pandas.types import to_arrow_type

    vocab = work.vocab
    fields = [pa.field(name, to_arrow_type(kind, timezone="UTC")) for name, kind in kinds.items()]
    system = [
        pa.field(vocab.offset_column, pa.int64()),
        pa.field(vocab.operation_type_column, pa.int32()),
    ]
    schema = pa.schema([*system, *fields])
    return run.replaying.current_rows(work.output, schema, list(kinds), vocab, _HELD, chosen)


def corrections(
    run: StepRun,
    work: TransformWork,
    before: "DataFrame",
    after: "DataFrame",
    key: Sequence[str] = (),
) -> Frame:
    """Return the changes that lead from some rows to others of the same columns.

    Of rows that are alike in the columns `key`, one that comes replaces one that goes.
    """
    op, kinds = work.vocab.operation_type_column, kinds_of(after.schema)
    run.views.add(_AFTER, after)
    run.views.add(_BEFORE, before)
    changes = changelog_text(_BEFORE, _AFTER, kinds, op=op, key=paired(key, kinds))
    rows = built(run.session, f"SELECT * FROM ({changes}) ORDER BY __odf_o, {quoted(op)}")
    return gather(rows, run.size, work.staging, [op, *kinds], partial(timed, work))


def paired(key: Sequence[str], columns: Collection[str]) -> Sequence[str]:
    """Return the columns by which a removed row and an added one are one correction."""
    return key if all(name in columns for name in key) else ()


def timed(work: TransformWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of a result, all of which must have an event time."""
    for batch in batches:
        check_event_time(batch, work.vocab)
        yield batch
