"""Patterns that are compiled when they are first used.

A command imports hundreds of patterns and uses few: to compile them takes a tenth of its start.
"""

import re
from typing import Any, cast

__all__ = ["late_pattern"]


class _LatePattern:
    """The methods of a pattern; each is looked up once."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what acts as the pattern of a text, wherever a method of it is called."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
