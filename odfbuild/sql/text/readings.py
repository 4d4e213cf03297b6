"""Texts that Spark reads as dates, timestamps and numbers where they are cast to one.  Pure."""

from __future__ import annotations

from datetime import date
from typing import Final

from odfbuild.texts.patterns import late_pattern

_DECIMAL: Final = late_pattern(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER: Final = late_pattern(r"[+-]?\d+")
_DOUBLE: Final = late_pattern(
    r"(?i)[+-]?(inf|infinity|nan|((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|0x[\da-f.]+p[+-]?\d+)[df]?)"
)
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


def is_no_integer(text: str) -> bool:
    """Tell whether a text is certainly no whole number."""
    return _INTEGER.fullmatch(text.strip()) is None


def is_no_decimal(text: str) -> bool:
    """Tell whether a text is certainly no decimal number."""
    return _DECIMAL.fullmatch(text.strip()) is None


def is_no_double(text: str) -> bool:
    """Tell whether a text is certainly neither a number nor infinite or none."""
    return _DOUBLE.fullmatch(text.strip()) is None


def _is_no_time(plain: str) -> bool:
    if plain.isalpha():
        return plain.lower() not in _NOW
    return _has_no_such_day(plain) or ("/" in plain and _NUMBERS.fullmatch(plain) is not None)


def _has_no_such_day(plain: str) -> bool:
    """Tell whether a text begins with a day that no month has."""
    day = _DAY.match(plain)
    if day is None:
        return False
    try:
        date(*(int(part) for part in day.group().split("-")))
    except ValueError:
        return not plain.startswith("0000")
    return False
