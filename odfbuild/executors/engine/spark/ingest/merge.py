"""Merge strategies as one SQL statement each, over the new rows and the history.

`new` holds the columns of the source and the position of each row; `old` those columns of the
history that a strategy needs, as in ODF 0.34.1, "Merge Strategies":

    Append     every row, op 0
    Ledger     rows whose key is in no earlier row, op 0; a key with a null never matches
    Snapshot   the difference to the last state of each key: -R, -C and +C, +A

    UpsertStream     the last row of each key against its state: -R, -C and +C, +A
    ChangelogStream  every row as it stands, with its own op

Append and Ledger go by event time, nulls first, then by position; Snapshot by key, then by op.
The op of an UpsertStream may be left out: every row is then a newest value, as it is with any op
but 1, which removes.  UpsertStream goes by key, then by op; ChangelogStream by key, then by
position, so that several changes of one row keep their order.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from odfbuild.executors.engine.arrow.merging.faults import (
    LEFT_OUT,
    NO_KEY,
    NO_OPERATION,
    NO_TIME,
    TWICE,
)
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.executors.engine.arrow.merging.rules import check_columns
from odfbuild.executors.engine.spark.ingest.merge_parts import (
    Merging,
    differs,
    fresh_row,
    key_order,
    same_key,
    sort,
    state_of,
    state_text,
    texts_of,
    touched,
    without_key,
)
from odfbuild.executors.engine.spark.sql_text import in_utc, quoted, stored
from odfbuild.odf.events import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def upserted(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of UpsertStream."""
    columns = ", ".join(f"change.row.{quoted(name)}" for name in merging.columns)
    order = ", ".join([*key_order(merging, key), merging.op])
    fresh, state, asked, wrong = map(merging.name, ("fresh", "state", "asked", "wrong"))
    return f"""
SELECT change.op AS {merging.op}, {columns}, {asked} FROM (
  SELECT {asked}, explode(CASE
    WHEN {without_key(fresh, key)} THEN array(struct({NO_KEY} AS op, {fresh} AS row))
    WHEN {wrong} IS NOT NULL THEN array(struct({NO_OPERATION} AS op, {wrong} AS row))
    WHEN {asked} = 1 AND {state} IS NULL THEN NULL
    WHEN {asked} = 1 THEN array(struct(1 AS op, {state} AS row))
    WHEN {state} IS NULL THEN array(struct(0 AS op, {fresh} AS row))
    WHEN {differs(merging, key)} THEN array(
      struct(2 AS op, {state} AS row), struct(3 AS op, {fresh} AS row))
  END) AS change
  FROM ({_joined_state(merging, key, new, old)})
) {sort(merging)} {order}"""


