"""How wide the terminal is."""

import os
from contextlib import suppress

__all__ = ["columns"]


def columns(most: int) -> int:
    """Return how many columns a line may take so that it is not wrapped, at least 40.

    COLUMNS goes first; where nothing is known, as in files and pipes, it is `most`.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and len(given) < 9:
        return min(most, max(40, int(given)))
    for stream in (2, 1):
        with suppress(OSError):
            return min(most, max(40, os.get_terminal_size(stream).columns or most))
    return most
