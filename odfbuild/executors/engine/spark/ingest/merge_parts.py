"""Parts of merge strategies: the merge itself, its checks, and pieces of statements."""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.executors.engine.arrow.hidden_names import PREFIX
from odfbuild.executors.engine.arrow.merging.rules import result_columns
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import comparable, quoted, stored
from odfbuild.odf.events import DatasetVocabulary, MergeStrategy
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from odfbuild.executors.engine.spark.ingest.ranges import Ranges


Kinds = Mapping[str, Any]  # column names to Spark types


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The new rows are few: SQL texts of the least and greatest value of their first key column."""

    low: str | None
    high: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """One merge: `new` and `old` are the Spark types of the columns on both sides.

    `operation` is the type of the operations that the source itself gives, None if it gives none;
    `new` is without them.  `old` is None without history, else has all of `needed_history` that
    either side knows.  `by_piece` tells that the rows are numbered by piece as well, `is_narrowed`
    that the history holds nothing but what the new rows may touch, and fits into memory.  `is_fine`
    tells that times of the new rows may have more digits than are stored, `marks` that a Ledger
    gives the rows that it leaves out as well, with an op of their own.  `ranges` are those of the
    event times, for strategies that go by them, if they are known before Spark reads the rows.
    `hidden` begins the names of columns beside those of the rows (`hidden_names`).
    """

    strategy: MergeStrategy
    vocab: DatasetVocabulary
    new: Kinds
    old: Kinds | None
    size: StepSize
    operation: Any | None = None
    narrowing: Narrowing | None = None
    by_piece: bool = False
    is_narrowed: bool = False
    is_fine: bool = False
    marks: bool = False
    ranges: "Ranges | None" = None
    hidden: str = PREFIX

    @property
    def time(self) -> str:
        """Return the name of the event time column."""
        return self.vocab.event_time_column

    def name(self, word: str) -> str:
        """Return the hidden name for a word."""
        return self.hidden + word

    @property
    def position(self) -> str:
        """Return the name of the column of the position of each new row."""
        return self.name("pos")

    @property
    def op(self) -> str:
        """Return the name of the operation column, quoted."""
        return quoted(self.vocab.operation_type_column)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the result after `op`: event time first if there is one."""
        return result_columns(self.strategy, self.vocab, self.new, self.old)


def kinds_of(schema: "StructType", without: Collection[str] = ()) -> Kinds:
    """Return the columns of a schema and their types, in order."""
    return {f.name: f.dataType for f in schema.fields if f.name not in without}


def texts_of(kinds: Kinds) -> Mapping[str, str]:
    """Return the types of columns as texts."""
    return {name: kind.simpleString() for name, kind in kinds.items()}


def touched(merging: Merging, key: Sequence[str], new: str, old: str) -> str:
    """Return what to read of the history: all, or the rows with new keys if these are few.

    A row with a null in its key is left out then: no new row has its key.
    """
    narrow = merging.narrowing
    if narrow is None:
        return old
    keys, first = ", ".join(map(quoted, key)), quoted(key[0])
    in_range = f"(SELECT * FROM {old} WHERE {first} BETWEEN {narrow.low} AND {narrow.high})"
    return (
        f"(SELECT /*+ BROADCAST(n) */ o.* FROM {old if narrow.low is None else in_range} AS o "
        f"LEFT SEMI JOIN (SELECT {keys} FROM {new}) AS n ON {same_key(key)})"
    )


def state_text(
    key: Sequence[str], vocab: DatasetVocabulary, old: str, columns: str, *, hidden: str = PREFIX
) -> str:
    """Return the query of the current state: the last row of each key, without those taken back.

    Gives the column of the hidden name `state`, a struct of `columns`, which includes the op of
    that row.
    """
    state, last_op = f"{hidden}state", f"{hidden}last_op"
    keys = ", ".join(map(quoted, key))
    offset, op = quoted(vocab.offset_column), quoted(vocab.operation_type_column)
    return (
        f"SELECT * FROM (SELECT {keys}, max_by(struct({columns}), {offset}) AS {state}, "
        f"max_by({op}, {offset}) AS {last_op} FROM {old} GROUP BY {keys}) "
        f"WHERE {last_op} NOT IN (1, 2)"
    )


def state_of(merging: Merging, key: Sequence[str], old: str) -> str:
    """Return the query of the state of a merge: all columns of the result."""
    columns = ", ".join(map(quoted, merging.columns))
    return state_text(key, merging.vocab, old, columns, hidden=merging.hidden)


def fresh_row(merging: Merging) -> str:
    """Return the new row as one value, with a null event time where only the history has one."""
    missing = (merging.old or {}).get(merging.time)
    parts = [
        quoted(name)
        if name in merging.new or missing is None
        else f"CAST(NULL AS {missing.simpleString()}) AS {quoted(name)}"
        for name in merging.columns
    ]
    return f"struct({', '.join(parts)})"


def differs(merging: Merging, key: Sequence[str], compared: Sequence[str] | None = None) -> str:
    """Return the change test: null-safe; an event time counts only where the new row has one.

    A time that is finer than stored ones is another in a column that is named to be compared, which
    sealing refuses then, and equal to what it will be stored as in others.
    """
    names = compared if compared else [name for name in merging.new if name not in key]
    sides = merging.name("fresh"), merging.name("state")
    tests = []
    for name in names:
        fresh, state = (f"{side}.{quoted(name)}" for side in sides)
        if merging.is_fine and not compared:
            fresh = stored(fresh, merging.new[name])
        left, right = (comparable(each, merging.new[name]) for each in (fresh, state))
        test = f"NOT ({left} <=> {right})"
        if name == merging.time:
            test = f"({sides[0]}.{quoted(name)} IS NOT NULL AND {test})"
        tests.append(test)
    return " OR ".join(tests) or "false"


def without_key(row: str, key: Sequence[str]) -> str:
    """Return the test for a row of which a part of the key is null."""
    return " OR ".join(f"{row}.{quoted(name)} IS NULL" for name in key)


def same_key(key: Sequence[str]) -> str:
    """Return the condition that joins `n` and `o`; a null matches nothing."""
    return " AND ".join(f"n.{quoted(name)} = o.{quoted(name)}" for name in key)


def key_order(merging: Merging, key: Sequence[str]) -> list[str]:
    """Return what sorts rows by their key."""
    return [comparable(quoted(name), merging.new[name]) for name in key]


def sort(merging: Merging) -> str:
    """Sort within the one partition of small work; rows of large work go to several."""
    return "SORT BY" if merging.size is StepSize.SMALL else "ORDER BY"
