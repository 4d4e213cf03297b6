"""Steps in memory, of queries that look at more than one row.

What stands is read and replayed in Arrow, so that Spark gets rows and the user's query alone; and
few rows that come of it are compared in Arrow.  The changes are those that `Keyed` gives.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.executors.data.conformance import conform, null_column, retyped
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import difference, is_orderly
from odfbuild.executors.engine.arrow.keyed import TouchedStates
from odfbuild.executors.engine.protocol import Inputs, TransformInputFrame, TransformWork
from odfbuild.executors.engine.spark.frames import from_table, gather
from odfbuild.executors.engine.spark.transform.fine_times import collecting
from odfbuild.executors.engine.spark.transform.keyed import versions_of
from odfbuild.executors.engine.spark.transform.result import (
    corrections,
    paired,
    planned_result,
    result_errors,
    sent_steps,
    stored_result,
    timed,
)
from odfbuild.executors.engine.spark.transform.run import Runs, StepRun
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class InMemory:
    """A step whose rows exist already."""

    work: TransformWork
    sides: TouchedStates

    def changes(self, runs: Runs) -> Frame:
        work, sides = self.work, self.sides
        with runs(0) as run:
            after = list(results(run, work, sides.after))
            then = replace(work, watermark=work.watermark_before)
            with collecting(wanted=False):
                before = list(results(run, then, sides.before))
            schema = (after or before)[0].schema
            if sides.held is not None:
                before.append(_as(sides.held, schema))
            none = schema.empty_table()
            gone, came = (
                pa.concat_tables([none, *(retyped(each, schema) for each in tables)])
                for tables in (before, after)
            )
            return replace(_changes(run, work, gone, came), read=sides.read)


def results(run: StepRun, work: TransformWork, many: Iterable[Inputs]) -> Iterator[pa.Table]:
    """Yield what the query gives of each of some selections of rows, which fit into memory."""
    selections = tuple(many)
    sent = sent_steps(work) if selections else ()
    for inputs in selections:

        def rows(source: TransformInputFrame, inputs: Inputs = inputs) -> "DataFrame":
            return from_table(run.session, inputs[source.alias])

        planned = planned_result(run, work, sent, rows, partial(versions_of, run, work))
        found = stored_result(run, work, sent, planned)
        with result_errors(run, sent):
            table = gather(found, run.size, work.staging, found.columns, lambda each: each).table
        assert table is not None  # noqa: S101 - it is small
        yield table


def _changes(run: StepRun, work: TransformWork, gone: pa.Table, came: pa.Table) -> Frame:
    """Return the changes that lead from some rows to others."""
    if not is_orderly(came.schema):
        before, after = (from_table(run.session, each) for each in (gone, came))
        with result_errors(run, sent_steps(work)):
            return corrections(run, work, before, after, work.query.replaced_by)
    key = paired(work.query.replaced_by, came.schema.names)
    changes = difference(gone, came, op=work.vocab.operation_type_column, key=key)
    checked = timed(work, iter(changes.to_batches()))
    return Frame.of(pa.Table.from_batches(checked, changes.schema))


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored rows with the columns that the query gives now; what is not there is null."""
    there = set(rows.column_names)
    columns = [
        conform(conform(rows.column(each.name).combine_chunks(), in_millis(each.type)), each.type)
        if each.name in there
        else null_column(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
