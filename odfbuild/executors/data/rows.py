"""Comparison of rows: keys of equal rows, shortest changelogs, the first row that differs.

So -0.0 differs from 0.0, and one NaN is like another.  Offsets are not compared: they only count.

pyarrow groups by flat columns only, and by the bits of floats.  So structs become their members
and whether they are there, and lists and maps become texts, one value at a time.

It is what the engine makes of many: rows are equal as in GROUP BY and sorted by all their columns,
nulls first; those of one key that go and come are paired in that order, as corrections.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.python_values import python_rows, python_values
from odfbuild.odf.hashing import logical_hash
from odfbuild.values import dataclass


def row_keys(rows: pa.Table) -> pa.Table:
    """Return columns that pyarrow can group by; two rows have equal ones if they are equal."""
    found = [key for column in rows.columns for key in _keys(column.combine_chunks())]
    return pa.table(found, names=[f"k{number}" for number in range(len(found))])


def hashable_keys(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield a key of each row, which a dictionary can hold; equal rows have equal ones."""
    return zip(*(_hashable(column) for column in row_keys(rows).columns), strict=True)


def _keys(column: Any) -> Iterator[pa.Array]:
    if pa.types.is_struct(column.type):
        yield column.is_valid()
        for member in column.flatten():
            yield from _keys(member)
    elif pa.types.is_nested(column.type):
        yield pa.array([_text(each, column.type) for each in python_values(column)], pa.string())
    elif pa.types.is_float16(column.type):
        yield one_zero(column.cast(pa.float32()))
    elif pa.types.is_floating(column.type):
        yield one_zero(column)
    else:
        yield column


def _text(value: Any, kind: Any) -> str | None:
    return None if value is None else repr(_comparable(value, kind))


def _comparable(value: Any, kind: Any) -> Any:
    """Return a value whose repr is the same for equal ones."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = (
            (_comparable(key, kind.key_type), _comparable(each, kind.item_type))
            for key, each in value
        )
        return sorted(pairs, key=repr)
    if pa.types.is_struct(kind):
        return [_comparable(value[member.name], member.type) for member in kind]
    if pa.types.is_nested(kind):
        return [_comparable(each, kind.value_type) for each in value]
    return value + 0.0 if pa.types.is_floating(kind) else value


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
    """Return the rows with one zero and one NaN among the floating-point numbers of each column.

    So do queries read rows: two that are equal, of which one may take back the other, then look the
    same to every function (`1 / f`, a number as text).
    """
    for at, field in enumerate(rows.schema):
        if _has_floats(field.type):
            chunks = [one_zero(each) for each in rows.column(at).chunks]
            rows = rows.set_column(at, field, pa.chunked_array(chunks, field.type))
    return rows


def one_zero(array: Any) -> Any:
    """Return an array with one zero and one NaN, also inside of structs and lists."""
    kind = array.type
    if pa.types.is_float16(kind):
        return one_zero(array.cast(pa.float32())).cast(kind)
    if pa.types.is_floating(kind):
        whole = pc.add(array, pa.scalar(0.0, kind))
        return pc.if_else(pc.is_nan(whole), pa.scalar(math.nan, kind), whole)
    if pa.types.is_struct(kind):
        members = [one_zero(array.field(at)) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        items = one_zero(array.values.slice(first, last - first))
        starts = pc.subtract(array.offsets, array.offsets[0])
        return pa.ListArray.from_arrays(starts, items, type=kind, mask=array.is_null())
    return array


def _has_floats(kind: Any) -> bool:
    """Tell whether values of a type hold floating-point numbers; maps, never stored, aside."""
    if pa.types.is_struct(kind):
        return any(_has_floats(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _has_floats(kind.value_type)
    return bool(pa.types.is_floating(kind))


def net(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return the rows that two tables have unequally often, and how often more the second has."""
    weights = pa.array([-1] * len(before) + [1] * len(after), pa.int64())
    return net_of(pa.concat_tables([before, after]), weights)


def net_of(rows: pa.Table, weights: pa.Array) -> tuple[pa.Table, pa.Array]:
    """Return different rows whose weights, added up, are not 0, and these sums."""
    keys = row_keys(rows)
    names = keys.column_names
    counted = keys.append_column("i", row_numbers(len(rows))).append_column("w", weights)
    found = counted.group_by(names, use_threads=False).aggregate([("i", "min"), ("w", "sum")])
    found = found.filter(pc.not_equal(found.column("w_sum"), 0))
    return rows.take(found.column("i_min")), found.column("w_sum").combine_chunks()


def difference(before: pa.Table, after: pa.Table, *, op: str, key: Sequence[str] = ()) -> pa.Table:
    """Return the changes from the rows of one table to those of another, `op` first.

    Both have the same columns.  Rows are in an order that their values alone decide: that of SQL
    where the columns are orderly.
    """
    rows, weights = net(with_one_zero(before), with_one_zero(after))
    rows, weights = _sorted(rows, weights)
    placed = _plain(weights) if not key else _placed_rows(weights, rows.select(list(key)))
    ops = pa.array([each[2] for each in placed], pa.int32())
    ranks = pa.array([each[3] for each in placed], pa.int64())
    return rows.take(ranks).add_column(0, pa.field(op, pa.int32()), ops)


