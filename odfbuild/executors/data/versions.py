"""The version of each key that was in force at an event time, replayed without an engine.

The rules are those of joins with the versions of a table (`spark.versions`): a row that is added is
a version from its event time on; a correction to a later event time under the same key ends it
there; all other rows that are taken back are no versions.  Of several versions in force at one time
that of the greatest event time counts, of equal times the greatest by all columns, nulls being
least.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import (
    RetractedKeys,
    in_chunks,
    not_after,
    only_appends,
    up_to,
    where_comes,
)
from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.parquet import scan_slices
from odfbuild.executors.data.python_values import FarTime, python_rows
from odfbuild.executors.data.rows import row_keys
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.timestamp import Timestamp

_CHUNK = 1 << 17


def in_force(
    paths: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    key: Sequence[str],
    at: Timestamp,
) -> Iterator[pa.RecordBatch]:
    """Yield the row that each key had at an event time, in the order in which they came.

    They have the event time and the data columns; `key` are columns of the schema.  Memory holds
    what was taken back, and a row for each key.  Raises InvalidChangelogError, after the rows, when
    one is taken back that is not there.  Pairs of corrections may lie across slices.
    """
    offset, op, time = vocab.offset_column, vocab.operation_type_column, vocab.event_time_column
    system = (offset, op, vocab.system_time_column)
    columns = [field.name for field in schema.fields if field.name not in system]
    wanted = [offset, op, *columns]
    taking = [path for path in paths if not only_appends([path], op)]
    removed = list(_removed_rows(scan_slices(taking, wanted, schema=schema), vocab, key, at))
    gone = RetractedKeys((rows for rows, _ in removed), columns, offset)
    ending = RetractedKeys((rows for _, rows in removed), columns, offset)
    del removed
    came = where_comes(up_to(scan_slices(paths, wanted, schema=schema), time, at), op, comes=True)
    found: pa.Table | None = None
    for rows in in_chunks(came, max(_CHUNK, gone.rows)):
        left = gone.left_of(rows, columns)
        ending.left_of(left, columns)
        left = left.drop_columns([op])
        known = left if found is None else pa.concat_tables([found, left])
        found = _latest(known, key, time, columns)
    if found is not None:
        yield from found.sort_by(offset).select(columns).to_batches()
    gone.check()
    ending.check()


def _removed_rows(
    batches: Iterable[pa.RecordBatch], vocab: DatasetVocabulary, key: Sequence[str], at: Timestamp
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows up to a time that are taken back: those gone then, and those that end later.

    A row ends later if the next row corrects it under the same key to an event time after `at`.
    """
    op, time = vocab.operation_type_column, vocab.event_time_column
    held: pa.RecordBatch | None = None
    for batch in chain(batches, [None]):
        if batch is not None and not batch.num_rows:
            continue
        parts = [each for each in (held, batch) if each is not None]
        if not parts:
            return
        rows = pa.concat_batches(parts)
        known = rows if batch is None else rows.slice(0, rows.num_rows - 1)
        ends = _ends_later(rows, vocab, key, at).slice(0, known.num_rows)
        taken = [known.filter(pc.invert(ends)), known.filter(ends)]
        gone, ending = (
            pa.concat_batches(up_to(where_comes([each], op, comes=False), time, at))
            for each in taken
        )
        yield gone, ending
        held = rows.slice(rows.num_rows - 1)


def _ends_later(
    rows: pa.RecordBatch, vocab: DatasetVocabulary, key: Sequence[str], at: Timestamp
) -> pa.Array:
    """Tell of each row whether the next one corrects it, under its key, to a time after `at`."""
    count = rows.num_rows - 1
    op, offset = rows.column(vocab.operation_type_column), rows.column(vocab.offset_column)
    ends = pc.and_(pc.equal(op.slice(0, count), 2), pc.equal(op.slice(1), 3))
    ends = pc.and_(ends, pc.equal(pc.add(offset.slice(0, count), 1), offset.slice(1)))
    ends = pc.and_(ends, pc.invert(not_after(rows.column(vocab.event_time_column).slice(1), at)))
    for parts in row_keys(pa.Table.from_batches([rows]).select(list(key))).columns:
        part: Any = parts.combine_chunks()
        ends = pc.and_(ends, _same(part.slice(0, count), part.slice(1)))
    return pa.concat_arrays([pc.fill_null(ends, False), pa.array([False])])


