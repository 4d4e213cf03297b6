"""Merge strategies as one SQL statement each, over the new rows and the history.

`new` holds the columns of the source and the position of each row; `old` those columns of the
history that a strategy needs, as in ODF 0.34.1, "Merge Strategies":

    Append     every row, op 0
    Ledger     rows whose key is in no earlier row, op 0; a key with a null never matches
    Snapshot   the difference to the last state of each key: -R, -C and +C, +A

Append and Ledger go by event time, nulls first, then by position; Snapshot by key, then by op.
UpsertStream and ChangelogStream are in `merge_streams`.
"""

# ruff: noqa: S608 - the texts are made of quoted names only
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, assert_never

from odfbuild.executors.spark.frames import POSITION
from odfbuild.executors.spark.merge_faults import NO_KEY, TWICE
from odfbuild.executors.spark.merge_parts import (
    Merging,
    check_known,
    check_types,
    differs,
    fresh_row,
    key_order,
    same_key,
    sort,
    state_of,
    touched,
    without_key,
)
from odfbuild.executors.spark.merge_streams import changelog, upserted
from odfbuild.executors.spark.pieces import PIECE
from odfbuild.executors.spark.sqltypes import in_utc, quoted, stored
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

__all__ = ["merge_text", "needed_history", "normal", "reads_operations"]


def normal(frame: "DataFrame", *, cut: bool = True) -> "DataFrame":
    """Return the rows as they are stored: timestamps in UTC and milliseconds.

    Without `cut` they have all their digits, so that who stores them sees which are lost.
    """
    form = stored if cut else in_utc
    texts = [
        f"{form(quoted(field.name), field.dataType)} AS {quoted(field.name)}"
        for field in frame.schema.fields
    ]
    plain = [f"{quoted(name)} AS {quoted(name)}" for name in frame.columns]
    return frame if texts == plain else frame.selectExpr(*texts)


def reads_operations(strategy: MergeStrategy) -> bool:
    """Tell whether a source may have a column that says what each row does."""
    return isinstance(strategy, MergeStrategyChangelogStream | MergeStrategyUpsertStream)


def needed_history(
    strategy: MergeStrategy, vocab: DatasetVocabulary, new: Collection[str]
) -> tuple[str, ...]:
    """Return the columns of the history that a strategy looks at, given those of the source.

    None for Append; for ChangelogStream only if event times have to be looked up.
    """
    system = (vocab.offset_column, vocab.operation_type_column, vocab.event_time_column)
    match strategy:
        case MergeStrategyLedger(primary_key=key):
            return tuple(key)
        case MergeStrategySnapshot() | MergeStrategyUpsertStream():
            return (*system, *(name for name in new if name not in system))
        case MergeStrategyChangelogStream(primary_key=key) if vocab.event_time_column not in new:
            return (*system, *(name for name in key if name not in system))
        case _:
            return ()


def merge_text(merging: Merging, new: str, old: str) -> str:
    """Return the statement that merges the view `new` into the view `old`.

    Raises MergeInputError if key, compared or operation columns are unknown, or types differ.
    """
    check_types(merging)
    check_known(getattr(merging.strategy, "primary_key", ()), merging.new, "primary key")
    match merging.strategy:
        case MergeStrategyAppend():
            return _appended(merging, f"SELECT * FROM {new} AS new")
        case MergeStrategyLedger(primary_key=key):
            return _ledger(merging, key, new, old)
        case MergeStrategySnapshot(primary_key=key, compare_columns=compared):
            check_known(compared or (), merging.new, "compared")
            return _snapshot(merging, key, compared, new, old)
        case MergeStrategyChangelogStream(primary_key=key):
            return changelog(merging, key, new, old)
        case MergeStrategyUpsertStream(primary_key=key):
            return upserted(merging, key, new, old)
        case _:
            assert_never(merging.strategy)


def _appended(merging: Merging, rows: str) -> str:
    piece = (PIECE,) if merging.by_piece else ()
    columns = ", ".join(map(quoted, (*merging.columns, *piece)))
    time = (f"{_time(merging)} ASC NULLS FIRST",) if merging.time in merging.new else ()
    order = f"{sort(merging)} {', '.join((*piece, *time, quoted(POSITION)))}"
    return f"SELECT 0 AS {merging.op}, {columns} FROM ({rows}) {order}"


def _time(merging: Merging) -> str:
    """Return the event time by which rows are put in order: as it is stored."""
    time = quoted(merging.time)
    return stored(time, merging.new[merging.time]) if merging.is_fine else time


def _ledger(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    if merging.old is None:
        return _appended(merging, f"SELECT * FROM {new} AS new")
    hint = "/*+ BROADCAST(o) */ " if merging.is_near or merging.narrowing is not None else ""
    if merging.narrowing is not None:
        keys = ", ".join(map(quoted, key))
        old = f"(SELECT DISTINCT {keys} FROM {touched(merging, key, new, old)})"
    rows = f"SELECT {hint}n.* FROM {new} AS n LEFT ANTI JOIN {old} AS o ON {same_key(key)}"
    return _appended(merging, rows)


def _snapshot(
    merging: Merging, key: Sequence[str], compared: Sequence[str] | None, new: str, old: str
) -> str:
    """Full outer join of new rows and last states by key; what changed becomes one or two rows."""
    keys = ", ".join(map(quoted, key))
    first = f"min_by({fresh_row(merging)}, {quoted(POSITION)})"
    fresh = f"SELECT {keys}, count(*) AS times, {first} AS fresh FROM {new} GROUP BY {keys}"
    columns = ", ".join(f"change.row.{quoted(name)}" for name in merging.columns)
    order = ", ".join([*key_order(merging, key), merging.op])
    no_key = f"fresh IS NOT NULL AND ({without_key('fresh', key)})"
    return f"""
SELECT change.op AS {merging.op}, {columns} FROM (
  SELECT explode(CASE
    WHEN {no_key} THEN array(struct({NO_KEY} AS op, fresh AS row))
    WHEN times > 1 THEN array(struct({TWICE} AS op, fresh AS row))
    WHEN state IS NULL THEN array(struct(0 AS op, fresh AS row))
    WHEN fresh IS NULL THEN array(struct(1 AS op, state AS row))
    WHEN {differs(merging, key, compared)} THEN array(
      struct(2 AS op, state AS row), struct(3 AS op, fresh AS row))
  END) AS change
  FROM ({_sides(merging, key, fresh, old)})
) {sort(merging)} {order}"""


def _sides(merging: Merging, key: Sequence[str], fresh: str, old: str) -> str:
    """Return the statement that puts new row and last state of each key side by side."""
    if merging.old is None:
        return f"SELECT fresh, times, if(false, fresh, NULL) AS state FROM ({fresh})"
    return (
        f"SELECT n.fresh, n.times, o.state FROM ({fresh}) AS n "
        f"FULL OUTER JOIN ({state_of(merging, key, old)}) AS o ON {same_key(key)}"
    )
