"""Play a changelog back, refusing what may not be in one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tests.real.published import Row

__all__ = ["Table", "bag", "replay"]

Table: TypeAlias = Counter[frozenset[tuple[str, object]]]

APPEND, RETRACT, CORRECT_FROM, CORRECT_TO = range(4)
_SYSTEM = {"offset", "op", "system_time"}


def replay(rows: Sequence[Row]) -> Table:
    """Return the rows that are left after the last one, how often each.

    Only rows that are there are taken out, and what is taken out for a correction is put back
    corrected by the very next row.
    """
    left: Table = Counter()
    for at, row in enumerate(rows):
        assert row["offset"] == at
        follows = rows[at + 1]["op"] if at + 1 < len(rows) else None
        before = rows[at - 1]["op"] if at else None
        assert (row["op"] == CORRECT_FROM) == (follows == CORRECT_TO), f"at {at}: {row}"
        assert (row["op"] == CORRECT_TO) == (before == CORRECT_FROM), f"at {at}: {row}"
        value = _value(row)
        if row["op"] in {APPEND, CORRECT_TO}:
            left[value] += 1
        else:
            assert left[value] > 0, f"at {at} a row is taken out that is not there: {row}"
            left[value] -= 1
    return +left


def bag(rows: Iterable[Row]) -> Table:
    """Return rows as a table: without order and system columns."""
    return Counter(_value(row) for row in rows)


def _value(row: Row) -> frozenset[tuple[str, object]]:
    return frozenset((name, value) for name, value in row.items() if name not in _SYSTEM)
