"""What the options of a read step mean, and which of them no reader takes.  Pure.

Formats of dates are as `timeformat` reads them; one that is absent or `rfc3339` is RFC 3339.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from odfbuild.odf.events import ReadStep, ReadStepCsv, ReadStepJson, ReadStepNdJson
from odfbuild.odf.timeformat import UnknownTimePartError, strptime_form

__all__ = [
    "Dialect",
    "ReadOptionError",
    "dialect_of",
    "encoding_of",
    "option_problems",
    "pattern_of",
]

_SOME_DAY: Final = datetime(2001, 2, 3, tzinfo=UTC)
_FORMS: Final = "use rfc3339, strftime letters such as %d/%m/%Y, or Java's dd/MM/yyyy"


class ReadOptionError(ValueError):
    """An option has a value that cannot be read by; `option` is its key in a manifest."""

    def __init__(self, option: str, *, what: str, why: str, fix: str) -> None:
        super().__init__(what)
        self.option = option
        self.what = what
        self.why = why
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Dialect:
    """One-character separator, quote and escape; None turns quoting or escapes off."""

    separator: str
    quote: str | None
    escape: str | None


def option_problems(step: ReadStep) -> Iterator[ReadOptionError]:
    """Yield what is wrong with the options of a read step, whatever its data is."""
    if not isinstance(step, ReadStepCsv | ReadStepJson | ReadStepNdJson):
        return
    yield from _raised(lambda: encoding_of(step.encoding))
    if isinstance(step, ReadStepCsv):
        yield from _dialect_problems(step)
    yield from _raised(lambda: pattern_of("dateFormat", step.date_format))
    yield from _raised(lambda: pattern_of("timestampFormat", step.timestamp_format))


def encoding_of(encoding: str | None) -> str:
    """Return Python's name of an encoding.  Raises ReadOptionError for one that is not known."""
    try:
        found = codecs.lookup(encoding or "utf8")
        "".encode(found.name)
    except (LookupError, ValueError):
        raise ReadOptionError(
            "encoding",
            what=f"`encoding: {encoding}` is not known",
            why="text must be decoded before it is read",
            fix="use utf8, or a name such as latin-1, cp1252, utf-16",
        ) from None
    return found.name


def dialect_of(step: ReadStepCsv) -> Dialect:
    """Return the dialect that a read step declares.  Raises ReadOptionError."""
    for problem in _dialect_problems(step):
        raise problem
    separator, quote, escape = _characters(step)
    return Dialect(separator, quote or None, (escape if escape != quote else "") or None)


def pattern_of(option: str, form: str | None) -> str | None:
    """Return a format of dates or times as strptime has it, None for RFC 3339.

    Raises ReadOptionError for one that is not known, or that names no part of a date.
    """
    if form is None or form.lower() == "rfc3339":
        return None
    try:
        pattern = strptime_form(form)
        datetime.strptime(_SOME_DAY.strftime(pattern), pattern)
    except UnknownTimePartError as error:
        why = (
            f"the part '{error.part}' is not known; a format without % is read as Java's "
            "SimpleDateFormat, one with it as strftime's"
        )
    except (ValueError, re.error) as error:
        why = str(error)
    else:
        if pattern != form or "%" in form:
            return pattern
        raise ReadOptionError(
            option,
            what=f"`{option}: {form}` names no part of a date",
            why="every value would have to be this very text",
            fix=_FORMS,
        )
    raise ReadOptionError(
        option, what=f"`{option}: {form}` is not a known format", why=why, fix=_FORMS
    )


def _raised(read: Callable[[], object]) -> Iterator[ReadOptionError]:
    try:
        read()
    except ReadOptionError as problem:
        yield problem


def _characters(step: ReadStepCsv) -> tuple[str, str, str]:
    """Return separator, quote and escape, with those that are not given."""
    return (
        "," if step.separator is None else step.separator,
        '"' if step.quote is None else step.quote,
        "\\" if step.escape is None else step.escape,
    )


def _dialect_problems(step: ReadStepCsv) -> Iterator[ReadOptionError]:
    separator, quote, escape = _characters(step)
    named = {"separator": separator, "quote": quote, "escape": escape}
    for option, value in named.items():
        if not _is_one(value) and (option == "separator" or value):
            yield _not_one(option, value)
    same = next((option for option in ("quote", "escape") if named[option] == separator), None)
    if same is not None and _is_one(separator):
        yield ReadOptionError(
            same if step.separator is None else "separator",
            what=f"`separator` and `quote` or `escape` are both {separator!r}",
            why="a character can only have one meaning",
            fix="correct the options of `read`",
        )


def _is_one(value: str) -> bool:
    return len(value) == 1 and value.isascii() and value not in "\r\n\0"


def _not_one(option: str, value: str) -> ReadOptionError:
    optional = "" if option == "separator" else " or empty"
    return ReadOptionError(
        option,
        what=f"`{option}: {value!r}` is not one character",
        why=f"the {option} is a single ASCII character{optional}",
        fix='write a tab as "\\t" in double quotes'
        if value == "\\t"
        else f"set `{option}` to one character",
    )
