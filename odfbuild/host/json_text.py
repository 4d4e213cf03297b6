"""JSON parsing: a text that is nested too deeply is a ValueError, as every other wrong one.

`json` raises RecursionError there, which those who handle a damaged file do not think of.
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
    """Return the value of a JSON text.  Raises ValueError for everything that is none."""
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
