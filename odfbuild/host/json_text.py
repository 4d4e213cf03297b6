"""JSON parsing that raises ValueError also for texts that are nested too deeply.

`json` raises RecursionError for them, which handlers of damaged files do not expect.
"""

import json
from collections.abc import Callable
from typing import Any


def parse_json(
    text: str | bytes,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """Return the value of a JSON text.  Raises ValueError for invalid texts."""
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
