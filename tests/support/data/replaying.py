"""An engine without a JVM for steps that look back: the difference between two states."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.events import DatasetVocabulary
from tests.support.engines import FakeEngine, Rows, copy_all

__all__ = ["ReplayingEngine", "left"]

Values = tuple[tuple[str, Any], ...]


@dataclass
class ReplayingEngine(FakeEngine):
    """Replays inputs and output for a query of `keys` (its key, or None), or one that restates.

    `makes` are the data columns that queries give, by text; else they are those of the first input.
    """

    keys: Mapping[str, str | None] = field(default_factory=dict)
    makes: Mapping[str, pa.Schema] = field(default_factory=dict)
    works: list[TransformWork] = field(default_factory=list)

    def transform(self, work: TransformWork) -> Frame:
        self.works.append(work)
        (step,) = work.query.transform.queries or ()
        if step.query in self.failing or not (work.in_full or step.query in self.keys):
            return _paired(super().transform(work), work.vocab)
        key = None if work.in_full else self.keys[step.query]
        states = {
            each.alias: left((*each.past, *each.paths), each.vocab, seen(each.schema.fields))
            for each in work.inputs
        }
        after = self.queries.get(step.query, copy_all)(states)
        kinds = self.makes.get(step.query)
        kinds = _kinds(work) if kinds is None else kinds
        before = left(work.output, work.vocab, kinds.names)
        if key is not None:
            touched = {row[key] for each in work.inputs for row in _read(each.paths)}
            before = [row for row in before if row[key] in touched]
            after = [row for row in after if row[key] in touched]
        return _frame(_difference(before, after), kinds, work.vocab)

    def validate(self, work: TransformWork) -> pa.Schema:
        """Read the query; what fails does so when it runs."""
        kinds = self.makes.get((work.query.transform.queries or ())[0].query)
        return _frame([], _kinds(work) if kinds is None else kinds, work.vocab).schema


def left(paths: Sequence[Path], vocab: DatasetVocabulary, columns: Sequence[str]) -> Rows:
    """Return these columns of the rows that nothing takes back; a missing one is null."""
    system = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    names = [name for name in columns if name not in system]
    counts: Counter[Values] = Counter()
    for row in _read(paths):
        values = tuple((name, row.get(name)) for name in names)
        counts[values] += 1 if row[vocab.operation_type_column] in (0, 3) else -1
    assert all(count >= 0 for count in counts.values()), "a row is taken back that is not there"
    return [dict(each) for each in counts.elements()]


def seen(fields: Sequence[Any]) -> list[str]:
    return [each.name for each in fields]


def _read(paths: Sequence[Path]) -> Rows:
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def _kinds(work: TransformWork) -> pa.Schema:
    from odfbuild.odf.schema.arrow import to_arrow

    first = work.inputs[0]
    system = {
        first.vocab.offset_column,
        first.vocab.operation_type_column,
        first.vocab.system_time_column,
    }
    return pa.schema([each for each in to_arrow(first.schema) if each.name not in system])


def _paired(frame: Frame, vocab: DatasetVocabulary) -> Frame:
    """Return changes where half a correction is the end of a row, or the begin of one."""
    assert frame.table is not None
    rows, op = frame.table.to_pylist(), vocab.operation_type_column
    for at, row in enumerate(rows):
        if row[op] == 2 and (at + 1 == len(rows) or rows[at + 1][op] != 3):
            row[op] = 1
        elif row[op] == 3 and (at == 0 or rows[at - 1][op] != 2):
            row[op] = 0
    return Frame.of(pa.Table.from_pylist(rows, schema=frame.table.schema))


def _difference(before: Rows, after: Rows) -> list[tuple[int, dict[str, Any]]]:
    weights: Counter[Values] = Counter()
    for rows, weight in ((before, -1), (after, 1)):
        for row in rows:
            weights[tuple(row.items())] += weight
    changes = [
        (0 if count > 0 else 1, dict(values))
        for values, count in sorted(weights.items(), key=repr)
        for _ in range(abs(count))
    ]
    return sorted(changes, key=lambda change: -change[0])


def _frame(
    changes: list[tuple[int, dict[str, Any]]], kinds: pa.Schema, vocab: DatasetVocabulary
) -> Frame:
    op = vocab.operation_type_column
    schema = pa.schema([pa.field(op, pa.int32(), nullable=False), *kinds])
    return Frame.of(pa.Table.from_pylist([{op: o, **row} for o, row in changes], schema=schema))
