"""Quantities of settings: `watermark_lag: 1 day`, `max_bad_rows: 5%`, `from: 10GB`."""

import re
from collections.abc import Mapping
from typing import Final

from odfbuild.project.config.settings import Section
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_PERCENT: Final = late_pattern(r"(100|[0-9]{1,2}) ?%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Most:
    """So many rows of a file, or so many in a hundred: one of the two is None."""

    rows: int | None = None
    percent: int | None = None

    def __str__(self) -> str:
        return f"{self.percent}%" if self.rows is None else str(self.rows)


def read_most(entry: Section, key: str) -> Most | None:
    """Return what an entry says, None if it says nothing or nothing that could be read."""
    value = entry.entries.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Most(rows=value)
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)) is not None:
        return Most(percent=int(found[1]))
    entry.wrong(
        key,
        f"'{key}' is not a number of rows",
        "it is a number of rows of one file, or a share of them in whole percent",
        "write max_bad_rows: 100, or max_bad_rows: 5%",
    )
    return None


_UNITS: Final[Mapping[str, int]] = {
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_WORDS: Final = late_pattern(
    r"([0-9]{1,9}) ?(seconds?|minutes?|hours?|days?|weeks?|[smhdw])", re.ASCII
)
_ISO: Final = late_pattern(
    r"P(?=[0-9T])(?:([0-9]{1,9})W|(?:([0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?)",
    re.ASCII,
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")
_LONGEST: Final = 36_525 * _UNITS["d"]
_NAMES: Final = (("w", "week"), ("d", "day"), ("h", "hour"), ("m", "minute"), ("s", "second"))


def parse_lag(text: str) -> int | None:
    """Return a length of time in milliseconds, None if the text is none of up to 100 years.

    A negative one is none, and months and years are none: they are not always as long.
    """
    if text == "0":
        return 0
    if (found := _WORDS.fullmatch(text)) is not None:
        lag = int(found[1]) * _UNITS[found[2][0]]
    elif (found := _ISO.fullmatch(text)) is not None:
        parts = zip(found.groups(), _ISO_UNITS, strict=True)
        lag = sum(int(number) * _UNITS[unit] for number, unit in parts if number is not None)
    else:
        return None
    return lag if lag <= _LONGEST else None


def lag_text(lag: int) -> str:
    """Return a length of time in words: `1 day`, `36 hours`."""
    for unit, name in _NAMES:
        number, rest = divmod(lag, _UNITS[unit])
        if rest == 0 and number:
            return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"
    return "0 seconds"


def read_lag(entry: Section, key: str) -> int | None:
    """Return what an entry says, None if it says nothing or nothing that could be read."""
    value = entry.entries.get(key)
    if value is None:
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    lag = parse_lag(text) if isinstance(text, str) else None
    if lag is None:
        entry.wrong(
            key,
            f"'{key}' is not a length of time",
            "a watermark can lag behind the latest event time by up to 100 years",
            "write it like 1 day, 36 hours, 36h or PT36H; units are s, m, h, d and w",
        )
    return lag


_AGE: Final = late_pattern(r"now ?- ?(.*)", re.ASCII)


def read_age(entry: Section, key: str) -> int | None:
    """Return the age that `now - 1 day` says, None if an entry says nothing that could be read."""
    value = entry.entries.get(key)
    if value is None:
        return None
    found = _AGE.fullmatch(value) if isinstance(value, str) else None
    age = None if found is None else parse_lag(found[1])
    if age is None or age < _UNITS["m"]:
        entry.wrong(
            key,
            f"'{key}' is not a time before now",
            "a watermark can be moved to a time from a minute to 100 years ago",
            "write it like now - 1 day, now - 36 hours or now - PT36H",
        )
        return None
    return age


_SIZE: Final = late_pattern(r"([0-9]{1,12}) ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.ASCII)
_POWERS: Final = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int | None:
    """Return the bytes that a text says: `500MB`, `10 GiB`; None for another text."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    base = 1024 if found[2].endswith("iB") else 1000
    power: int = _POWERS.get(found[2][0], 0)
    return int(found[1]) * int(base**power)
