"""Formats of times, as Java and strftime write them, in the words of Python.  Pure.

A format with a `%` is strftime's, with what chrono, which the reference uses, adds to it; one
without is Java's SimpleDateFormat, which the specification names.
"""

import re
from typing import Final

__all__ = ["UnknownTimePartError", "named_groups", "strptime_form"]

_JAVA_RUN: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_JAVA: Final = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "M": "%m", "MM": "%m",
    "MMM": "%b", "MMMM": "%B", "d": "%d", "dd": "%d", "D": "%j", "DDD": "%j", "E": "%a",
    "EEE": "%a", "EEEE": "%A", "a": "%p", "H": "%H", "HH": "%H", "h": "%I", "hh": "%I",
    "m": "%M", "mm": "%M", "s": "%S", "ss": "%S", "S": "%f", "SSS": "%f", "SSSSSS": "%f",
    "Z": "%z", "X": "%z", "XX": "%z", "XXX": "%z", "z": "%Z",
}  # fmt: skip
_CHRONO_PART: Final = re.compile(r"%(?:[-_0]?[A-Za-z%]|:z|#z|\.[369]?f|[369]f|\+)")
_CHRONO: Final = {
    "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y", "%h": "%b",
    "%e": "%d", "%k": "%H", "%l": "%I", "%P": "%p", "%:z": "%z", "%#z": "%z", "%.f": ".%f",
    "%.3f": ".%f", "%.6f": ".%f", "%.9f": ".%f", "%3f": "%f", "%6f": "%f", "%9f": "%f",
    "%+": "%Y-%m-%dT%H:%M:%S%z", "%n": " ", "%t": " ",
}  # fmt: skip
_PYTHON: Final = frozenset("aAbBcdfGHIjmMpSuUVwWxXyYzZ%")
_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z_])")


class UnknownTimePartError(ValueError):
    """A format has a part that does not stand for anything; `part` is that part."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


def strptime_form(form: str) -> str:
    """Return a format as Python's strptime takes it, `%s` alone as it is.

    Raises UnknownTimePartError.
    """
    if form == "%s":  # seconds since 1970, which Python has no word for
        return form
    if "%" in form:
        return _CHRONO_PART.sub(lambda found: _chrono(found.group()), form)
    return "".join(_java(run.group()) for run in _JAVA_RUN.finditer(form))


def named_groups(pattern: str) -> str:
    """Return a regular expression with its named groups as Python writes them, `(?P<name>...)`."""
    return _NAMED_GROUP.sub("(?P<", pattern)


def _chrono(part: str) -> str:
    plain = "%" + part[2:] if part[1] in "-_0" else part
    if plain in _CHRONO:
        return _CHRONO[plain]
    if plain[1:] not in _PYTHON:
        raise UnknownTimePartError(part)
    return plain


def _java(run: str) -> str:
    if run.startswith("'") and len(run) > 1:
        return "'" if run == "''" else run[1:-1].replace("''", "'")
    if not (run[0].isascii() and run[0].isalpha()):
        return run
    if run not in _JAVA:
        raise UnknownTimePartError(run)
    return _JAVA[run]
