"""New rows of an input of a step, as a query reads them."""

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import with_one_zero
from odfbuild.executors.engine.protocol import POSITION_SHIFT, TransformInputFrame, system_columns
from odfbuild.executors.engine.spark import frames
from odfbuild.executors.engine.spark.frames import (
    POSITION,
    cost,
    from_files,
    from_table,
    slice_table,
)
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.session import SessionCache
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.columns import OPERATION
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LENT: Final = 4 << 20  # bytes of input up to which a session keeps them for the next steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Which rows: those of an input in its interval; `raw` for the event log as it is.

    Else each row has its operation and its position before the columns that queries see.
    Values are as in rows that are compared: instants in milliseconds, one zero and one NaN.
    """

    source: TransformInputFrame
    number: int
    raw: bool = False

    def frame(
        self, session: "SparkSession", lent: SessionCache, size: StepSize, *, empty: bool = False
    ) -> "DataFrame":
        """Return the rows; few ones that an earlier step has read are not read again."""
        make = partial(self._frame, session, size, empty=empty)
        is_small = not empty and cost(*self.source.paths) <= _LENT
        return lent.frame(self, make) if is_small else make()

    def _frame(self, session: "SparkSession", size: StepSize, *, empty: bool) -> "DataFrame":
        interval, paths = self.source.interval, self.source.paths
        if size is StepSize.BIG and interval is not None and paths and not empty:
            return self._from_files(session, interval.start, interval.end)
        return self._from_table(session, empty=empty)

    def _from_files(self, session: "SparkSession", start: int, end: int) -> "DataFrame":
        schema, vocab = to_arrow(self.source.schema), self.source.vocab
        rows = normal(frames.with_one_zero(from_files(session, self.source.paths, schema)))
        rows = rows.where(f"{quoted(vocab.offset_column)} BETWEEN {start} AND {end}")
        offset = f"CAST({quoted(vocab.offset_column)} AS BIGINT)"
        position = f"{self.number << POSITION_SHIFT} + {offset} AS {POSITION}"
        operation = f"CAST({quoted(vocab.operation_type_column)} AS INT) AS {OPERATION}"
        carried = [position] if self.raw else [operation, position]
        return rows.selectExpr(*carried, *map(quoted, visible(schema, vocab, raw=self.raw)))

    def _from_table(self, session: "SparkSession", *, empty: bool) -> "DataFrame":
        schema, vocab = to_arrow(self.source.schema), self.source.vocab
        table = with_one_zero(_new_rows(self.source, schema, empty=empty))
        offsets = table.column(vocab.offset_column).cast(pa.int64())
        positions = pc.add(offsets, pa.scalar(self.number << POSITION_SHIFT, pa.int64()))
        operations = table.column(vocab.operation_type_column).cast(pa.int32())
        columns = (
            {POSITION: positions} if self.raw else {OPERATION: operations, POSITION: positions}
        )
        columns |= {name: table.column(name) for name in visible(schema, vocab, raw=self.raw)}
        return from_table(session, pa.table(columns), whole=False)


def _new_rows(source: TransformInputFrame, schema: pa.Schema, *, empty: bool) -> pa.Table:
    """Return the rows of the slices whose offsets lie in the interval."""
    nullable = pa.schema([pa.field(each.name, in_millis(each.type)) for each in schema])
    if empty or source.interval is None or not source.paths:
        return nullable.empty_table()
    table = pa.concat_tables([slice_table(path, nullable) for path in source.paths])
    offsets = table.column(source.vocab.offset_column)
    first, last = source.interval.start, source.interval.end
    within = pc.and_(pc.greater_equal(offsets, first), pc.less_equal(offsets, last))
    return table if pc.all(within, min_count=0).as_py() else table.filter(within)


def visible(schema: pa.Schema, vocab: DatasetVocabulary, *, raw: bool) -> list[str]:
    """Return the columns that the query sees: event time and data, or all of the event log."""
    system = () if raw else system_columns(vocab)
    return [name for name in schema.names if name not in system]
