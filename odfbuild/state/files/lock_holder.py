"""The process that holds a lock of this machine, as the kernel knows it.

Who takes a lock notes who they are, in a file that may be missing: they are between the two steps,
or may not write it.  Linux lists the locks in `/proc/locks`, and processes in `/proc`.
"""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

_LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockProcess:
    """A process: its user, machine, number, start and, of one of ours, its command."""

    user: str
    host: str
    pid: int
    since: str
    command: str | None

    def __str__(self) -> str:
        what = "a program" if self.command is None else f"odfbuild {self.command}"
        return f"{what} of {self.user} on {self.host} (process {self.pid}) since {self.since}"


def lock_process(path: Path) -> LockProcess | None:
    """Return a process that holds a lock on a file or folder; None where nothing tells."""
    with suppress(OSError, ValueError, LookupError):
        found = path.stat()
        wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for pid in _holders(wanted):
            with suppress(OSError, ValueError, LookupError):
                return _process(pid)
    return None


def _holders(wanted: str) -> Iterator[int]:
    """Yield the processes with a `flock` on an inode; those that only wait have `->`."""
    for line in _LOCKS.read_text("ascii").splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == wanted and int(words[4]) > 0:
            yield int(words[4])


def _process(pid: int) -> LockProcess:
    folder = Path(f"/proc/{pid}")
    owner, arguments = folder.stat(), (folder / "cmdline").read_bytes().decode().split("\0")
    try:
        user = pwd.getpwuid(owner.st_uid).pw_name
    except KeyError:
        user = str(owner.st_uid)
    return LockProcess(
        user=user,
        host=socket.gethostname(),
        pid=pid,
        since=str(_start(folder)),
        command=_command(arguments),
    )


def _start(folder: Path) -> Timestamp:
    """Return when a process began: ticks after the start of the machine (proc(5), field 22)."""
    ticks = int((folder / "stat").read_text("utf-8").rpartition(")")[2].split()[19])
    lines = Path("/proc/stat").read_text("ascii").splitlines()
    booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return Timestamp.from_millis(booted * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK"))


def _command(arguments: list[str]) -> str | None:
    """Return the command of odfbuild that a process was started with, None of another program."""
    names = [PurePosixPath(each).name for each in arguments]
    if "odfbuild" not in names:
        return None
    rest = arguments[names.index("odfbuild") + 1 :]
    return next((each for each in rest if each and not each.startswith("-")), None)
