"""Merge strategies as one SQL statement each: windows over the union of history and source.

`new` holds the rows of a source, numbered, `old` what a strategy needs of the history.  Rows of one
key are put behind each other, those of the history first.  So each row sees what was before it, and
gives at most one row of the result:

    Append           every row, op 0
    Ledger           a row behind which there is no other of its key; the history is piece -1
    Snapshot         a state without a new row goes (1), a new row without a state comes (0), and
                     two that differ are a correction (2, 3)
    UpsertStream     the same with the last new row of each key, but that states stay without one
    ChangelogStream  every row as it stands, with its own op

`odfbuild.executors.engine.spark.ingest.merge` says in which order they go.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from odfbuild.executors.engine.arrow.hidden_names import PREFIX
from odfbuild.executors.engine.arrow.merging.faults import (
    LEFT_OUT,
    NO_KEY,
    NO_OPERATION,
    NO_TIME,
    TWICE,
)
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odfbuild.odf.merge_strategies import skips_keys
from odfbuild.values import dataclass

_ROWS: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One merge: names of columns, all quoted but those of `values`.

    `keys` are comparable values of the key; `values` has by name what holds comparable values of a
    column, which is that column for most.  `columns` are those of the result, `compared` those that
    tell whether a row changed.  `hidden` begins the names of columns beside those of the rows
    (`hidden_names`).  `has_time` and `has_operation` tell what the source gives, `marks`
    that a Ledger gives the rows that it leaves out as well.
    """

    strategy: MergeStrategy
    vocab: DatasetVocabulary
    keys: Sequence[str]
    values: Mapping[str, str]
    columns: Sequence[str]
    compared: Sequence[str]
    has_time: bool
    has_history: bool
    has_operation: bool
    by_piece: bool
    marks: bool
    hidden: str = PREFIX

    @property
    def position(self) -> str:
        """Return the name of the column of the place of each row in its source."""
        return f"{self.hidden}pos"

    @property
    def piece(self) -> str:
        """Return the name of the column of the piece of each row."""
        return PIECE if self.by_piece else f"{self.hidden}piece"

    @property
    def side(self) -> str:
        """Return the name of the column with 0 for the history, 1 for the source."""
        return f"{self.hidden}side"

    @property
    def requested(self) -> str:
        """Return the name of the column with the operation that the source gave."""
        return f"{self.hidden}asked"

    @property
    def op(self) -> str:
        return quoted(self.vocab.operation_type_column)

    @property
    def time(self) -> str:
        return quoted(self.vocab.event_time_column)

    @property
    def without_key(self) -> str:
        """Return the test for a row of which a part of the key is null."""
        return f"({' OR '.join(f'{each} IS NULL' for each in self.keys)})"

    def by_key(self, *then: str) -> str:
        """Return the order of rows by their key, then by others."""
        return ", ".join([*(f"{each} ASC NULLS FIRST" for each in self.keys), *then])

    def window(self, *then: str, rows: str = _ROWS) -> str:
        """Return the window of the rows of one key, in the order of others."""
        return f"(PARTITION BY {', '.join(self.keys)} ORDER BY {self.by_key(*then)} {rows})"


def quoted(name: str) -> str:
    """Return a name as SQL text."""
    return '"' + name.replace('"', '""') + '"'


def merge_text(merge: Merge) -> str:
    """Return the statement that merges `new` into `old`."""
    match merge.strategy:
        case MergeStrategyAppend():
            return _append_statement(merge, "new")
        case MergeStrategyLedger():
            return _ledger(merge)
        case MergeStrategySnapshot():
            return _pairs_statement(merge, "new", _snapshot_cases(merge))
        case MergeStrategyUpsertStream():
            return _upsert_statement(merge)
        case MergeStrategyChangelogStream():
            return _changelog(merge)
        case _:
            assert_never(merge.strategy)


def state_text(merge: Merge) -> str:
    """Return the query of the current state: the last row of each key, unless it takes one back."""
    own = merge.hidden
    offset = quoted(merge.vocab.offset_column)
    return (
        f"SELECT * FROM (SELECT *, lead({offset}) OVER {merge.window(offset)} AS {own}later "
        f"FROM old) WHERE {own}later IS NULL AND {merge.op} NOT IN (1, 2)"
    )


