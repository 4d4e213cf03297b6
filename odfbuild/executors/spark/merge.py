"""Merge strategies as one SQL statement each, over the new rows and the history.

`new` holds the columns of the source and the position of each row; `old` those columns of the
history that a strategy needs, as in ODF 0.34.1, "Merge Strategies":

    Append     every row, op 0
    Ledger     rows whose key is in no earlier row, op 0; a key with a null never matches
    Snapshot   the difference to the last state of each key: -R, -C and +C, +A

Append and Ledger go by event time, nulls first, then by position; Snapshot by key, then by op.
"""

import difflib

# ruff: noqa: S608 - the texts are made of quoted names only
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from odfbuild.errors import EngineError, EngineFailedError
from odfbuild.executors.spark.frames import POSITION
from odfbuild.executors.spark.settings import Size
from odfbuild.executors.spark.sqltypes import comparable, quoted, stored
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = [
    "FAULT",
    "Kinds",
    "MergeInputError",
    "Merging",
    "fault_error",
    "kinds_of",
    "merge_text",
    "needed_history",
    "normal",
    "state_text",
]

FAULT = 8  # op codes from here on mark rows that must not be there
_NULL_KEY, _TWICE = 8, 9

Kinds = Mapping[str, Any]  # column names to Spark types


class MergeInputError(EngineError):
    """The source rows do not fit the merge strategy or the dataset; `columns` names which."""

    code = "merge-input"

    def __init__(self, what: str, why: str, fix: str, columns: Sequence[str] = ()) -> None:
        super().__init__(what, why, fix)
        self.columns = tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """One merge: `new` and `old` are the Spark types of the columns on both sides.

    `old` is None without history, else has all of `needed_history` that either side knows.
    """

    strategy: MergeStrategy
    vocab: DatasetVocabulary
    new: Kinds
    old: Kinds | None
    size: Size

    @property
    def time(self) -> str:
        """Return the name of the event time column."""
        return self.vocab.event_time_column

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the result after `op`: event time first if there is one."""
        is_snapshot = isinstance(self.strategy, MergeStrategySnapshot)
        known = self.new if not is_snapshot or self.old is None else {**self.new, **self.old}
        first = (self.time,) if self.time in known else ()
        return (*first, *(name for name in self.new if name != self.time))


def normal(frame: "DataFrame") -> "DataFrame":
    """Return the rows as they are stored: timestamps in UTC and milliseconds."""
    texts = [
        f"{stored(quoted(field.name), field.dataType)} AS {quoted(field.name)}"
        for field in frame.schema.fields
    ]
    plain = [f"{quoted(name)} AS {quoted(name)}" for name in frame.columns]
    return frame if texts == plain else frame.selectExpr(*texts)


def needed_history(
    strategy: MergeStrategy, vocab: DatasetVocabulary, new: Collection[str]
) -> tuple[str, ...]:
    """Return the columns of the history that a strategy looks at; none for Append."""
    match strategy:
        case MergeStrategyLedger(primary_key=key):
            return tuple(key)
        case MergeStrategySnapshot():
            system = (vocab.offset_column, vocab.operation_type_column, vocab.event_time_column)
            return (*system, *(name for name in new if name not in system))
        case _:
            return ()


def merge_text(merging: Merging, new: str, old: str) -> str:
    """Return the statement that merges the view `new` into the view `old`.

    Raises MergeInputError if key or compared columns are unknown, or types differ.
    """
    _check_types(merging)
    match merging.strategy:
        case MergeStrategyAppend():
            return _appended(merging, f"SELECT * FROM {new} AS new")
        case MergeStrategyLedger(primary_key=key):
            _check_known(key, merging.new, "primary key")
            return _ledger(merging, key, new, old)
        case MergeStrategySnapshot(primary_key=key, compare_columns=compared):
            _check_known(key, merging.new, "primary key")
            _check_known(compared or (), merging.new, "compared")
            return _snapshot(merging, key, compared, new, old)
        case MergeStrategyChangelogStream() | MergeStrategyUpsertStream():
            raise EngineFailedError(
                what=f"the merge strategy {type(merging.strategy).__name__[13:]} is not supported",
                why="it came with ODF 0.37; this engine merges by Append, Ledger and Snapshot",
                fix="use one of these strategies",
            )
        case _:
            assert_never(merging.strategy)


def state_text(key: Sequence[str], vocab: DatasetVocabulary, old: str, columns: str) -> str:
    """Return the query of the current state: the last row of each key, without retracted ones.

    Gives `state`, a struct of `columns`, which includes the op of that row.
    """
    keys = ", ".join(map(quoted, key))
    offset, op = quoted(vocab.offset_column), quoted(vocab.operation_type_column)
    return (
        f"SELECT * FROM (SELECT {keys}, max_by(struct({columns}), {offset}) AS state, "
        f"max_by({op}, {offset}) AS last_op FROM {old} GROUP BY {keys}) WHERE last_op <> 1"
    )


def fault_error(
    row: Mapping[str, Any], strategy: MergeStrategySnapshot, op: int
) -> MergeInputError:
    """Return the error for a row that came back marked."""
    key = tuple(strategy.primary_key)
    shown = ", ".join(f"{name} = {row.get(name)!r}" for name in key)
    if op == _NULL_KEY:
        others = [(k, v) for k, v in row.items() if v is not None][:4]
        seen = ", ".join(f"{name} = {value!r}" for name, value in others) or "all columns null"
        return MergeInputError(
            what=f"a source row has no value in its primary key: {shown} (row with {seen})",
            why="Snapshot finds the row to compare with by its key, which must not be null",
            fix="fill the key in `preprocess`, drop such rows there, or choose another primaryKey",
            columns=key,
        )
    return MergeInputError(
        what=f"the key {shown} is in the source more than once",
        why="Snapshot takes the source as the state of each key, so a key stands for one row",
        fix="add a column to primaryKey, or keep one row of each key in `preprocess`",
        columns=key,
    )


def _check_known(names: Sequence[str], columns: Collection[str], role: str) -> None:
    for name in names:
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise MergeInputError(
                what=f"unknown {role} column {name!r}",
                why=f"the rows to merge have the columns {', '.join(columns)}",
                fix=f"{guess}Correct the merge strategy, or give the column in `preprocess`",
                columns=(name,),
            )


def _check_types(merging: Merging) -> None:
    for name, kind in (merging.old or {}).items():
        new = merging.new.get(name)
        if new is not None and new.simpleString() != kind.simpleString():
            raise MergeInputError(
                what=f"column {name!r} is {new.simpleString()} now and "
                f"{kind.simpleString()} in the dataset",
                why="a column keeps its type: rows of both are compared",
                fix=f"cast it in `preprocess`: CAST({quoted(name)} AS {kind.simpleString()})",
                columns=(name,),
            )


def _appended(merging: Merging, rows: str) -> str:
    op = quoted(merging.vocab.operation_type_column)
    columns = ", ".join(map(quoted, merging.columns))
    time = f"{quoted(merging.time)} ASC NULLS FIRST, " if merging.time in merging.new else ""
    return f"SELECT 0 AS {op}, {columns} FROM ({rows}) {_sort(merging)} {time}{quoted(POSITION)}"


def _ledger(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    if merging.old is None:
        return _appended(merging, f"SELECT * FROM {new} AS new")
    match = " AND ".join(f"new.{quoted(name)} = old.{quoted(name)}" for name in key)
    rows = f"SELECT new.* FROM {new} AS new LEFT ANTI JOIN {old} AS old ON {match}"
    return _appended(merging, rows)


def _snapshot(
    merging: Merging, key: Sequence[str], compared: Sequence[str] | None, new: str, old: str
) -> str:
    """Full outer join of new rows and last states by key; what changed becomes one or two rows.

    Rows that must not be there come out marked by their op, so that one run finds them too.
    """
    keys = ", ".join(map(quoted, key))
    first = f"min_by({_struct(merging)}, {quoted(POSITION)})"
    fresh = f"SELECT {keys}, count(*) AS times, {first} AS fresh FROM {new} GROUP BY {keys}"
    no_key = " OR ".join(f"fresh.{quoted(name)} IS NULL" for name in key)
    op = quoted(merging.vocab.operation_type_column)
    columns = ", ".join(f"change.row.{quoted(name)}" for name in merging.columns)
    order = ", ".join([*(comparable(quoted(name), merging.new[name]) for name in key), op])
    return f"""