def _joined_state(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement that puts the last new row of each key beside its state."""
    last = _last_rows(merging, key, new)
    fresh, state, asked, wrong = map(merging.name, ("fresh", "state", "asked", "wrong"))
    if merging.old is None:
        return (
            f"SELECT {fresh}, {asked}, {wrong}, if(false, {fresh}, NULL) AS {state} FROM ({last})"
        )
    return (
        f"SELECT n.{fresh}, n.{asked}, n.{wrong}, o.{state} FROM ({last}) AS n "
        f"LEFT OUTER JOIN ({state_of(merging, key, touched(merging, key, new, old))}) AS o "
        f"ON {same_key(key)}"
    )


def _last_rows(merging: Merging, key: Sequence[str], new: str) -> str:
    """Return the statement of the last row of each key; `wrong` is one with an unknown op."""
    keys, row, place = ", ".join(map(quoted, key)), fresh_row(merging), merging.position
    fresh, asked, wrong, wrong_op = map(merging.name, ("fresh", "asked", "wrong", "wrong_op"))
    last = f"max_by({row}, {place}) AS {fresh}"
    if merging.operation is None:
        return (
            f"SELECT {keys}, {fresh}, 0 AS {asked}, if(false, {fresh}, NULL) AS {wrong} "
            f"FROM (SELECT {keys}, {last} FROM {new} GROUP BY {keys})"
        )
    is_wrong = _is_wrong(merging.op)
    return (
        f"SELECT {keys}, {fresh}, if({wrong} IS NULL, {asked}, {wrong_op}) AS {asked}, {wrong} "
        f"FROM (SELECT {keys}, {last}, max_by({merging.op}, {place}) AS {asked}, "
        f"min_by({row}, {place}) FILTER (WHERE {is_wrong}) AS {wrong}, "
        f"min_by({merging.op}, {place}) FILTER (WHERE {is_wrong}) AS {wrong_op} "
        f"FROM {new} GROUP BY {keys})"
    )


def changelog(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of ChangelogStream."""
    columns = ", ".join(f"rows.{quoted(name)}" for name in merging.columns)
    op = f"rows.{merging.op}"
    timeless = (
        f"WHEN {op} IN (1, 2) AND rows.{quoted(merging.time)} IS NULL THEN {NO_TIME}"
        if merging.time in merging.new
        else ""
    )
    order = ", ".join([*key_order(merging, key), merging.position])
    return f"""
SELECT CASE
    WHEN {without_key("rows", key)} THEN {NO_KEY}
    WHEN {_is_wrong(op)} THEN {NO_OPERATION}
    {timeless}
    ELSE CAST({op} AS INT)
  END AS {merging.op}, {columns}, {op} AS {merging.name("asked")}
FROM ({_rows_with_time(merging, key, new, old)}) AS rows {sort(merging)} {order}"""


def _rows_with_time(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of the new rows, with looked up event times if they have none.

    What a row takes back is the last row of its key.  If that is in the input too, then its event
    time is not known yet, and both get the same when they are stored; else the history has it.
    """
    if merging.old is None or merging.time in merging.new:
        return f"SELECT * FROM {new}"
    keys, time = ", ".join(map(quoted, key)), quoted(merging.time)
    before = (
        f"OVER (PARTITION BY {keys} ORDER BY {merging.position} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    earlier = merging.name("earlier")  # whether the input itself gives the row that is taken back
    rows = f"SELECT *, bool_or({merging.op} IN (0, 3)) {before} AS {earlier} FROM {new}"
    read = touched(merging, key, new, old)
    state = state_text(key, merging.vocab, read, time, hidden=merging.hidden)
    return (
        f"SELECT n.*, CASE WHEN n.{merging.op} IN (1, 2) AND NOT coalesce(n.{earlier}, false) "
        f"THEN o.{merging.name('state')}.{time} END AS {time} "
        f"FROM ({rows}) AS n LEFT OUTER JOIN ({state}) AS o ON {same_key(key)}"
    )


def _is_wrong(op: str) -> str:
    return f"({op} IS NULL OR {op} NOT BETWEEN 0 AND 3)"


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


def merge_text(merging: Merging, new: str, old: str) -> str:
    """Return the statement that merges the view `new` into the view `old`.

    With `ranges` the rows of Append and Ledger come without order, in the form for these.

    Raises MergeInputError if key, compared or operation columns are unknown, or types differ.
    """
    operation = None if merging.operation is None else merging.operation.simpleString()
    olds = None if merging.old is None else texts_of(merging.old)
    check_columns(merging.strategy, merging.vocab, texts_of(merging.new), olds, operation)
    match merging.strategy:
        case MergeStrategyAppend():
            return _append_statement(merging, f"SELECT * FROM {new} AS new")
        case MergeStrategyLedger(primary_key=key):
            return _ledger(merging, key, new, old)
        case MergeStrategySnapshot(primary_key=key, compare_columns=compared):
            return _snapshot(merging, key, compared, new, old)
        case MergeStrategyChangelogStream(primary_key=key):
            return changelog(merging, key, new, old)
        case MergeStrategyUpsertStream(primary_key=key):
            return upserted(merging, key, new, old)
        case _:
            assert_never(merging.strategy)


def _append_statement(merging: Merging, rows: str, op: str = "0") -> str:
    piece = (PIECE,) if merging.by_piece else ()
    columns = ", ".join(map(quoted, (*merging.columns, *piece)))
    if merging.ranges is not None:
        columns = f"{columns}, {merging.position}, {merging.ranges.number}"
        return f"SELECT {op} AS {merging.op}, {columns} FROM ({rows})"
    time = (f"{_time(merging)} ASC NULLS FIRST",) if merging.time in merging.new else ()
    order = f"{sort(merging)} {', '.join((*piece, *time, merging.position))}"
    return f"SELECT {op} AS {merging.op}, {columns} FROM ({rows}) {order}"


def _time(merging: Merging) -> str:
    """Return the event time by which rows are put in order: as it is stored."""
    time = quoted(merging.time)
    return stored(time, merging.new[merging.time]) if merging.is_fine else time


def _ledger(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    if merging.old is None:
        return _append_statement(merging, f"SELECT * FROM {new} AS new")
    hint = "/*+ BROADCAST(o) */ " if merging.is_narrowed or merging.narrowing is not None else ""
    if merging.narrowing is not None:
        keys = ", ".join(map(quoted, key))
        old = f"(SELECT DISTINCT {keys} FROM {touched(merging, key, new, old)})"
    if merging.marks:
        keys = ", ".join(map(quoted, key))
        recorded = merging.name("recorded")
        old = f"(SELECT DISTINCT {keys}, true AS {recorded} FROM {old})"
        rows = (
            f"SELECT n.*, o.{recorded} FROM {new} AS n LEFT OUTER JOIN {old} AS o "
            f"ON {same_key(key)}"
        )
        earlier = f" OR {merging.name('in_earlier')}" if merging.by_piece else ""
        return _append_statement(merging, rows, f"if({recorded}{earlier}, {LEFT_OUT}, 0)")
    rows = f"SELECT {hint}n.* FROM {new} AS n LEFT ANTI JOIN {old} AS o ON {same_key(key)}"
    return _append_statement(merging, rows)


def _snapshot(
    merging: Merging, key: Sequence[str], compared: Sequence[str] | None, new: str, old: str
) -> str:
    """Full outer join of new rows and last states by key; what changed becomes one or two rows."""
    keys = ", ".join(map(quoted, key))
    fresh, state, times = map(merging.name, ("fresh", "state", "times"))
    first = f"min_by({fresh_row(merging)}, {merging.position})"
    rows = f"SELECT {keys}, count(*) AS {times}, {first} AS {fresh} FROM {new} GROUP BY {keys}"
    columns = ", ".join(f"change.row.{quoted(name)}" for name in merging.columns)
    order = ", ".join([*key_order(merging, key), merging.op])
    no_key = f"{fresh} IS NOT NULL AND ({without_key(fresh, key)})"
    return f"""
SELECT change.op AS {merging.op}, {columns} FROM (
  SELECT explode(CASE
    WHEN {no_key} THEN array(struct({NO_KEY} AS op, {fresh} AS row))
    WHEN {times} > 1 THEN array(struct({TWICE} AS op, {fresh} AS row))
    WHEN {state} IS NULL THEN array(struct(0 AS op, {fresh} AS row))
    WHEN {fresh} IS NULL THEN array(struct(1 AS op, {state} AS row))
    WHEN {differs(merging, key, compared)} THEN array(
      struct(2 AS op, {state} AS row), struct(3 AS op, {fresh} AS row))
  END) AS change
  FROM ({_joined_text(merging, key, rows, old)})
) {sort(merging)} {order}"""


def _joined_text(merging: Merging, key: Sequence[str], rows: str, old: str) -> str:
    """Return the statement that puts new row and last state of each key side by side."""
    fresh, state, times = map(merging.name, ("fresh", "state", "times"))
    if merging.old is None:
        return f"SELECT {fresh}, {times}, if(false, {fresh}, NULL) AS {state} FROM ({rows})"
    return (
        f"SELECT n.{fresh}, n.{times}, o.{state} FROM ({rows}) AS n "
        f"FULL OUTER JOIN ({state_of(merging, key, old)}) AS o ON {same_key(key)}"
    )
