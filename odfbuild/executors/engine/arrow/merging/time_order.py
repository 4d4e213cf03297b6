"""Order of rows by event time, in memory: what an Append strategy asks for.

DataFusion, which sorts what is too long for that, copies all rows once more, and has to be loaded.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_PIECE = 1 << 17  # rows that are put in order at a time


def is_sortable(kind: pa.DataType) -> bool:
    """Tell whether event times of a type are sorted here."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def in_time_order(
    batches: Sequence[pa.RecordBatch],
    names: Sequence[str],
    time: str | None,
    value: Callable[[pa.Array], pa.Array],
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of rows in the order of their times, and of equal times in their own.

    Rows without a time come first.  `value` gives what counts of the times, `time` is None for rows
    that are in order.
    """
    order = _order(batches, time, value) if batches and time is not None else None
    if order is None:
        yield from (each.select(names) for each in batches)
        return
    table = pa.Table.from_batches(batches).select(names)
    del batches
    columns = []
    for name in names:  # one after the other, so that not all rows are there twice
        columns.append(table.column(0).combine_chunks())
        table = table.drop_columns([name])
    for start in range(0, len(order), _PIECE):
        piece = order.slice(start, _PIECE)
        yield pa.RecordBatch.from_arrays([each.take(piece) for each in columns], names)


def _order(
    batches: Sequence[pa.RecordBatch], time: str, value: Callable[[pa.Array], pa.Array]
) -> Any | None:
    """Return the places of rows in the order of their times, None if they are in order."""
    times = pa.concat_arrays([value(each.column(time)) for each in batches])
    if not times.null_count and pc.all(pc.less_equal(times[:-1], times[1:])).as_py():
        return None
    return pc.array_sort_indices(times, null_placement="at_start")  # stable
