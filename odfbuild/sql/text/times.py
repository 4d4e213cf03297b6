"""Texts that Spark takes for dates and timestamps where it compares them with one.  Pure."""

from __future__ import annotations

from datetime import date
from typing import Final

from odfbuild.texts.patterns import late_pattern

_NUMBERS: Final = late_pattern(r"[\d/]+")
_NOW: Final = {"now", "today", "tomorrow", "yesterday", "epoch"}
_DATE: Final = late_pattern(r"[+-]?\d{4,7}(-\d{1,2}(-\d{1,2}([ T].*)?)?)?")
_DAY: Final = late_pattern(r"\d{4}-\d{1,2}-\d{1,2}")


def is_no_date(text: str) -> bool:
    """Tell whether a text is certainly no date."""
    plain = text.strip()
    return _is_no_time(plain) or not (plain.isalpha() or _DATE.fullmatch(plain.upper()))


def is_no_timestamp(text: str) -> bool:
    """Tell whether a text is certainly no timestamp."""
    return _is_no_time(text.strip())


def _is_no_time(plain: str) -> bool:
    if plain.isalpha():
        return plain.lower() not in _NOW
    return has_no_such_day(plain) or ("/" in plain and _NUMBERS.fullmatch(plain) is not None)


def has_no_such_day(plain: str) -> bool:
    """Tell whether a text begins with a day that no month has."""
    day = _DAY.match(plain)
    return day is not None and not is_date(day.group())


def is_date(text: str) -> bool:
    """Tell whether a text has the form of a date, and is one where it names a day."""
    if not _DATE.fullmatch(text):
        return False
    if not _DAY.fullmatch(text):
        return True
    try:
        date(*(int(part) for part in text.split("-")))
    except ValueError:
        return text.startswith("0000")
    return True