SELECT change.op AS {op}, {columns} FROM (
  SELECT explode(CASE
    WHEN fresh IS NOT NULL AND ({no_key}) THEN array(struct({_NULL_KEY} AS op, fresh AS row))
    WHEN times > 1 THEN array(struct({_TWICE} AS op, fresh AS row))
    WHEN state IS NULL THEN array(struct(0 AS op, fresh AS row))
    WHEN fresh IS NULL THEN array(struct(1 AS op, state AS row))
    WHEN {_differs(merging, key, compared)} THEN array(
      struct(2 AS op, state AS row), struct(3 AS op, fresh AS row))
  END) AS change
  FROM ({_sides(merging, key, fresh, old)})
) {_sort(merging)} {order}"""


def _sides(merging: Merging, key: Sequence[str], fresh: str, old: str) -> str:
    """Return the statement that puts new row and last state of each key side by side."""
    if merging.old is None:
        return f"SELECT fresh, times, if(false, fresh, NULL) AS state FROM ({fresh})"
    columns = ", ".join(map(quoted, merging.columns))
    state = state_text(key, merging.vocab, old, columns)
    match = " AND ".join(f"n.{quoted(name)} = o.{quoted(name)}" for name in key)
    return (
        f"SELECT n.fresh, n.times, o.state FROM ({fresh}) AS n "
        f"FULL OUTER JOIN ({state}) AS o ON {match}"
    )


def _struct(merging: Merging) -> str:
    """Return the new row as one value, with a null event time where only the history has one."""
    missing = (merging.old or {}).get(merging.time)
    parts = [
        quoted(name)
        if name in merging.new or missing is None
        else f"CAST(NULL AS {missing.simpleString()}) AS {quoted(name)}"
        for name in merging.columns
    ]
    return f"struct({', '.join(parts)})"


def _differs(merging: Merging, key: Sequence[str], compared: Sequence[str] | None) -> str:
    """Return the change test: null-safe; an event time counts only where the new row has one."""
    names = compared if compared else [name for name in merging.new if name not in key]
    tests = []
    for name in names:
        left, right = (
            comparable(f"{side}.{quoted(name)}", merging.new[name]) for side in ("fresh", "state")
        )
        test = f"NOT ({left} <=> {right})"
        if name == merging.time:
            test = f"(fresh.{quoted(name)} IS NOT NULL AND {test})"
        tests.append(test)
    return " OR ".join(tests) or "false"


def _sort(merging: Merging) -> str:
    """Sort within the one partition of small work; rows of large work go to several."""
    return "SORT BY" if merging.size is Size.SMALL else "ORDER BY"


def kinds_of(schema: "StructType", without: Collection[str] = ()) -> Kinds:
    """Return the columns of a schema and their types, in order."""
    return {f.name: f.dataType for f in schema.fields if f.name not in without}