def sort_columns(rows: pa.Table) -> list[Any]:
    """Return columns in whose ascending order rows are sorted as SQL sorts them: nulls come first,
    and NaN is greater than any number.
    """
    columns: list[Any] = []
    for column in rows.columns:
        if column.null_count:
            columns.append(column.is_valid())
        if pa.types.is_nested(column.type):
            columns += row_keys(pa.table([column], names=["nested"])).columns
        elif pa.types.is_floating(column.type):
            nan = pc.is_nan(column)
            columns += [nan, pc.if_else(nan, pa.scalar(0.0, column.type), column)]
        else:
            columns.append(column)
    return columns


def _sorted(rows: pa.Table, weights: pa.Array) -> tuple[pa.Table, pa.Array]:
    columns = sort_columns(rows)
    keys = pa.table(columns, names=[str(number) for number in range(len(columns))])
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    return rows.take(order), weights.take(order)


def _plain(weights: pa.Array) -> list[_Placed]:
    return [
        (rank, number, 1 if weight < 0 else 0, rank)
        for rank, weight in enumerate(weights.to_pylist())
        for number in range(abs(weight))
    ]


def _placed_rows(weights: pa.Array, keys: pa.Table) -> list[_Placed]:
    groups: dict[tuple[Any, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    named = zip(hashable_keys(keys), weights.to_pylist(), strict=True)
    for rank, (name, weight) in enumerate(named):
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
    values = python_values(column)
    if not pa.types.is_floating(column.type):
        return values
    return ["NaN" if each is not None and math.isnan(each) else each for each in values]


_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRow:
    """A row as it is recorded, and as it came out; None where there is no such row.

    `columns` are those that differ; none of them when one of the two is not there.
    """

    offset: int
    columns: tuple[str, ...]
    recorded: Mapping[str, Any] | None
    computed: Mapping[str, Any] | None


def first_difference(
    recorded: Path | None, computed: Path | None, *, start: int, offset: str
) -> DifferingRow | None:
    """Return the first row that differs between two files; None stands for no rows.

    `start` is the offset of the first row, `offset` the column of offsets.  Columns that only one
    of the files has, or that have another type there, are not compared.
    """
    names = _common(recorded, computed, offset)
    for one, other in zip_longest(_windows(recorded), _windows(computed)):
        found = _in_window(one, other, names)
        if found is not None:
            at, columns = found
            return DifferingRow(
                offset=start + at,
                columns=columns,
                recorded=_row(one, at),
                computed=_row(other, at),
            )
        start += one.num_rows
    return None


def _common(one: Path | None, other: Path | None, offset: str) -> tuple[str, ...]:
    if one is None or other is None:
        return ()
    types = {field.name: field.type for field in pq.read_schema(other)}
    fields = (field for field in pq.read_schema(one) if field.name != offset)
    return tuple(field.name for field in fields if types.get(field.name) == field.type)


def _windows(path: Path | None) -> Iterator[pa.Table]:
    """Yield the rows of a file, equally many at a time but for the last."""
    if path is None:
        return
    with pq.ParquetFile(path, pre_buffer=False) as file:
        held, rows = [], 0
        for batch in file.iter_batches(_ROWS):
            held.append(batch)
            rows += batch.num_rows
            while rows >= _ROWS:
                table = pa.Table.from_batches(held)
                yield table.slice(0, _ROWS)
                held, rows = table.slice(_ROWS).to_batches(), rows - _ROWS
        if rows:
            yield pa.Table.from_batches(held)


def _in_window(
    one: pa.Table | None, other: pa.Table | None, names: Sequence[str]
) -> tuple[int, tuple[str, ...]] | None:
    """Return the number of the first row that differs, and its columns that do."""
    if one is None or other is None:
        return 0, ()
    rows = min(one.num_rows, other.num_rows)
    differing = [name for name in names if not _equal(one, other, name, 0, rows)]
    if differing:
        at = min(_first(rows, _prefix(one, other, name)) for name in differing)
        return at, tuple(name for name in differing if not _equal(one, other, name, at, 1))
    return None if one.num_rows == other.num_rows else (rows, ())


def _prefix(one: pa.Table, other: pa.Table, name: str) -> Callable[[int], bool]:
    return lambda rows: _equal(one, other, name, 0, rows)


def _first(rows: int, is_equal_upto: Callable[[int], bool]) -> int:
    """Return the first row that differs, of rows that do as a whole."""
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_equal_upto(middle) else (low, middle)
    return low


def _equal(one: pa.Table, other: pa.Table, name: str, start: int, rows: int) -> bool:
    return _digest(one, name, start, rows) == _digest(other, name, start, rows)


def _digest(table: pa.Table, name: str, start: int, rows: int) -> object:
    return logical_hash(table.select([name]).slice(start, rows))


def _row(table: pa.Table | None, at: int) -> Mapping[str, Any] | None:
    if table is None or at >= table.num_rows:
        return None
    return python_rows(table.slice(at, 1))[0]
