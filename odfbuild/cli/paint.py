"""Colour for terminals: it repeats what signs and words say, never says anything alone.  Pure."""

from enum import Enum

__all__ = ["Paint", "Tone"]


class Tone(Enum):
    """A colour by what it is for, as the number of an ANSI escape code."""

    GOOD = "32"
    CHANGE = "33"
    BAD = "1;31"
    GONE = "31"
    MOVE = "36"
    DATA = "34"
    FAINT = "2"


class Paint:
    """Puts colour on texts, or leaves them as they are."""

    __slots__ = ("_on",)

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, tone: Tone) -> str:
        return f"\x1b[{tone.value}m{text}\x1b[0m" if self._on and text else text
