"""The merge strategies of ODF over lists of dicts ("Merge Strategies")."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

__all__ = [
    "append",
    "changelog_stream",
    "ledger",
    "merged",
    "snapshot",
    "state",
    "upsert_stream",
]

Row: TypeAlias = dict[str, Any]


def merged(strategy: MergeStrategy, old: Sequence[Row], new: Sequence[Row], time: str) -> list[Row]:
    """What a strategy makes of new rows and those before them."""
    match strategy:
        case MergeStrategyAppend():
            return append(new, time)
        case MergeStrategyLedger(primary_key=key):
            return ledger(old, new, key, time)
        case MergeStrategySnapshot(primary_key=key, compare_columns=compared):
            return snapshot(old, new, key, time, compared)
        case MergeStrategyUpsertStream(primary_key=key):
            return upsert_stream(old, new, key, time)
        case MergeStrategyChangelogStream(primary_key=key):
            return changelog_stream(old, new, key, time)
        case _:
            assert_never(strategy)


def append(new: Sequence[Row], time: str) -> list[Row]:
    """Every row is an append, in the order of event time, unknown times first."""
    return [{"op": 0, **row} for row in sorted(new, key=lambda row: _first_if_none(row.get(time)))]


def ledger(old: Sequence[Row], new: Sequence[Row], key: Sequence[str], time: str) -> list[Row]:
    """Rows of which no earlier row has the key; a key with a None is nobody's."""
    seen = {_key(row, key) for row in old if None not in _key(row, key)}
    return append([row for row in new if _key(row, key) not in seen], time)


def state(old: Sequence[Row], key: Sequence[str]) -> dict[Any, Row]:
    """The last row of each key by offset, unless it takes a row back."""
    last = {_key(row, key): row for row in sorted(old, key=lambda row: row["offset"])}
    return {k: row for k, row in last.items() if row["op"] not in (1, 2)}


def snapshot(
    old: Sequence[Row],
    new: Sequence[Row],
    key: Sequence[str],
    time: str,
    compared: Sequence[str] | None = None,
) -> list[Row]:
    """What turns the last state into the new rows; keys of `new` are whole and unique."""
    columns = list(new[0]) if new else [name for name in (old[0] if old else {}) if name != "op"]
    columns = [name for name in columns if name != "offset"]
    was, now = state(old, key), {_key(row, key): row for row in new}
    found: list[Row] = []
    for k in sorted(was.keys() | now.keys()):
        before = {name: was[k].get(name) for name in columns} if k in was else None
        if before is None:
            found.append({"op": 0, **now[k]})
        elif k not in now:
            found.append({"op": 1, **before})
        elif _differ(before, now[k], compared or [c for c in columns if c not in key], time):
            found += [{"op": 2, **before}, {"op": 3, **now[k]}]
    return found


def upsert_stream(
    old: Sequence[Row], new: Sequence[Row], key: Sequence[str], time: str
) -> list[Row]:
    """What the last row of each key does to its state; op 1 removes, any other and none is news.

    Keys of `new` are whole.
    """
    was = state(old, key)
    found: list[Row] = []
    for k, asked in sorted({_key(row, key): row for row in new}.items()):
        after = {name: value for name, value in asked.items() if name != "op"}
        names = [time, *(name for name in after if name != time)]
        before = {name: was[k].get(name) for name in names} if k in was else None
        if asked.get("op") == 1:
            found += [] if before is None else [{"op": 1, **before}]
        elif before is None:
            found.append({"op": 0, **after})
        elif _differ(before, after, [c for c in after if c not in key], time):
            found += [{"op": 2, **before}, {"op": 3, **after}]
    return found


def changelog_stream(
    old: Sequence[Row], new: Sequence[Row], key: Sequence[str], time: str
) -> list[Row]:
    """All rows by key, those of a key as they came.

    Of rows without a column of event times, one that takes back a row of the history gets its time.
    """
    times = {k: row.get(time) for k, row in state(old, key).items()}
    found = []
    for row in new:
        stands = {"op": row["op"], time: None, **row}
        if row["op"] in (0, 3):
            times[_key(row, key)] = row.get(time)
        elif time not in row:
            stands[time] = times.get(_key(row, key))
        found.append(stands)
    return sorted(found, key=lambda row: _key(row, key))


def _differ(before: Row, after: Row, names: Sequence[str], time: str) -> bool:
    return any(
        not _same(before[name], after[name])
        for name in names
        if name != time or after[name] is not None
    )


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def _key(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


def _first_if_none(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)
