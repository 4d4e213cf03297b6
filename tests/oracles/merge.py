"""The merge strategies of ODF 0.34.1 over lists of dicts ("Merge Strategies")."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["append", "ledger", "snapshot", "state"]

Row: TypeAlias = dict[str, Any]


def append(new: Sequence[Row], time: str) -> list[Row]:
    """Every row is an append, in the order of event time, unknown times first."""
    return [{"op": 0, **row} for row in sorted(new, key=lambda row: _first_if_none(row[time]))]


def ledger(old: Sequence[Row], new: Sequence[Row], key: Sequence[str], time: str) -> list[Row]:
    """Rows of which no earlier row has the key; a key with a None is nobody's."""
    seen = {_key(row, key) for row in old if None not in _key(row, key)}
    return append([row for row in new if _key(row, key) not in seen], time)


def state(old: Sequence[Row], key: Sequence[str]) -> dict[Any, Row]:
    """The last row of each key by offset, unless it retracts."""
    last = {_key(row, key): row for row in sorted(old, key=lambda row: row["offset"])}
    return {k: row for k, row in last.items() if row["op"] != 1}


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
