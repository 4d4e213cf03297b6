"""Random logs of the versions of keys, and a plain reading of which version is in force when.

The reading is a loop over the log.  A row that comes is a version from its event time on.  One that
is taken back is no version, but for a correction to a later event time under the same key: that
ends the version there.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.data.changelogs import Change, Row

__all__ = ["COLUMNS", "TIMES", "Version", "in_force", "plain", "random_log", "versions"]

TIMES = 6
COLUMNS = ("event_time", "k", "v")
_KEYS = ("p", "q", None)
_VALUES = (None, -1.0, 0.0, -0.0, math.nan, 2.0)


@dataclass(slots=True)
class Version:
    """A row of a key, and when a correction ended it, None if none did."""

    row: Row
    until: Any = None


def versions(log: Sequence[Change], key: Sequence[str]) -> list[Version]:
    """Return the versions in a log of operations and rows."""
    found: list[Version] = []
    for place, (op, row) in enumerate(log):
        if op in (0, 3):
            found.append(Version(row))
            continue
        gone = next(v for v in found if v.until is None and plain(v.row) == plain(row))
        after = log[place + 1] if place + 1 < len(log) else (0, row)
        corrected = op == 2 and after[0] == 3 and _owner(after[1], key) == _owner(row, key)
        if corrected and after[1]["event_time"] > row["event_time"]:
            gone.until = after[1]["event_time"]
        else:
            found = [each for each in found if each is not gone]
    return found


def in_force(
    found: Iterable[Version], key: Sequence[str], at: Any, columns: Sequence[str] = COLUMNS
) -> list[Row]:
    """Return of each key the greatest of the versions that have begun and not ended.

    Of equal event times the greatest by the columns in their order.
    """

    def rank(row: Row) -> Any:
        return (row["event_time"], *(plain(row[name]) for name in columns))

    best: dict[Any, Row] = {}
    for each in found:
        begun = each.row["event_time"] <= at
        if begun and (each.until is None or at < each.until):
            known = best.get(_owner(each.row, key))
            if known is None or rank(each.row) > rank(known):
                best[_owner(each.row, key)] = each.row
    return list(best.values())


def plain(value: Any) -> Any:
    """Return a value that compares as values do: null is least, NaN greatest, one zero."""
    match value:
        case None:
            return (0,)
        case float() if math.isnan(value):
            return (2,)
        case dict():
            return (1, *(plain(each) for each in value.values()))
        case list():
            return (1, *(plain(each) for each in value))
        case float():
            return (1, value + 0.0)
    return (1, value)


def _owner(row: Row, key: Sequence[str]) -> Any:
    return tuple(plain(row[name]) for name in key)


def random_log(draw: Random, changes: int = 12) -> list[Change]:
    """Return a log of `event_time`, `k` and `v`.

        log        = { add | again | retract | correct | half }
        add        = +A of a random row
        again      = +A of a row that the log has had, also one that is gone
        retract    = -R of a row that stands
        correct    = -C of a row that stands, then +C of it at a later, an earlier or the same time,
                     with the same value or another, rarely under another key
        half       = -C of a row that stands without a +C behind it, or +C alone

    One row is favoured, so that it is corrected again and again.
    """
    log: list[Change] = []
    stand: list[Row] = []
    for _ in range(draw.randint(1, changes)):
        kind = draw.choices(("add", "again", "retract", "correct", "half"), (3, 1, 2, 6, 0.3))[0]
        if kind == "add" or not stand:
            log.append((0, _row(draw)))
            stand.append(log[-1][1])
        elif kind == "again":
            log.append((0, draw.choice(log)[1]))
            stand.append(log[-1][1])
        elif kind == "retract":
            log.append((1, _one(draw, stand)))
        elif kind == "correct":
            old = _one(draw, stand)
            new = {
                "event_time": draw.choice((old["event_time"], *range(TIMES))),
                "k": draw.choice(_KEYS) if draw.random() < 0.1 else old["k"],
                "v": draw.choice((old["v"], *_VALUES)),
            }
            log += [(2, old), (3, new)]
            stand.append(new)
        elif draw.random() < 0.5:
            log.append((2, _one(draw, stand)))
        else:
            log.append((3, _row(draw)))
            stand.append(log[-1][1])
    return log


def _row(draw: Random) -> Row:
    return {
        "event_time": draw.randrange(TIMES),
        "k": draw.choice(_KEYS),
        "v": draw.choice(_VALUES),
    }


def _one(draw: Random, stand: list[Row]) -> Row:
    """Take a row that stands, often the newest."""
    return stand.pop(-1 if draw.random() < 0.5 else draw.randrange(len(stand)))
