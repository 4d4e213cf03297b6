"""Advisory lock on a folder, freed by the kernel when its holder dies.

The lock is `flock`.  Who holds it is noted in a file beside, for messages only: the note may be
stale or missing and is never what decides.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.files.lock_holder import lock_process
from odfbuild.values import dataclass

UNKNOWN = "an unknown process, possibly on another machine"
"""Who holds a lock that nobody noted, and this machine does not list."""
_FIRST_WAIT = 0.002
_LONGEST_WAIT = 0.1


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: process, machine, and since when."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class LockedError(StateError):
    """Another process is working on the folder."""

    code = "locked"

    def __init__(self, folder: Path, holder: Holder | None) -> None:
        by = holder or lock_process(folder) or UNKNOWN
        super().__init__(
            what=f"{folder.name} is locked by {by}",
            why="only one process can change a dataset at a time",
            fix="wait until it is done, or wait longer with --lock-timeout",
        )
        self.folder = folder
        self.holder = holder


@contextmanager
def locked(folder: Path, *, timeout: float, note: Path | None = None) -> Iterator[None]:
    """Hold the lock of an existing folder; after `timeout` seconds of waiting raise LockedError."""
    opened = _acquire(folder, timeout, note)
    try:
        if note is not None:
            _write_note(note)
        yield
    finally:
        if note is not None:
            with suppress(OSError):
                note.unlink()
        os.close(opened)


def open_locked(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder until closed, or None if it is held."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if _lock(opened) and _is_still(folder, opened):
        return opened
    os.close(opened)
    return None


def held_by(folder: Path, note: Path) -> Holder | None:
    """Return who holds the lock of a folder now, as they noted; None if nobody does, or did."""
    holder = read_note(note)  # perhaps of a process that is gone
    return holder if holder is not None and is_locked(folder) else None


def is_locked(folder: Path) -> bool:
    """Tell whether somebody holds the lock of a folder; nobody does if it is not there."""
    try:
        opened = open_locked(folder)
    except OSError:
        return False
    if opened is not None:
        os.close(opened)
    return opened is None


def _lock(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(folder: Path, opened: int) -> bool:
    """Say whether the folder is the one that was opened, not deleted or rebuilt since."""
    try:
        return os.fstat(opened).st_ino == folder.stat().st_ino
    except FileNotFoundError:
        return False


def _acquire(folder: Path, timeout: float, note: Path | None) -> int:
    deadline = time.monotonic() + timeout
    wait = _FIRST_WAIT
    while (opened := open_locked(folder)) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LockedError(folder, None if note is None else read_note(note))
        time.sleep(min(wait, left))
        wait = min(2 * wait, _LONGEST_WAIT)
    return opened


def _write_note(note: Path) -> None:
    since = str(Timestamp.from_millis(time.time_ns() // 1_000_000))
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, "utf-8")


def read_note(note: Path) -> Holder | None:
    """Return who wrote a note, None if it is not there or cannot be read."""
    try:
        found = parse_json(read_regular(note))
        return Holder(int(found["pid"]), str(found["host"]), str(found["since"]))
    except (OSError, ValueError, TypeError, LookupError, OverflowError):
        return None
