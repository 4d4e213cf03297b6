"""Steps whose rows fit into memory, of queries that look at more than one row.

What stands is read and replayed in Arrow, so that Spark gets rows and the user's query alone; and
few rows that come of it are compared in Arrow.  The changes are those that `Stateful` gives.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import difference, is_orderly
from odfbuild.executors.engine.arrow.keyed import Sides
from odfbuild.executors.engine.inputs import Inputs
from odfbuild.executors.engine.protocol import TransformInputFrame
from odfbuild.executors.engine.spark.admission import built
from odfbuild.executors.engine.spark.changelog import changelog_text
from odfbuild.executors.engine.spark.frames import from_table, gather
from odfbuild.executors.engine.spark.ingest.merge_parts import kinds_of
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.fine_times import collecting
from odfbuild.executors.engine.spark.transform.keyed import Stateful, paired

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_BEFORE = "__odf_before"
_AFTER = "__odf_after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick(Stateful):
    """A step whose rows are there already; `given` are those that the query runs over now."""

    sides: Sides
    given: Inputs = field(default_factory=lambda: MappingProxyType({}))

    def changes(self) -> Frame:
        after = [self._run(inputs) for inputs in self.sides.after]
        then = replace(self, work=replace(self.work, watermark=self.work.watermark_before))
        with collecting(wanted=False):
            before = [then._run(inputs) for inputs in self.sides.before]
        schema = (after or before)[0].schema
        if self.sides.held is not None:
            before.append(_as(self.sides.held, schema))
        came, gone = (
            pa.concat_tables([each.cast(schema) for each in tables] or [schema.empty_table()])
            for tables in (after, before)
        )
        op = self.work.vocab.operation_type_column
        key = paired(self.work.query.key, dict.fromkeys(schema.names))
        if not is_orderly(schema):
            return replace(self._compared(gone, came, key), read=self.sides.read)
        changes = difference(gone, came, op=op, key=key)
        checked = self._checked(iter(changes.to_batches()))
        table = pa.Table.from_batches(checked, changes.schema)
        return Frame(schema=table.schema, table=table, read=self.sides.read)

    def _run(self, inputs: Inputs) -> pa.Table:
        """Return what the query gives of some rows."""
        step = replace(self, given=inputs)
        result = step.result(None)
        with self._errors("run the query"):
            found = gather(result, self.size, self.work.staging, result.columns, lambda each: each)
        assert found.table is not None  # noqa: S101 - it is small
        return found.table

    def _standing(
        self,
        source: TransformInputFrame,
        key: Sequence[str],  # noqa: ARG002 - the rows are those of the keys
        *,
        empty: bool,  # noqa: ARG002
    ) -> "DataFrame":
        return from_table(self.session, self.given[source.alias])

    def _compared(self, gone: pa.Table, came: pa.Table, key: Sequence[str]) -> Frame:
        """Let Spark compare rows that Arrow cannot sort."""
        op = self.work.vocab.operation_type_column
        after = from_table(self.session, came)
        kinds = kinds_of(after.schema)
        self.views.add(_AFTER, after)
        self.views.add(_BEFORE, from_table(self.session, gone))
        changes = changelog_text(_BEFORE, _AFTER, kinds, op=op, key=key)
        with self._errors("run the query"):
            rows = built(self.session, f"SELECT * FROM ({changes}) ORDER BY __odf_o, {quoted(op)}")
            return gather(rows, self.size, self.work.staging, [op, *kinds], self._checked)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored rows with the columns that the query gives now; what is not there is null."""
    there = set(rows.column_names)
    columns = [
        conform(conform(rows.column(each.name).combine_chunks(), in_millis(each.type)), each.type)
        if each.name in there
        else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


class Chosen(Quick):
    """A query, and the rows that it runs over: never more than fit into memory."""

    __slots__ = ()

    def results(self, many: Sequence[Inputs]) -> tuple[pa.Table, ...]:
        """Return what the query gives of each selection of rows."""
        return tuple(replace(self, given=each)._run(each) for each in many)
