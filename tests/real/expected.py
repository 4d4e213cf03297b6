"""The roots of the example as they must be, file by file, made of what was published."""

from datetime import datetime
from functools import cache
from itertools import accumulate
from pathlib import Path

from tests.real.building import (
    FILES_OF_DECLARATIONS,
    REGION_FILES,
    declarations,
    declared_names,
)
from tests.real.published import AIRLINE_COLUMNS, Row, airlines, day_of, regional

__all__ = ["FIRST_FILES", "ledger", "timed"]

FIRST_FILES = list(accumulate(FILES_OF_DECLARATIONS, initial=0))  # of each declaration


def ledger() -> list[list[Row]]:
    """Return what each file adds: rows whose key no earlier file had."""
    seen: set[tuple[object, object]] = set()
    found = []
    for number, names in enumerate(map(declared_names, declarations())):
        for path in REGION_FILES[FIRST_FILES[number] : FIRST_FILES[number + 1]]:
            rows = [row for row in regional(path, names) if _key(row) not in seen]
            seen |= {_key(row) for row in rows}
            found.append(rows)
    return found


def _key(row: Row) -> tuple[object, object]:
    return row["data"], row["denominazione_regione"]


@cache
def timed(files: tuple[Path, ...]) -> list[dict[int, Row]]:
    """Return each table with the day on which each of its rows came or last changed."""
    known: dict[int, Row] = {}
    found = []
    for path in files:
        table, day = airlines(path), day_of(path.name)
        known = {
            key: known[key] if key in known and _same(known[key], row) else _at(day, row)
            for key, row in table.items()
        }
        found.append(known)
    return found


def _same(known: Row, row: Row) -> bool:
    return all(known[name] == row[name] for name in AIRLINE_COLUMNS)


def _at(day: datetime, row: Row) -> Row:
    return {"event_time": day, **row}
