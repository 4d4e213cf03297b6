"""Multiplicities of a row for many selections of input rows: in one run where possible.

Where a query only tells the values of its key apart, each selection gets a value of its own; so one
run answers for all of them, and the row is looked for under each value.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.conformance import conform, null_column, row_numbers
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.engine.protocol import Inputs, ReplayEngine, TransformWork
from odfbuild.sql.analysis.keys.key_columns import KeyColumns, opaque_keys
from odfbuild.values import dataclass

_MOST_ROWS: Final = 1 << 18  # in one run
_MOST_WORK: Final = 1 << 21  # rows in all runs, for one answer
_RUNS: Final = range(30, 251)


def selections(
    replaying: ReplayEngine,
    work: TransformWork,
    key: KeyColumns | None,
    row: pa.Table,
) -> "Selections":
    """Return what counts a row, the quicker way if there is one.  The rows are of one key."""
    if key is None or key.outputs is None:
        return Alone(replaying, row)
    seen = work.query.columns
    inputs = {alias: [each.name for each in seen[alias].fields] for alias in key.inputs}
    for part in opaque_keys(work.query.steps, key, inputs, row.column_names):
        if _can_be_made_up(row.column(key.outputs[part])):
            names = {alias: columns[part] for alias, columns in key.inputs.items()}
            return BatchedRuns(replaying, row, key.outputs[part], names)
    return Alone(replaying, row)


@dataclass(frozen=True, slots=True)
class Alone:
    """Runs the query for each selection."""

    replaying: ReplayEngine
    row: pa.Table

    def counts(self, work: TransformWork, many: Sequence[Inputs]) -> list[int]:
        """Return how often the query gives the row, for each selection."""
        return [len(equal_rows(each, self.row)) for each in self.replaying.results(work, many)]

    def most(self, rows: int) -> int:
        """Return how many selections of so many rows may be tried."""
        return max(_RUNS[0], min(_RUNS[-1], _MOST_WORK // max(1, rows)))


@dataclass(frozen=True, slots=True)
class BatchedRuns:
    """Runs the query for many selections at once: `output` and `names` hold the part of the key."""

    replaying: ReplayEngine
    row: pa.Table
    output: str
    names: Mapping[str, str]

    def counts(self, work: TransformWork, many: Sequence[Inputs]) -> list[int]:
        """Return how often the query gives the row, for each selection."""
        return [count for part in _parts(many) for count in self._counts(work, part)]

    def most(self, rows: int) -> int:
        """Return how many selections of so many rows may be tried."""
        return max(_RUNS[0], _MOST_WORK // max(1, rows))

    def _counts(self, work: TransformWork, many: Sequence[Inputs]) -> list[int]:
        inputs = {
            alias: pa.concat_tables(
                [_under(each[alias], name, number) for number, each in enumerate(many)]
            )
            for alias, name in self.names.items()
        }
        (result,) = self.replaying.results(work, [inputs])
        rest = self.row.drop_columns([self.output])
        found = result.column(self.output).take(pa.array(equal_rows(result, rest), pa.int64()))
        counts = Counter(int(each) for each in found.to_pylist() if each is not None)
        return [counts[number] for number in range(len(many))]


Selections = Alone | BatchedRuns


def _parts(many: Sequence[Inputs]) -> Iterator[list[Inputs]]:
    """Yield selections in parts that are few rows together."""
    held: list[Inputs] = []
    rows = 0
    for each in many:
        size = sum(table.num_rows for table in each.values())
        if held and rows + size > _MOST_ROWS:
            yield held
            held, rows = [], 0
        held.append(each)
        rows += size
    if held:
        yield held


def _can_be_made_up(column: pa.ChunkedArray) -> bool:
    """Tell whether other values can stand for those of a column: the numbers of selections."""
    kind = column.type
    fits = pa.types.is_string(kind) or pa.types.is_int64(kind) or pa.types.is_int32(kind)
    return fits and not column.null_count


def _under(rows: pa.Table, name: str, number: int) -> pa.Table:
    """Return rows under another value of a part of their key."""
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(at)
    value: Any = str(number) if pa.types.is_string(field.type) else number
    return rows.set_column(at, field, pa.repeat(pa.scalar(value, field.type), rows.num_rows))


def equal_rows(rows: pa.Table, row: pa.Table) -> list[int]:
    """Return the numbers of the rows equal to one in its columns; what is not there is null."""
    there = set(rows.column_names)
    columns = [
        _typed(rows.column(each.name), each.type)
        if each.name in there
        else null_column(rows.num_rows, each.type)
        for each in row.schema
    ]
    plain = pa.schema([each.with_nullable(True) for each in row.schema])
    if not plain.names:
        return list(range(rows.num_rows))
    both = pa.concat_tables([row.cast(plain), pa.Table.from_arrays(columns, schema=plain)])
    keys = row_keys(both.combine_chunks())
    numbered = keys.append_column("i", row_numbers(len(both)))
    groups = numbered.group_by(keys.column_names, use_threads=False).aggregate([("i", "list")])
    lists = groups.column("i_list").combine_chunks()
    first = lists.filter(pc.equal(pc.list_element(lists, 0), 0))
    return [each - 1 for members in first.to_pylist() for each in members if each]


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return conform(conform(column.combine_chunks(), in_millis(kind)), kind)
