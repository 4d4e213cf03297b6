"""The shortest changelog from some rows to others, worked out in Arrow: for few rows.

It is what the engine makes of many: rows are equal as in GROUP BY and sorted by all their columns,
nulls first; those of one key that go and come are paired in that order, as corrections.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.row_keys import row_keys

__all__ = ["difference", "is_orderly", "net", "with_one_zero"]

_Placed: TypeAlias = tuple[int, int, int, int]
"""Where a change stands: rank of its pair, number within equal ones, operation, rank of the row."""


def is_orderly(schema: pa.Schema) -> bool:
    """Tell whether rows of these columns can be sorted in Arrow as SQL sorts them."""
    return not any(
        pa.types.is_nested(each.type)
        or pa.types.is_null(each.type)
        or pa.types.is_float16(each.type)
        for each in schema
    )


def with_one_zero(rows: pa.Table) -> pa.Table:
    """Return the rows with one zero and one NaN in columns of floating-point numbers."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            column = pc.add(rows.column(at), pa.scalar(0.0, field.type))
            nan = pa.scalar(math.nan, field.type)
            rows = rows.set_column(at, field, pc.if_else(pc.is_nan(column), nan, column))
    return rows


def net(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return the rows that two tables have unequally often, and how often more the second has."""
    both = pa.concat_tables([before, after])
    keys = row_keys(both)
    names = keys.column_names
    counted = keys.append_column("i", pa.array(range(len(both)), pa.int64())).append_column(
        "w", pa.array([-1] * len(before) + [1] * len(after), pa.int64())
    )
    found = counted.group_by(names, use_threads=False).aggregate([("i", "min"), ("w", "sum")])
    found = found.filter(pc.not_equal(found.column("w_sum"), 0))
    return both.take(found.column("i_min")), found.column("w_sum").combine_chunks()


def difference(before: pa.Table, after: pa.Table, *, op: str, key: Sequence[str] = ()) -> pa.Table:
    """Return the changes from the rows of one table to those of another, `op` first.

    Both have the same columns, which must be orderly.
    """
    rows, weights = net(with_one_zero(before), with_one_zero(after))
    rows, weights = _sorted(rows, weights)
    placed = _plain(weights) if not key else _paired(weights, rows.select(list(key)))
    ops = pa.array([each[2] for each in placed], pa.int32())
    ranks = pa.array([each[3] for each in placed], pa.int64())
    return rows.take(ranks).add_column(0, pa.field(op, pa.int32()), ops)


def _sorted(rows: pa.Table, weights: pa.Array) -> tuple[pa.Table, pa.Array]:
    columns: list[Any] = []
    for column in rows.columns:
        if column.null_count:
            columns.append(column.is_valid())  # nulls come first
        if pa.types.is_floating(column.type):  # NaN is greater than any number
            nan = pc.is_nan(column)
            columns += [nan, pc.if_else(nan, pa.scalar(0.0, column.type), column)]
        else:
            columns.append(column)
    keys = pa.table(columns, names=[str(number) for number in range(len(columns))])
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    return rows.take(order), weights.take(order)


def _plain(weights: pa.Array) -> list[_Placed]:
    return [
        (rank, number, 1 if weight < 0 else 0, rank)
        for rank, weight in enumerate(weights.to_pylist())
        for number in range(abs(weight))
    ]


def _paired(weights: pa.Array, keys: pa.Table) -> list[_Placed]:
    groups: dict[tuple[Any, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    plain = row_keys(keys).columns
    named = zip(*(_hashable(column) for column in plain), strict=True)
    for rank, (name, weight) in enumerate(zip(named, weights.to_pylist(), strict=True)):
        groups[name][weight > 0].extend([rank] * abs(weight))
    return sorted(each for gone, come in groups.values() for each in _of_key(gone, come))


def _of_key(gone: Sequence[int], come: Sequence[int]) -> Iterator[_Placed]:
    """Yield the changes of one key: the i-th row that goes and the i-th that comes are a pair."""
    pairs = min(len(gone), len(come))
    for number in range(pairs):
        yield gone[number], number, 2, gone[number]
        yield gone[number], number, 3, come[number]
    yield from ((rank, number, 1, rank) for number, rank in enumerate(gone) if number >= pairs)
    yield from ((rank, number, 0, rank) for number, rank in enumerate(come) if number >= pairs)


def _hashable(column: pa.ChunkedArray) -> list[Any]:
    """Return values of which equal ones are one key of a dictionary, also NaN."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return ["NaN" if each is not None and math.isnan(each) else each for each in values]
