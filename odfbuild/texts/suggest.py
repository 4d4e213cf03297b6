"""Suggestions for a mistyped name.  Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

_LIMIT = 20
_LISTED = 12


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?`, else what there is to choose from, or nothing if it is long."""
    names = list(known)
    guess = Suggestions(names).nearest(given)
    if guess is not None:
        return f"did you mean '{guess}'?"
    return f"use one of: {', '.join(names)}" if 0 < len(names) <= _LISTED else ""


@lru_cache(maxsize=64)
def _closest(given: str, names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the most similar names; the same is asked more than once of a project with errors."""
    return tuple(get_close_matches(given, names, n=count, cutoff=0.6))


class Suggestions:
    """The nearest of many names; after some answers it gives up, as each looks at every name."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = list(dict.fromkeys(known))
        self._by_lower: dict[str, str] | None = None
        self._left = _LIMIT

    def nearest(self, given: str, without: str | None = None) -> str | None:
        """Return the known name that is most like another, if one is; never that to be left out."""
        if self._left == 0:
            return None
        self._left -= 1
        if self._by_lower is None:
            self._by_lower = {name.lower(): name for name in sorted(self._known, reverse=True)}
        wanted = given.lower()
        left_out = None if without is None else without.lower()
        matches = _closest(wanted, tuple(self._by_lower), 1 if without is None else 2)
        return next((self._by_lower[each] for each in matches if each != left_out), None)
