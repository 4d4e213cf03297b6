"""Values of rows as JSON has them."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

_AS_IT_IS = frozenset({type(None), bool, int, str})


def plain(value: Any) -> Any:
    """Return a value as JSON has it; text where JSON has no such value."""
    if type(value) in _AS_IT_IS:
        return value
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            parts = "microseconds" if value.microsecond % 1000 else "milliseconds"
            return value.isoformat(timespec=parts).replace("+00:00", "Z")
        case bytes():
            return value.hex()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def plain_row(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a row as JSON has it."""
    return None if row is None else {name: plain(value) for name, value in row.items()}
