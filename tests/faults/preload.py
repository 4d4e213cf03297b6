"""The library that makes calls fail: built once, told through a file what to do.

`State` is that file, which every process with the library maps; its layout is `struct state` of
preload.c.  Calls are counted over all processes of a run, those below `root` only.
"""

import atexit
import ctypes
import mmap
import os
import shutil
import subprocess
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

__all__ = ["CHANGES", "NOTHING", "Action", "Fault", "Kind", "State", "compiler", "library"]

_SOURCE = Path(__file__).with_name("preload.c")
_LONGEST = 1024
FOREVER = 2**62


class Kind(IntFlag):
    """What a call does."""

    OPEN = 1
    CREATE = 2
    READ = 4
    WRITE = 8
    SYNC = 16
    RENAME = 32
    LINK = 64
    UNLINK = 128
    RMDIR = 256
    MKDIR = 512
    TRUNCATE = 1024
    CLOSE = 2048
    LOCK = 4096
    MODE = 8192


CHANGES = (
    Kind.CREATE | Kind.WRITE | Kind.SYNC | Kind.RENAME | Kind.LINK | Kind.UNLINK
    | Kind.RMDIR | Kind.MKDIR | Kind.TRUNCATE
)  # fmt: skip
"""The calls that change what is on disk: between two of them nothing is to be seen."""


class Action(IntEnum):
    """What befalls a call.

    KILL ends its process, KILL_ALL the process group; TORN writes half, then ends the group;
    ERROR fails; SHORT writes half and fails from the next call on; CUT takes the file system away,
    then ends the group.
    """

    NOTHING = 0
    KILL = 1
    KILL_ALL = 2
    TORN = 3
    ERROR = 4
    SHORT = 5
    CUT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An action at the `at`-th call of some kinds, and at `more` calls after it."""

    action: Action = Action.NOTHING
    at: int = 1
    more: int = 0
    kinds: Kind = CHANGES
    error: int = 0
    mount: Path | None = None
    flags: int = 0

    def __str__(self) -> str:
        error = f" {os.strerror(self.error)}" if self.error else ""
        more = f" and {self.more} more" if 0 < self.more < FOREVER else " and all after it"
        return f"{self.action.name}{error} at call {self.at}{more if self.more else ''}"


NOTHING = Fault()


class _Layout(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_int64),
        ("hits", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("action", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("kinds", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("root", ctypes.c_char * _LONGEST),
        ("record", ctypes.c_char * _LONGEST),
        ("mount", ctypes.c_char * _LONGEST),
        ("hit", ctypes.c_char * _LONGEST),
    )


class State:
    """The file through which processes with the library are told what to do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(ctypes.sizeof(_Layout)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._at = _Layout.from_buffer(self._map)

    def arm(self, root: Path, fault: Fault, record: Path | None = None) -> None:
        """Begin to count the calls below a folder, and to make them fail; record them in a file."""
        self.disarm()
        at = self._at
        at.calls = at.hits = 0
        at.first, at.last = fault.at, fault.at + fault.more
        at.action, at.error = int(fault.action), fault.error
        at.kinds, at.flags = int(fault.kinds), fault.flags
        at.record = b"" if record is None else os.fsencode(record)
        at.mount = b"" if fault.mount is None else os.fsencode(fault.mount)
        at.hit = b""
        at.root = os.fsencode(root)

    def disarm(self) -> None:
        """Let all calls be."""
        self._at.root = b""

    @property
    def calls(self) -> int:
        """Return how many calls of the kinds were made since."""
        return int(self._at.calls)

    @property
    def hits(self) -> int:
        """Return how many of them the fault befell."""
        return int(self._at.hits)

    @property
    def hit(self) -> str:
        """Return what the first of these did, and to which path below the folder."""
        number, _, path = os.fsdecode(bytes(self._at.hit)).partition(" ")
        return f"{Kind(int(number)).name} {path}" if number else "nothing"

    def environment(self) -> dict[str, str]:
        """Return what the environment of a process has to have."""
        return {"LD_PRELOAD": str(library()), "FAULTS_STATE": str(self.path)}


def compiler() -> str | None:
    """Return the C compiler of this machine, if it has one."""
    return shutil.which(os.environ.get("CC", "cc")) if os.name == "posix" else None


@cache
def library() -> Path:
    """Build the library, once in a process and gone after it."""
    program = compiler()
    assert program is not None
    folder = mkdtemp(prefix="odfbuild-faults-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    built = Path(folder) / "preload.so"
    options = ("-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(built))
    subprocess.run([program, *options, str(_SOURCE), "-lpthread"], check=True)
    return built
