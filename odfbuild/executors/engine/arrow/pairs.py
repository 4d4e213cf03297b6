"""Correction pairs of rows that went through a query one by one."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby

import pyarrow as pa
import pyarrow.compute as pc

_APPEND, _RETRACT, _CORRECT_FROM, _CORRECT_TO = range(4)


def correction_pairs(
    batches: Iterator[pa.RecordBatch], op: str, position: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with their final operations and order.

    Holds back the rows of the last pair of each batch, until it is known that no more follow.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            if not held:
                yield batch
            continue
        if not held and not _corrects(batch, op):
            yield batch
            continue
        whole = _one_batch([*held, batch])
        cut = _last_pair(whole, op, position)
        held = [whole.slice(cut)] if cut < whole.num_rows else []
        if cut:
            yield _mend(whole.slice(0, cut), op, position)
    if held:
        yield _mend(held[0], op, position)


def _corrects(batch: pa.RecordBatch, op: str) -> bool:
    highest = pc.max(batch.column(op)).as_py()
    return highest is not None and highest >= _CORRECT_FROM


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def _pair(operation: int, at: int) -> tuple[int, bool]:
    """Return what rows of one pair have in common, and nothing else has."""
    if operation == _CORRECT_FROM:
        return at, True
    return (at - 1, True) if operation == _CORRECT_TO else (at, False)


def _last_pair(batch: pa.RecordBatch, op: str, position: str) -> int:
    """Return where the pair begins that the last row is part of; the row count if none."""
    operations, positions = batch.column(op), batch.column(position)
    last = _pair(operations[-1].as_py(), positions[-1].as_py())
    at: int = batch.num_rows
    while last[1] and at and _pair(operations[at - 1].as_py(), positions[at - 1].as_py()) == last:
        at -= 1
    return at


def _mend(batch: pa.RecordBatch, op: str, position: str) -> pa.RecordBatch:
    operations = batch.column(op).to_pylist()
    positions = batch.column(position).to_pylist()
    order: list[int] = []
    final: list[int] = []
    rows = range(len(operations))
    for (_, paired), group in groupby(rows, lambda row: _pair(operations[row], positions[row])):
        members = list(group)
        if not paired:
            order += members
            final += [operations[row] for row in members]
            continue
        old = [row for row in members if operations[row] == _CORRECT_FROM]
        new = [row for row in members if operations[row] == _CORRECT_TO]
        if len(old) == len(new):
            order += chain.from_iterable(zip(old, new, strict=True))
            final += [_CORRECT_FROM, _CORRECT_TO] * len(old)
        else:
            order += old + new
            final += [_RETRACT] * len(old) + [_APPEND] * len(new)
    taken = batch.take(pa.array(order, pa.int64()))
    column = batch.schema.get_field_index(op)
    return taken.set_column(column, batch.schema.field(op), pa.array(final, pa.int32()))