def _same(left: Any, right: Any) -> Any:
    """Tell which values are equal, null being equal to null and NaN to NaN."""
    same = pc.or_(pc.fill_null(pc.equal(left, right), False), _both(pc.is_null, left, right))
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.fill_null(_both(pc.is_nan, left, right), False))
    return same


def _both(test: Any, left: Any, right: Any) -> Any:
    return pc.and_(test(left), test(right))


def _latest(rows: pa.Table, key: Sequence[str], time: str, columns: Sequence[str]) -> pa.Table:
    """Return of each key the row of the greatest event time, of equal times the greatest row."""
    if not len(rows):
        return rows
    keys = row_keys(rows.select(list(key)))
    names = keys.column_names
    ticks = _ticks(rows.column(time).combine_chunks())
    numbers = row_numbers(len(rows))
    grouped = keys.append_column("t", ticks).append_column("i", numbers)
    found = grouped.group_by(names, use_threads=False).aggregate([("t", "max"), ("i", "list")])
    lists = found.column("i_list").combine_chunks()
    places, group = lists.flatten(), pc.list_parent_indices(lists)
    last = pc.equal(ticks.take(places), found.column("t_max").combine_chunks().take(group))
    places, group = places.filter(last), group.filter(last)
    if len(places) == len(found):
        return rows.take(places)
    return rows.take(_greatest(rows.select(list(columns)), places, group))


def _ticks(times: Any) -> pa.Array:
    """Return event times as numbers that can be compared."""
    narrow = pa.int32() if times.type.bit_width == 32 else pa.int64()
    return times.view(narrow).cast(pa.int64())


def _greatest(rows: pa.Table, places: Any, group: Any) -> pa.Array:
    """Return one place for each group: that of the greatest row, the last of equal ones."""
    counts = {each["values"]: each["counts"] for each in pc.value_counts(group).to_pylist()}
    several = pc.is_in(
        group, value_set=pa.array([n for n, times in counts.items() if times > 1], group.type)
    )
    best: dict[int, tuple[Any, int]] = {}
    tied = python_rows(rows.take(places.filter(several)))
    where = places.filter(several).to_pylist()
    for number, place, row in zip(group.filter(several).to_pylist(), where, tied, strict=True):
        rank = tuple(_rank(value, rows.field(name).type) for name, value in row.items())
        if number not in best or (rank, place) > best[number]:
            best[number] = (rank, place)
    chosen = [place for _, place in best.values()]
    return pa.concat_arrays([places.filter(pc.invert(several)), pa.array(chosen, pa.int64())])


def _rank(value: Any, kind: Any) -> tuple[Any, ...]:
    """Return what compares as Spark compares values: nulls are least, NaN is greatest."""
    if value is None:
        return (0,)
    if isinstance(value, FarTime):
        side, number = value.rank
        return (1 + side / 2, number)
    if pa.types.is_floating(kind):
        return (2,) if math.isnan(value) else (1, value)
    if pa.types.is_string(kind):
        return (1, value.encode())
    if pa.types.is_struct(kind):
        return (1, tuple(_rank(value[member.name], member.type) for member in kind))
    if pa.types.is_map(kind):
        pairs = ((_rank(k, kind.key_type), _rank(v, kind.item_type)) for k, v in value)
        return (1, tuple(sorted(pairs)))
    if pa.types.is_nested(kind):
        return (1, tuple(_rank(each, kind.value_type) for each in value))
    return (1, value)
