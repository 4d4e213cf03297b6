"""Constant texts that control functions: time zones, charsets and formats.  Pure.

Only certain problems are reported: a text in a form that is not known here is left to the engine.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from odfbuild.odf.events import DataTypeDecimal
from odfbuild.sql.columns.types import Value
from odfbuild.sql.text import types
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_Words = tuple[str, str] | None
"""The problem of a text, to follow the text itself, and the remedy; None without a problem."""

_CHARSETS: Final = ("utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32", "iso-8859-1", "us-ascii")
_ENCODINGS: Final = ("hex", "utf-8", "utf8", "base64")
_WRITTEN: Final = ("hex", "utf-8", "base64")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FORMS_OF_DAYS: Final = {day[:length] for day in _DAYS for length in (2, 3, len(day))}
_OFFSET: Final = late_pattern(r"(?:UTC|GMT|UT)?[+-]\d{1,2}(?::?\d{1,2}(?::?\d{2})?)?")
_NAMES_IN_JAVA: Final = """
    Z UTC GMT UT GMT0 ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT IET IST JST MIT NET NST
    PLT PNT PRT PST SST VST EST HST MST
"""
_NAMED_IN_JAVA: Final = frozenset(_NAMES_IN_JAVA.split())
_NUMBER: Final = late_pattern(
    r"(?P<sign>MI|S)?\$?(?P<whole>[09G,]*)(?:[.D][09]*)?(?!(?P=sign))(?:PR|MI|S)?"
)
_MOST_DIGITS: Final = 38
_CONVERSION: Final = late_pattern(
    r"%(\d+\$|<)?[-#+ 0,(]*\d*(?:\.\d+)?([a-zA-Z%]?)(?=(.?))", re.DOTALL
)
_CONVERSIONS: Final = frozenset("bBhHsScCdoxXeEfgGaAtTn%")
_WHOLE: Final = (types.BYTE, types.SHORT, types.INT, types.BIGINT)
_FRACTIONAL: Final = (types.FLOAT, types.DOUBLE)


def zone(text: str) -> _Words:
    """Return the problem of a time zone (`Area/City`, or hours and minutes from UTC)."""
    if text in _NAMED_IN_JAVA or text.startswith("SystemV/") or _OFFSET.fullmatch(text):
        return None
    if _is_zone(text) or not _is_zone("Europe/Berlin"):  # the machine may have no zones
        return None
    fix = "write one such as 'Europe/Berlin' (letter case counts) or '+02:00'"
    return "is not a time zone", fix


def _is_zone(text: str) -> bool:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def one_of(known: Sequence[str], what: str, text: str) -> _Words:
    """Return the problem of a text that is not one of some words, in any letter case."""
    if text.lower() in known:
        return None
    return f"is not a {what}", "write one of: " + ", ".join(known)


def day_of_week(text: str) -> _Words:
    """Return the problem of a day of the week, in full or its first two or three letters."""
    if text.lower() in _FORMS_OF_DAYS:
        return None
    return "is not a day of the week", "write one such as 'MON'"


def one_letter(text: str) -> _Words:
    """Return the problem of a text that is not one letter."""
    return None if len(text) == 1 else ("is not one letter", "write one, such as 'x'")


def number_format(text: str) -> _Words:
    """Return the problem of a format of numbers, such as '$99,999.00'."""
    found = _NUMBER.fullmatch(text.upper())
    whole = None if found is None else found["whole"].replace("G", ",")
    digits = sum(each in "09" for each in text)
    if whole is None or not digits or whole.startswith(",") or whole.endswith(",") or ",," in whole:
        fix = "write digits 9 or 0, one . or D, and , or G between digits, such as 'S$99,999.00'"
        return "is not a format of numbers", fix
    if digits > _MOST_DIGITS:
        return f"has {digits} digits", f"a decimal has {_MOST_DIGITS} at most"
    return None


@dataclass(frozen=True, slots=True)
class _Format:
    """The arguments of a function that are texts of a kind, from 0: always, or of so many."""

    check: Callable[[str], _Words]
    places: tuple[int, ...]
    count: int | None = None


_charset = partial(one_of, _CHARSETS, "charset of Spark's")
_encoding = partial(one_of, _ENCODINGS, "way to write bytes")
_FORMATS: Final[Mapping[str, tuple[_Format, ...]]] = {
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), (_Format(zone, (1,)),)),
    "convert_timezone": (_Format(zone, (0,), 2), _Format(zone, (0, 1), 3)),
    **dict.fromkeys(
        ("make_timestamp", "make_timestamp_ltz", "try_make_timestamp", "try_make_timestamp_ltz"),
        (_Format(zone, (6,), 7),),
    ),
    **dict.fromkeys(("encode", "decode"), (_Format(_charset, (1,), 2),)),
    **dict.fromkeys(("to_binary", "try_to_binary"), (_Format(_encoding, (1,)),)),
    **dict.fromkeys(("to_number", "try_to_number"), (_Format(number_format, (1,)),)),
    "mask": (_Format(one_letter, (1, 2, 3, 4)),),
    "next_day": (_Format(day_of_week, (1,)),),
}
FORMATTED: Final = frozenset({*_FORMATS, "format_string", "printf", "to_char", "to_varchar"})
"""Functions that a text among their arguments controls."""


def wrong_format(
    name: str, texts: Sequence[str | None], values: Sequence[Value]
) -> tuple[str, str] | None:
    """Return the problem of a constant text of a call, and the remedy, if that is certain.

    `texts` are the arguments that are constant texts, None the others; `values` are their types.
    """
    if name in {"format_string", "printf"}:
        return _wrong_printf(texts[0] if texts else None, values[1:])
    formats = _FORMATS.get(name, ())
    if name in {"to_char", "to_varchar"} and len(texts) == 2:
        formats = _format_of(values[0])
    for each in formats:
        if each.count in {None, len(texts)}:
            for at in each.places:
                text = texts[at] if at < len(texts) else None
                if text is not None and (found := each.check(text)) is not None:
                    return f"'{text}' {found[0]}", found[1]
    return None


def _format_of(value: Value) -> tuple[_Format, ...]:
    """Return the formats by which a value is written; those of times are checked elsewhere."""
    if value.kind == types.BINARY:
        return (_Format(partial(one_of, _WRITTEN, "way to write bytes"), (1,)),)
    is_number = value.kind in (*_WHOLE, *_FRACTIONAL, types.STRING)
    is_number = is_number or isinstance(value.kind, DataTypeDecimal)
    return (_Format(number_format, (1,)),) if is_number else ()


def _wrong_printf(text: str | None, values: Sequence[Value]) -> tuple[str, str] | None:
    """Return the problem of a format of values, such as '%s: %d'."""
    used = 0
    for index, letter, after in _CONVERSION.findall(text or ""):
        if letter not in _CONVERSIONS or (letter in "tT" and not after.isalpha()):
            return f"'{text}' has an invalid %", "write %s, %d or %.2f, and %% for a %"
        if letter in "%n" or index == "<":
            continue
        at = int(index[:-1]) - 1 if index else used
        used += not index
        if at >= len(values):
            return f"'{text}' has more values than are given", "give as many as there are %"
        kind = values[at].kind
        unfit = (letter in "doxX" and kind in (types.STRING, *_FRACTIONAL)) or (
            letter in "eEfgGaA" and kind in (types.STRING, *_WHOLE)
        )
        if unfit:
            return f"%{letter} in '{text}' is given a value of another type", "write %s, or cast it"
    return None
