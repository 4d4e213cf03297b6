"""Random logs of a table and of what happens meanwhile, in portions; corrections change one column."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

__all__ = ["SCHEMAS", "Portion", "Row", "history"]

Row = dict[str, Any]

_MILLIS = pa.timestamp("ms", tz="UTC")
_SYSTEM = [
    ("offset", pa.int64()),
    ("op", pa.int32()),
    ("system_time", _MILLIS),
    ("event_time", _MILLIS),
]
SCHEMAS = {
    "a": pa.schema(
        [*_SYSTEM, ("k", pa.string()), ("n", pa.int64()), ("m", pa.int64()), ("x", pa.float64())]
    ),
    "b": pa.schema([*_SYSTEM, ("k", pa.string()), ("w", pa.int64())]),
}
_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Portion:
    """What a step finds: new records of every input in order, and where its watermark is."""

    records: dict[str, list[Row]]
    watermark: int | None


def history(draw: Random) -> list[Portion]:
    """Return what comes in two to six steps, some of them without rows.

    A correction is never cut in two.
    """
    standing: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    watermark: int | None = None
    portions: list[Portion] = []
    for _ in range(draw.randint(2, 6)):
        quiet = bool(portions) and draw.random() < 0.25
        records = {
            name: [] if quiet else _records(draw, name, rows) for name, rows in standing.items()
        }
        if draw.random() < 0.7:
            watermark = max(watermark or 0, draw.randint(0, 9) * _HOUR // 2)
        portions.append(Portion(records, watermark))
    return portions


def _records(draw: Random, name: str, standing: list[Row]) -> list[Row]:
    found: list[Row] = []
    for _ in range(draw.choice([0, 1, 2, 4, 7])):
        chance = draw.random()
        if standing and chance < 0.2:
            found.append({"op": 1, **standing.pop(draw.randrange(len(standing)))})
        elif standing and chance < 0.4:
            old = standing.pop(draw.randrange(len(standing)))
            new = {**old, **draw.choice(_changes(draw, name))}
            standing.append(new)
            found += [{"op": 2, **old}, {"op": 3, **new}]
        else:
            row = _row(draw, name)
            standing.append(row)
            found.append({"op": 0, **row})
    return found


def _row(draw: Random, name: str) -> Row:
    row: Row = {
        "event_time": draw.randint(0, 12) * _HOUR // 3,
        "k": draw.choice(["p", "q", "r", None]),
    }
    if name == "b":
        return {**row, "w": draw.choice([0, 1, 2, 3, None])}
    numbers = {"n": draw.choice([0, 1, 2, 3, None]), "m": draw.randint(0, 2)}
    return {**row, **numbers, "x": draw.choice([0.5, 1.5, -0.0, float("nan"), None])}


def _changes(draw: Random, name: str) -> Sequence[Row]:
    fresh = _row(draw, name)
    return [{key: fresh[key]} for key in fresh]
