"""Options of read steps, formats of times among them.  Pure.

A format of dates that is absent or `rfc3339` is RFC 3339.

A format with a `%` is strftime's, with what chrono, which the reference uses, adds to it; one
without is Java's SimpleDateFormat, which the specification names.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from odfbuild.odf.events import (
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_JAVA_RUN: Final = late_pattern(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_JAVA: Final = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "M": "%m", "MM": "%m",
    "MMM": "%b", "MMMM": "%B", "d": "%d", "dd": "%d", "D": "%j", "DDD": "%j", "E": "%a",
    "EEE": "%a", "EEEE": "%A", "a": "%p", "H": "%H", "HH": "%H", "h": "%I", "hh": "%I",
    "m": "%M", "mm": "%M", "s": "%S", "ss": "%S", "S": "%f", "SSS": "%f", "SSSSSS": "%f",
    "Z": "%z", "X": "%z", "XX": "%z", "XXX": "%z", "z": "%Z",
}  # fmt: skip
_CHRONO_PART: Final = late_pattern(r"%(?:[-_0]?[A-Za-z%]|:z|#z|\.[369]?f|[369]f|\+)")
_CHRONO: Final = {
    "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y", "%h": "%b",
    "%e": "%d", "%k": "%H", "%l": "%I", "%P": "%p", "%:z": "%z", "%#z": "%z", "%.f": ".%f",
    "%.3f": ".%f", "%.6f": ".%f", "%.9f": ".%f", "%3f": "%f", "%6f": "%f", "%9f": "%f",
    "%+": "%Y-%m-%dT%H:%M:%S%z", "%n": " ", "%t": " ",
}  # fmt: skip
_PYTHON: Final = frozenset("aAbBcdfGHIjmMpSuUVwWxXyYzZ%")
_NAMED_GROUP: Final = late_pattern(r"(?<!\\)\(\?<(?=[A-Za-z_])")


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


def declares_columns(step: ReadStep) -> bool:
    """Tell whether a step declares all columns of its rows, so that none depends on the data."""
    flat = ReadStepCsv | ReadStepJson | ReadStepNdJson | ReadStepParquet
    return isinstance(step, flat) and bool(step.schema is not None or step.ddl_schema)


def option_problems(step: ReadStep) -> Iterator[ReadOptionError]:
    """Yield what is wrong with the options of a read step, whatever its data is."""
    if not isinstance(step, ReadStepCsv | ReadStepJson | ReadStepNdJson):
        return
    yield from _errors_of(lambda: encoding_of(step.encoding))
    if isinstance(step, ReadStepCsv):
        yield from _dialect_problems(step)
    yield from _errors_of(lambda: pattern_of("dateFormat", step.date_format))
    yield from _errors_of(lambda: pattern_of("timestampFormat", step.timestamp_format))


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


def _errors_of(read: Callable[[], object]) -> Iterator[ReadOptionError]:
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