def condensed_text(merge: Merge) -> str:
    """Return the statement of a shorter history, in the order of keys."""
    own = merge.hidden
    columns = ", ".join(merge.columns)
    if skips_keys(merge.strategy):
        return (
            f"SELECT {columns} FROM (SELECT *, lag(1) OVER {merge.window()} AS {own}again "
            f"FROM old WHERE NOT {merge.without_key}) WHERE {own}again IS NULL "
            f"ORDER BY {merge.by_key()}"
        )
    return f"SELECT {columns} FROM ({state_text(merge)}) ORDER BY {merge.by_key()}"


def repeated_text(merge: Merge) -> str:
    """Return the statement of the first key that is several times in `new`, and of how many are."""
    own = merge.hidden
    columns = ", ".join(merge.columns)
    first = ", ".join(f"first_value({each}) AS {each}" for each in merge.columns)
    keys = {f"{own}k{at}": each for at, each in enumerate(merge.keys)}
    named = ", ".join(f"{each} AS {name}" for name, each in keys.items())
    return (
        f"SELECT count(*) OVER () AS {own}keys, {own}rows, {columns} FROM ("
        f"SELECT count(*) AS {own}rows, {first}, {named} FROM new WHERE NOT {merge.without_key} "
        f"GROUP BY {', '.join(merge.keys)}) WHERE {own}rows > 1 ORDER BY {', '.join(keys)} LIMIT 1"
    )


def _append_statement(merge: Merge, rows: str, op: str = "0") -> str:
    piece = (merge.piece,) if merge.by_piece else ()
    time = merge.values.get(merge.vocab.event_time_column)
    by_time = (f"{quoted(time)} ASC NULLS FIRST",) if merge.has_time and time is not None else ()
    return (
        f"SELECT CAST({op} AS INT) AS {merge.op}, {', '.join((*merge.columns, *piece))} "
        f"FROM {rows} ORDER BY {', '.join((*piece, *by_time, merge.position))}"
    )


def _ledger(merge: Merge) -> str:
    """Keep the rows of the first piece that has their key; a null matches no key."""
    own = merge.hidden
    if not merge.has_history and not merge.by_piece:
        return _append_statement(merge, "new")
    piece, keys = merge.piece, ", ".join(merge.keys)
    old = f"SELECT {keys}, -1 AS {piece} FROM old UNION ALL BY NAME " if merge.has_history else ""
    new = f"SELECT *{'' if merge.by_piece else f', 0 AS {piece}'} FROM new"
    rows = (
        f"(SELECT *, min({piece}) OVER {merge.window(piece)} AS {own}first FROM ({old}{new})) "
        f"WHERE {piece} >= 0"
    )
    is_taken = f"({own}first = {piece} OR {merge.without_key})"
    if merge.marks:
        return _append_statement(merge, rows, f"CASE WHEN {is_taken} THEN 0 ELSE {LEFT_OUT} END")
    return _append_statement(merge, f"{rows} AND {is_taken}")


def _snapshot_cases(merge: Merge) -> str:
    own = merge.hidden
    return f"""
  WHEN {merge.side} = 1 AND {merge.without_key} THEN {NO_KEY}
  WHEN {own}before = 1 OR ({merge.side} = 1 AND {own}after = 1) THEN {TWICE}
  WHEN {merge.side} = 0 AND {own}after IS NULL THEN 1"""


def _upsert_cases(merge: Merge) -> str:
    own = merge.hidden
    return f"""
  WHEN {merge.side} = 1 AND {merge.without_key} THEN {NO_KEY}
  WHEN {merge.side} = 1 AND {own}wrong THEN {NO_OPERATION}
  WHEN {merge.side} = 0 AND {own}after IS NULL THEN NULL
  WHEN {merge.side} = 0 AND {own}next_asked = 1 THEN 1
  WHEN {merge.side} = 1 AND {merge.requested} = 1 THEN NULL"""


