"""Names that a mistyped one may have meant.  Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["Suggestions", "did_you_mean"]

_LIMIT = 20


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?`, or what there is to choose from, in the order given."""
    names = list(known)
    guess = Suggestions(names).nearest(given)
    return f"did you mean '{guess}'?" if guess is not None else f"use one of: {', '.join(names)}"


class Suggestions:
    """The nearest of many names; after some answers it gives up, as each looks at every name."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = list(dict.fromkeys(known))
        self._by_lower: dict[str, str] | None = None
        self._left = _LIMIT

    def nearest(self, given: str) -> str | None:
        """Return the known name that is most like another, if one is."""
        if self._left == 0:
            return None
        self._left -= 1
        if self._by_lower is None:
            self._by_lower = {name.lower(): name for name in sorted(self._known, reverse=True)}
        wanted = given.lower()
        matches = get_close_matches(wanted, self._by_lower, n=1, cutoff=0.6)
        return self._by_lower[matches[0]] if matches else None
