"""Values of rows as people read them, in one line."""

import json
from datetime import UTC, datetime
from typing import Any

__all__ = ["cell"]


def cell(value: Any) -> str:
    """Return one value: null, instants with a Z, bytes in hexadecimal digits."""
    match value:
        case None:
            return "null"
        case datetime():
            timespec = "milliseconds" if value.microsecond else "seconds"
            shown = value.astimezone(UTC) if value.tzinfo is not None else value
            return shown.isoformat(timespec=timespec).replace("+00:00", "Z")
        case bytes():
            return value.hex()
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=cell)
        case _:
            return str(value)
