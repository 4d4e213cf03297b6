"""The merge strategies of ODF 0.37, of sources that are changes themselves.

    UpsertStream     the last row of each key against its state: -R, -C and +C, +A
    ChangelogStream  every row as it stands, with its own op

The op of an UpsertStream may be left out: every row is then a newest value, as it is with any op
but 1, which removes.  UpsertStream goes by key, then by op; ChangelogStream by key, then by
position, so that several changes of one row keep their order.
"""

# ruff: noqa: S608 - the texts are made of quoted names only
from collections.abc import Sequence

from odfbuild.executors.spark.frames import POSITION
from odfbuild.executors.spark.merge_faults import (
    ASKED,
    NO_KEY,
    NO_OPERATION,
    NO_TIME,
    check_operation,
)
from odfbuild.executors.spark.merge_parts import (
    Merging,
    differs,
    fresh_row,
    key_order,
    same_key,
    sort,
    state_of,
    state_text,
    touched,
    without_key,
)
from odfbuild.executors.spark.sqltypes import quoted

__all__ = ["changelog", "upserted"]

_EARLIER = "__odf_earlier"  # whether the input itself gives the row that a row takes back


def upserted(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of UpsertStream.  Raises MergeInputError."""
    check_operation(merging, required=False)
    columns = ", ".join(f"change.row.{quoted(name)}" for name in merging.columns)
    order = ", ".join([*key_order(merging, key), merging.op])
    return f"""
SELECT change.op AS {merging.op}, {columns}, asked AS {ASKED} FROM (
  SELECT asked, explode(CASE
    WHEN {without_key("fresh", key)} THEN array(struct({NO_KEY} AS op, fresh AS row))
    WHEN wrong IS NOT NULL THEN array(struct({NO_OPERATION} AS op, wrong AS row))
    WHEN asked = 1 AND state IS NULL THEN NULL
    WHEN asked = 1 THEN array(struct(1 AS op, state AS row))
    WHEN state IS NULL THEN array(struct(0 AS op, fresh AS row))
    WHEN {differs(merging, key)} THEN array(
      struct(2 AS op, state AS row), struct(3 AS op, fresh AS row))
  END) AS change
  FROM ({_beside_state(merging, key, new, old)})
) {sort(merging)} {order}"""


def _beside_state(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement that puts the last new row of each key beside its state."""
    last = _last_rows(merging, key, new)
    if merging.old is None:
        return f"SELECT fresh, asked, wrong, if(false, fresh, NULL) AS state FROM ({last})"
    return (
        f"SELECT n.fresh, n.asked, n.wrong, o.state FROM ({last}) AS n "
        f"LEFT OUTER JOIN ({state_of(merging, key, touched(merging, key, new, old))}) AS o "
        f"ON {same_key(key)}"
    )


def _last_rows(merging: Merging, key: Sequence[str], new: str) -> str:
    """Return the statement of the last row of each key; `wrong` is one with an unknown op."""
    keys, row = ", ".join(map(quoted, key)), fresh_row(merging)
    last = f"max_by({row}, {quoted(POSITION)}) AS fresh"
    if merging.operation is None:
        return (
            f"SELECT {keys}, fresh, 0 AS asked, if(false, fresh, NULL) AS wrong "
            f"FROM (SELECT {keys}, {last} FROM {new} GROUP BY {keys})"
        )
    place, is_wrong = quoted(POSITION), _is_wrong(merging.op)
    return (
        f"SELECT {keys}, fresh, if(wrong IS NULL, asked, wrong_op) AS asked, wrong FROM ("
        f"SELECT {keys}, {last}, max_by({merging.op}, {place}) AS asked, "
        f"min_by({row}, {place}) FILTER (WHERE {is_wrong}) AS wrong, "
        f"min_by({merging.op}, {place}) FILTER (WHERE {is_wrong}) AS wrong_op "
        f"FROM {new} GROUP BY {keys})"
    )


def changelog(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of ChangelogStream.  Raises MergeInputError."""
    check_operation(merging, required=True)
    columns = ", ".join(f"rows.{quoted(name)}" for name in merging.columns)
    op = f"rows.{merging.op}"
    timeless = (
        f"WHEN {op} IN (1, 2) AND rows.{quoted(merging.time)} IS NULL THEN {NO_TIME}"
        if merging.time in merging.new
        else ""
    )
    order = ", ".join([*key_order(merging, key), quoted(POSITION)])
    return f"""
SELECT CASE
    WHEN {without_key("rows", key)} THEN {NO_KEY}
    WHEN {_is_wrong(op)} THEN {NO_OPERATION}
    {timeless}
    ELSE CAST({op} AS INT)
  END AS {merging.op}, {columns}, {op} AS {ASKED}
FROM ({_timed(merging, key, new, old)}) AS rows {sort(merging)} {order}"""


def _timed(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return the statement of the new rows, with looked up event times if they have none.

    What a row takes back is the last row of its key.  If that is in the input too, then its event
    time is not known yet, and both get the same when they are stored; else the history has it.
    """
    if merging.old is None or merging.time in merging.new:
        return f"SELECT * FROM {new}"
    keys, time = ", ".join(map(quoted, key)), quoted(merging.time)
    before = (
        f"OVER (PARTITION BY {keys} ORDER BY {quoted(POSITION)} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    rows = f"SELECT *, bool_or({merging.op} IN (0, 3)) {before} AS {_EARLIER} FROM {new}"
    state = state_text(key, merging.vocab, touched(merging, key, new, old), time)
    return (
        f"SELECT n.*, CASE WHEN n.{merging.op} IN (1, 2) AND NOT coalesce(n.{_EARLIER}, false) "
        f"THEN o.state.{time} END AS {time} "
        f"FROM ({rows}) AS n LEFT OUTER JOIN ({state}) AS o ON {same_key(key)}"
    )


def _is_wrong(op: str) -> str:
    return f"({op} IS NULL OR {op} NOT BETWEEN 0 AND 3)"
