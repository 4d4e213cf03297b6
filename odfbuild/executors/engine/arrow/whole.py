"""Steps that compare a whole result with what the dataset holds, in this process.

The result is worked out over all rows that stand, sorted by all their columns: it then depends on
their values alone, and neither on the portions in which they came nor on what replaced what.
"""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.conformance import conform, null_column
from odfbuild.executors.data.fine_times import FineTimes, noting
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import difference, row_keys
from odfbuild.executors.engine.arrow.keyed import touched_states
from odfbuild.executors.engine.arrow.requirements import check_event_time
from odfbuild.executors.engine.protocol import Inputs, TransformWork, system_columns
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.types import is_optional


def full_changes(work: TransformWork, result: Callable[[Inputs], pa.Table], *, most: int) -> Frame:
    """Return what a step changes, given what its query gives of rows; see `completed`.

    A row that comes replaces one that goes where the query tells by which columns.

    Raises InvalidQueryError, InvalidChangelogError, and EngineFailedError where the rows of the
    inputs do not fit into `most` bytes.
    """
    found = touched_states(work, most=most)
    if found is None:
        raise EngineFailedError(
            what="the rows of the inputs do not fit into memory",
            why=f"a query over several rows is computed over all of them, in {most >> 20} MB",
            fix="read fewer rows or columns, in a separate dataset, or write the query for "
            "`engine: spark`, which only reads the keys of new rows",
        )
    noted = FineTimes()
    with noting(noted):
        (after,) = map(result, found.after)
    held = after.schema.empty_table() if found.held is None else _as(found.held, after.schema)
    names = set(after.column_names)
    key = [] if not names.issuperset(work.query.replaced_by) else work.query.replaced_by
    changes = difference(held, after, op=work.vocab.operation_type_column, key=key)
    for batch in changes.to_batches():
        check_event_time(batch, work.vocab)
    cut = tuple(noted.first.values())
    return replace(Frame.of(changes), read=found.read, cut=cut)


def by_value(rows: pa.Table) -> pa.Table:
    """Return rows in an order that their values alone decide."""
    return rows.take(value_order(rows)).combine_chunks()


def value_order(rows: pa.Table) -> pa.Array:
    """Return the numbers of rows in that order; those of equal rows as they came."""
    keys = row_keys(rows)
    return pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])


def completed(rows: pa.Table, work: TransformWork) -> pa.Table:
    """Return the event time and the columns in order; those that the dataset has are not lost."""
    time = work.vocab.event_time_column
    rows = rows.select([time, *(name for name in rows.column_names if name != time)])
    stored = () if work.in_force is None else work.in_force.fields
    gone = {*system_columns(work.vocab), *rows.column_names}
    retired = (each for each in stored if each.name not in gone and is_optional(each.type))
    for each in to_arrow(DataSchema(tuple(retired))):
        rows = rows.append_column(each.name, null_column(rows.num_rows, in_millis(each.type)))
    return rows


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored rows with the columns that the query gives now; what is not there is null."""
    there = set(rows.column_names)
    found = [
        conform(rows.column(each.name).combine_chunks(), each.type)
        if each.name in there
        else null_column(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(found, schema=schema)
