"""Rows that are left of a changelog, by plain counting; values are equal where GROUP BY says so."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.rule.inputs import Row

__all__ = ["counted", "standing"]

_ADDED = (0, 3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def standing(records: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Return these columns of the rows that nothing took back, with one zero and one NaN."""
    left: Counter[Any] = Counter()
    seen: dict[Any, Row] = {}
    for each in records:
        plain = {name: _one_zero(each[name]) for name in columns}
        key = _key(plain.values())
        seen[key] = plain
        left[key] += 1 if each["op"] in _ADDED else -1
        assert left[key] >= 0, "a row is taken back that is not there"
    return [seen[key] for key in left.elements()]


def counted(rows: Iterable[Row], columns: Sequence[str]) -> Counter[Any]:
    """Count rows that are equal."""
    return Counter(_key(_one_zero(each[name]) for name in columns) for each in rows)


def _one_zero(value: Any) -> Any:
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {name: _one_zero(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_one_zero(each) for each in value]
    return value


def _key(value: Any) -> Any:
    """Return what is equal and hashes equally for equal values."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return tuple(_key(each) for each in value)
