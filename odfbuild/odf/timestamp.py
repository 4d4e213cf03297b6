"""Instants in UTC, exact to the nanosecond (ODF 0.34.1, "Common Data Types", date-time)."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from odfbuild.errors import ProtocolError
from odfbuild.values import dataclass

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400 * 10**9

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


class InvalidTimestampError(ProtocolError):
    """A text or a stored value is not an instant between the years 1 and 9999."""

    code = "invalid-timestamp"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970-01-01T00:00:00Z; printed as RFC 3339."""

    nanos: int

    @classmethod
    def parse(cls, text: str) -> "Timestamp":
        """Read RFC 3339 text with any offset and up to nine digits of a second."""
        found = _RFC3339.fullmatch(text)
        if found is None:
            raise _refusal(repr(text))
        year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = (
            found.groups()
        )
        try:
            days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
        except ValueError as error:
            raise _refusal(repr(text)) from error
        east = 0 if sign is None else int(off_hour) * 3600 + int(off_minute) * 60
        clock = int(hour) * 3600 + int(minute) * 60 + int(second)
        if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
            raise _refusal(repr(text))
        if sign is not None and (int(off_hour) > 23 or int(off_minute) > 59):
            raise _refusal(repr(text))
        seconds = days * 86_400 + clock - (-east if sign == "-" else east)
        return cls(seconds * 10**9 + int((fraction or "").ljust(9, "0")))._check(text)

    @classmethod
    def from_millis(cls, millis: int) -> "Timestamp":
        """Take milliseconds since 1970, as data files keep them."""
        return cls(millis * 1_000_000)

    @classmethod
    def from_datetime(cls, at: datetime) -> "Timestamp":
        """Take an aware datetime; a naive one is taken as UTC."""
        aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return cls((aware - _EPOCH) // timedelta(microseconds=1) * 1000)

    @classmethod
    def from_parts(cls, year: int, ordinal: int, seconds: int, nanos: int) -> "Timestamp":
        """Take the stored parts: day of the year from 1, seconds since midnight, nanoseconds."""
        first, count = _year(year)
        if not (1 <= ordinal <= count and 0 <= seconds < 86_400 and 0 <= nanos < 10**9):
            raise _refusal(f"stored time {(year, ordinal, seconds, nanos)}")
        return cls(((first + ordinal) * 86_400 + seconds) * 10**9 + nanos)

    @property
    def millis(self) -> int:
        """Milliseconds since 1970, rounded down."""
        return self.nanos // 1_000_000

    def parts(self) -> tuple[int, int, int, int]:
        """Return year, day of the year from 1, seconds since midnight, nanoseconds."""
        days, rest = divmod(self.nanos, _DAY)
        year = self._day(days).year
        seconds, nanos = divmod(rest, 10**9)
        return year, days - _year(year)[0], seconds, nanos

    def to_datetime(self) -> datetime:
        """Return an aware datetime in UTC, rounded down to the microsecond."""
        self._check(f"{self.nanos} ns")
        return _EPOCH + timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        days, rest = divmod(self.nanos, _DAY)
        seconds, nanos = divmod(rest, 10**9)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        clock = f"{hour:02}:{minute:02}:{second:02}"
        return f"{self._day(days).isoformat()}T{clock}{_fraction(nanos)}Z"

    def _day(self, days: int) -> date:
        if not 1 <= days + _EPOCH_DAY <= _LAST_DAY:
            raise _refusal(f"{self.nanos} ns since 1970")
        return date.fromordinal(days + _EPOCH_DAY)

    @property
    def has_date(self) -> bool:
        """Tell whether the instant is in the years 1 to 9999."""
        return 1 <= self.nanos // _DAY + _EPOCH_DAY <= _LAST_DAY

    def _check(self, text: str) -> "Timestamp":
        if not self.has_date:
            raise _refusal(repr(text))
        return self


@lru_cache(maxsize=128)
def _year(year: int) -> tuple[int, int]:
    """Return the day before a year, counted from 1970, and how many days it has, if any."""
    if not 1 <= year <= 9999:
        return 0, 0
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return date(year, 1, 1).toordinal() - _EPOCH_DAY - 1, 365 + leap


def _fraction(nanos: int) -> str:
    """Return the fewest of 0, 3, 6 or 9 digits that are exact."""
    if nanos == 0:
        return ""
    digits = f"{nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def _refusal(shown: str) -> InvalidTimestampError:
    return InvalidTimestampError(
        what=f"{shown} is not a time",
        why="times are RFC 3339 text with an offset, in the years 1 to 9999, without leap seconds",
        fix="write it like 2024-03-01T12:00:00Z",
    )
