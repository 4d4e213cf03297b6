"""Clocks of the machines that write blocks, and how far apart two of them may be.

System times are ordered within a dataset, and between it and what it is made of (ODF 0.34.1,
"System time").  Each is that of the clock of one machine, and nothing sets these clocks: times are
held against those of another machine only where they are more than a day apart.
"""

from time import time_ns
from typing import Final

from odfbuild.odf.timestamp import Timestamp

_APART: Final = 86_400 * 10**9  # nanoseconds


def current_time() -> Timestamp:
    """Return the time of this machine, to the millisecond."""
    return Timestamp.from_millis(time_ns() // 1_000_000)


def is_ahead(time: Timestamp, of: Timestamp) -> bool:
    """Say whether a time is later than one of another machine, however their clocks are set."""
    return time.nanos > of.nanos + _APART
