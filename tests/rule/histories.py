"""Random histories of inputs: appends, retractions, corrections and late rows, in portions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

import pyarrow as pa

from tests.rule.inputs import HOUR, Row, drawn_schema, in_another_form, row
from tests.support.effort import examples

__all__ = ["History", "Portion", "begun", "history", "stretched"]


@dataclass(frozen=True, slots=True)
class Portion:
    """What a step finds: new records of every input in order, and where its watermark is."""

    records: Mapping[str, list[Row]]
    watermark: int | None


@dataclass(frozen=True, slots=True)
class History:
    """The columns of every input, and what comes in each step."""

    schemas: Mapping[str, pa.Schema]
    portions: tuple[Portion, ...]


_FEW = (0, 1, 2, 4, 7)


def history(draw: Random, inputs: Sequence[str], sizes: Sequence[int] = _FEW) -> History:
    """Return what comes in two to six steps, some of them without rows.

    `sizes` are how many changes an input may have at a time; a correction is never cut in two.
    """
    schemas = {name: drawn_schema(draw, name) for name in inputs}
    standing: dict[str, list[Row]] = {name: [] for name in inputs}
    watermark: int | None = None
    portions: list[Portion] = []
    for _ in range(draw.randint(2, 6)):
        quiet = bool(portions) and draw.random() < 0.25
        records = {
            name: [] if quiet else _records(draw, name, schemas[name], rows, draw.choice(sizes))
            for name, rows in standing.items()
        }
        if draw.random() < 0.7:
            watermark = max(watermark or 0, _time(draw))
        portions.append(Portion(records, watermark))
    return History(schemas, tuple(portions))


def begun(found: History) -> History:
    """Return a history, or in a short run its first four steps: the long run has all of it."""
    return History(found.schemas, found.portions[: examples(4, len(found.portions))])


def _time(draw: Random) -> int:
    """Return where a watermark may be: often just where windows end."""
    return draw.randint(0, 3) * 2 * HOUR if draw.random() < 0.5 else draw.randint(0, 12) * HOUR // 2


def _records(
    draw: Random, name: str, schema: pa.Schema, standing: list[Row], size: int
) -> list[Row]:
    found: list[Row] = []
    for _ in range(size):
        chance = draw.random()
        if standing and chance < 0.2:
            old = standing.pop(draw.randrange(len(standing)))
            found.append({"op": 1, **in_another_form(old, lambda: draw.random() < 0.5)})
        elif standing and chance < 0.4:
            old = standing.pop(draw.randrange(len(standing)))
            fresh = row(draw, name, schema)
            changed = draw.choice(sorted(fresh))
            new = {**old, changed: fresh[changed]}
            standing.append(new)
            old = in_another_form(old, lambda: draw.random() < 0.5)
            found += [{"op": 2, **old}, {"op": 3, **new}]
        else:
            again = standing and chance < 0.5
            new = draw.choice(standing) if again else row(draw, name, schema)
            standing.append(new)
            found.append({"op": 0, **new})
    return found


def stretched(found: History, by: int) -> History:
    """Return a history over a time that is so many times as long; watermarks are ends of months."""
    if by == 1:
        return found
    portions = [
        Portion(
            {
                name: [{**row, "event_time": row["event_time"] * by} for row in rows]
                for name, rows in portion.records.items()
            },
            None if portion.watermark is None else _month_end(portion.watermark * by),
        )
        for portion in found.portions
    ]
    return History(found.schemas, tuple(portions))


def _month_end(time: int) -> int:
    """Return the begin of the month of a time; of some, a moment before."""
    day = datetime.fromtimestamp(time / 1000, UTC).replace(day=1, hour=0, minute=0, second=0)
    return int(day.timestamp()) * 1000 - time // HOUR % 2