def _pairs_statement(merge: Merge, new: str, cases: str, asked: str | None = None) -> str:
    """Return the statement that compares the state of each key with its new row.

    `cases` are the operations that do not depend on whether the two differ; `asked` is a column of
    the operations that the source gives.
    """
    own = merge.hidden
    side, at = merge.side, merge.position
    window = merge.window(side, at)
    others = [
        f"CASE {side} WHEN 0 THEN lead({quoted(value)}) OVER {window} "
        f"ELSE lag({quoted(value)}) OVER {window} END AS {quoted(f'{own}other_{name}')}"
        for name, value in ((name, merge.values[name]) for name in merge.compared)
    ]
    beside = [
        f"lag({side}) OVER {window} AS {own}before",
        f"lead({side}) OVER {window} AS {own}after",
        *(() if asked is None else (f"lead({asked}) OVER {window} AS {own}next_asked",)),
        *others,
    ]
    old = f"SELECT 0 AS {side}, *, 0 AS {at} FROM ({state_text(merge)}) UNION ALL BY NAME "
    rows = f"{old if merge.has_history else ''}SELECT 1 AS {side}, * FROM {new}"
    columns = (*merge.columns, *(() if asked is None else (asked,)))
    return f"""
SELECT CAST({own}does AS INT) AS {merge.op}, {", ".join(columns)} FROM (SELECT *, CASE {cases}
  WHEN {side} = 1 AND {own}before IS NULL THEN 0
  WHEN {_differs(merge)} THEN 2 + {side} END AS {own}does
  FROM (SELECT *, {", ".join(beside)} FROM ({rows})))
WHERE {own}does IS NOT NULL ORDER BY {merge.by_key(side, at)}"""


def _differs(merge: Merge) -> str:
    """Return the change test: null-safe; an event time counts only where the new row has one."""
    own = merge.hidden
    tests = []
    for name in merge.compared:
        value, other = quoted(merge.values[name]), quoted(f"{own}other_{name}")
        test = f"({value} IS DISTINCT FROM {other})"
        if name == merge.vocab.event_time_column:
            fresh = f"CASE {merge.side} WHEN 0 THEN {other} ELSE {value} END"
            test = f"({fresh} IS NOT NULL AND {test})"
        tests.append(test)
    return " OR ".join(tests) or "false"


def _upsert_statement(merge: Merge) -> str:
    """Return the statement of UpsertStream: the last row of each key, and faulty ones, count."""
    own = merge.hidden
    asked = merge.op if merge.has_operation else "0"
    is_wrong = _is_wrong(merge.op) if merge.has_operation else "false"
    later = f"lead({merge.position}) OVER {merge.window(merge.position)}"
    last = (
        f"(SELECT * FROM (SELECT *, {asked} AS {merge.requested}, {is_wrong} AS {own}wrong, "
        f"{later} AS {own}later FROM new) "
        f"WHERE {own}later IS NULL OR ({own}wrong AND NOT {merge.without_key}))"
    )
    return _pairs_statement(merge, last, _upsert_cases(merge), merge.requested)


def _changelog(merge: Merge) -> str:
    columns = ", ".join(merge.columns)
    is_timeless = f"{merge.op} IN (1, 2) AND {merge.time} IS NULL" if merge.has_time else "false"
    return f"""
SELECT CASE
    WHEN {merge.without_key} THEN {NO_KEY}
    WHEN {_is_wrong(merge.op)} THEN {NO_OPERATION}
    WHEN {is_timeless} THEN {NO_TIME}
    ELSE CAST({merge.op} AS INT)
  END AS {merge.op}, {columns}, {merge.op} AS {merge.requested}
FROM {_rows_with_time(merge)} ORDER BY {merge.by_key(merge.position)}"""


def _rows_with_time(merge: Merge) -> str:
    """Return the new rows, with looked up event times if they have none.

    What a row takes back is the last row of its key.  If that is in the input too, then its event
    time is not known yet, and both get the same when they are stored; else the history has it.
    """
    own = merge.hidden
    if merge.has_time or not merge.has_history:
        return "new"
    side, at, keys = merge.side, merge.position, ", ".join(merge.keys)
    before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    rows = (
        f"SELECT 0 AS {side}, 0 AS {at}, {keys}, {merge.time} AS {own}known "
        f"FROM ({state_text(merge)}) UNION ALL BY NAME SELECT 1 AS {side}, * FROM new"
    )
    beside = (
        f"first_value({own}known) OVER {merge.window(side, at)} AS {own}of_state, "
        f"max(CASE WHEN {merge.op} IN (0, 3) THEN 1 ELSE 0 END) "
        f"OVER {merge.window(side, at, rows=before)} AS {own}earlier"
    )
    return (
        f"(SELECT *, CASE WHEN {merge.op} IN (1, 2) AND coalesce({own}earlier, 0) = 0 "
        f"THEN {own}of_state END AS {merge.time} "
        f"FROM (SELECT *, {beside} FROM ({rows})) WHERE {side} = 1)"
    )


def _is_wrong(op: str) -> str:
    return f"({op} IS NULL OR {op} NOT BETWEEN 0 AND 3)"
