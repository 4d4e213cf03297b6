"""Read the event time of a file from its name (ODF 0.34.1, "EventTimeSource::FromPath").

The format may be written as strftime has it (`%Y-%m-%d`, the default) or, since the
specification names it, as Java's SimpleDateFormat does (`yyyy-MM-dd`): one without any `%` is
taken as the latter.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from odfbuild.executors.request import FetchError
from odfbuild.odf.backtracking import LONGEST_TEXT, CostlyPatternError, check_cost
from odfbuild.odf.timeformat import UnknownTimePartError, named_groups, strptime_form
from odfbuild.odf.timestamp import Timestamp
from odfbuild.redaction import excerpt

__all__ = ["EventTimeError", "from_name"]

_DEFAULT: Final = "%Y-%m-%d"
_ZONE: Final = re.compile(r"(?<!%)((?:%%)*)%Z")
_ZONES: Final = ("UTC", "GMT", "Z")


class EventTimeError(FetchError):
    """The name of a file does not hold the time that it should hold."""

    code = "event-time"


@lru_cache(1 << 16)
def from_name(name: str, pattern: str, form: str | None) -> Timestamp:
    """Return the time that group 1 of the pattern finds in a file name; no zone means UTC.

    A date alone is its midnight.  Raises EventTimeError.
    """
    text = _find(name, pattern)
    shape = _strftime_of(form or _DEFAULT)
    try:
        return Timestamp.from_datetime(_parsed(text, shape))
    except (ValueError, OverflowError, OSError, re.error) as error:
        raise EventTimeError(
            what=f"'{text}' in the file name {name} is not a time of the form {form or _DEFAULT}",
            why=str(error),
            fix="correct `eventTime.pattern` or `eventTime.timestampFormat`, or rename the file",
        ) from None


def _strftime_of(form: str) -> str:
    """Return a format as Python's strptime takes it.  Raises EventTimeError."""
    try:
        return strptime_form(form)
    except UnknownTimePartError as error:
        raise EventTimeError(
            what=f"the time format {form} has the part '{error.part}', which is not known",
            why="a format without % is read as Java's SimpleDateFormat",
            fix="use letters such as yyyy-MM-dd HH:mm:ss, or strftime's %Y-%m-%d %H:%M:%S",
        ) from None


def _parsed(text: str, shape: str) -> datetime:
    """Read a time; names of zones other than those of UTC would mean what the machine says."""
    if shape == "%s":
        return datetime.fromtimestamp(int(text), UTC)
    if _ZONE.search(shape) is None:
        return datetime.strptime(text, shape)
    zone = next((each for each in _ZONES if each in text), _ZONES[0])
    return datetime.strptime(text, _ZONE.sub(rf"\g<1>{zone}", shape))


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    form = named_groups(pattern)
    check_cost(form)
    return re.compile(form)


def _find(name: str, pattern: str) -> str:
    if len(name) > LONGEST_TEXT:
        raise EventTimeError(
            what=f"the file name {excerpt(name, 63)} has {len(name)} characters",
            why=f"`eventTime.pattern` is applied to names of at most {LONGEST_TEXT}",
            fix="rename the file, or take the event time from a column",
        )
    try:
        found = _expression(pattern).search(name)
    except CostlyPatternError as error:
        raise EventTimeError(
            what=f"a search with `eventTime.pattern` {pattern} may take without end",
            why=str(error),
            fix=r"write no repeat in a repeat and few `.*`: for example (\d+-\d+-\d+)\.csv",
        ) from None
    except (re.error, RecursionError, OverflowError) as error:
        raise EventTimeError(
            what=f"`eventTime.pattern` {pattern} is not a regular expression",
            why=str(error),
            fix=r"write for example (\d+-\d+-\d+)\.csv; group 1 is the time",
        ) from None
    if found is None:
        raise EventTimeError(
            what=f"the file name {name} does not match `eventTime.pattern` {pattern}",
            why="the time of its rows is taken from the name",
            fix="rename the file, narrow `fetch.path`, or correct the pattern",
        )
    if not found.re.groups or found.group(1) is None:
        raise EventTimeError(
            what=f"`eventTime.pattern` {pattern} has no group 1 in {name}",
            why="group 1 is the time",
            fix=r"put the time in parentheses, for example (\d+-\d+-\d+)",
        )
    return found.group(1)
