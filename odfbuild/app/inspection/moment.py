"""Points in time as options give them: a time, or a duration before now."""

import re

from odfbuild.errors import UsageRefusedError
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp

_AGO = re.compile(r"-([0-9]{1,9})([smhdw])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MEANING = "a watermark is the event time up to which a dataset is complete"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def moment(text: str, now: Timestamp, *, why: str = _MEANING) -> Timestamp:
    """Read an instant, a day (its first instant in UTC), or how long ago, such as -1d.

    `why` tells what the time is for.  Raises UsageRefusedError for anything else.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is None:
            whole = f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text
            return Timestamp.parse(whole)
        then = Timestamp(now.nanos - int(ago[1]) * _SECONDS[ago[2]] * 10**9)
        then.to_datetime()
    except InvalidTimestampError:
        raise UsageRefusedError(
            what=f"{text!r} is not a time",
            why=why,
            fix="write it like 2024-03-01T12:00:00Z, 2024-03-01 or -1d; units are s, m, h, d and w",
        ) from None
    return then
