"""Faulty rows of a merge: marked by their op, so that one run finds them too."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.python_values import FarTime, python_rows
from odfbuild.executors.engine.arrow.merging.rules import OPERATIONS, MergeInputError
from odfbuild.odf.events import DatasetVocabulary, MergeStrategy
from odfbuild.odf.merge_strategies import key_of, name_of

FAULT = 8  # op codes from here on mark rows that must not be there
NO_KEY, TWICE, NO_OPERATION, NO_TIME = 8, 9, 10, 11
LEFT_OUT = -1  # the op of a row whose key is recorded, where such rows are wanted


def valid_rows(
    batches: Iterator[pa.RecordBatch],
    strategy: MergeStrategy,
    vocab: DatasetVocabulary,
    requested: str,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows; raises MergeInputError for the first that must not be there.

    The column `requested`, if there is one, has the operation that the source gave.
    """
    op = vocab.operation_type_column
    for batch in batches:
        highest = pc.max(batch.column(op)).as_py()
        if highest is not None and highest >= FAULT:
            at = pc.index(pc.greater_equal(batch.column(op), FAULT), True).as_py()
            row = python_rows(batch.slice(at, 1))[0]
            code, asked = row.pop(op), row.pop(requested, None)
            raise _error(row, strategy, code, vocab, asked)
        yield batch


def taken_rows(
    batches: Iterator[pa.RecordBatch], op: str, lost: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are taken, and put the others to those lost."""
    for batch in batches:
        marked = pc.equal(batch.column(op), LEFT_OUT)
        if not pc.any(marked).as_py():
            yield batch
            continue
        lost.append(batch.filter(marked))
        yield batch.filter(pc.invert(marked))


def _error(
    row: Mapping[str, Any],
    strategy: MergeStrategy,
    op: int,
    vocab: DatasetVocabulary,
    asked: object,
) -> MergeInputError:
    """Return the error for a row that came back marked; `asked` is the operation it came with."""
    key = key_of(strategy)
    shown = ", ".join(f"{name} = {_shown(row.get(name))}" for name in key)
    match op:
        case _ if op == NO_KEY:
            return _no_key(row, strategy, key, shown)
        case _ if op == NO_OPERATION:
            return _no_operation(shown, vocab, asked)
        case _ if op == NO_TIME:
            return _no_time(shown, vocab)
    return MergeInputError(
        what=f"the key {shown} is in the source more than once",
        why=f"{name_of(type(strategy))} reads the source as the state of each key, so a key can "
        "have only one row",
        fix="add a column to primaryKey, or keep one row of each key in `preprocess`",
        columns=key,
    )


def _no_key(
    row: Mapping[str, Any], strategy: MergeStrategy, key: tuple[str, ...], shown: str
) -> MergeInputError:
    others = [(k, v) for k, v in row.items() if v is not None][:4]
    seen = ", ".join(f"{name} = {_shown(value)}" for name, value in others) or "all columns null"
    return MergeInputError(
        what=f"a source row has no value in its primary key: {shown} (row with {seen})",
        why=f"{name_of(type(strategy))} identifies rows by their key, which must not be null",
        fix="fill the key in `preprocess`, drop such rows there, or choose another primaryKey",
        columns=key,
    )


def _shown(value: object) -> str:
    """Return a value as people write it."""
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").replace("+00:00", "Z")
    is_text = isinstance(value, str | bytes) and not isinstance(value, FarTime)
    return repr(value) if is_text else str(value)


def _no_operation(shown: str, vocab: DatasetVocabulary, asked: object) -> MergeInputError:
    name = vocab.operation_type_column
    value = "is null" if asked is None else f"is {asked}"
    return MergeInputError(
        what=f"the operation {name!r} of a source row {value}: {shown}",
        why=OPERATIONS,
        fix=f"convert it in `preprocess`, such as coalesce({name}, 0) AS {name}",
        columns=(name,),
    )


def _no_time(shown: str, vocab: DatasetVocabulary) -> MergeInputError:
    name = vocab.event_time_column
    return MergeInputError(
        what=f"a retracted row has no event time {name!r}: {shown}",
        why="a retraction must repeat the recorded row, with its event time",
        fix=f"select the time in `preprocess`; or omit {name!r}, so that times are looked up; or "
        "use UpsertStream, which looks up rows",
        columns=(name,),
    )
