"""Waiting until a pipe or socket can be read, however many files the process has open."""

import select
from typing import Protocol


class _Numbered(Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | _Numbered, seconds: float) -> bool:
    """Wait at most `seconds` until a file can be read, or has ended; return whether it can.

    `select.select` would not accept descriptors from 1,024 on.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN | select.POLLPRI)
    return bool(poll.poll(max(0.0, seconds) * 1000))
