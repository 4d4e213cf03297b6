"""Folders of JVMs below `cache/spark`: one for each, of which only logs are kept after a failure.

The log is locked as long as Java lives, by its standard output: the kernel lets go of it however
Java ends.  What a killed one left is removed when the next starts; `gc` removes the logs.
"""

import fcntl
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from odfbuild.host.files import open_regular, read_regular

LOG: Final = "jvm.log"
CRASH: Final = "hs_err.log"
_MACHINE: Final = "machine"  # the name of the machine, on which alone the lock counts
_NAME: Final = re.compile(r"\d+-[0-9a-f]{8}")


def new_folder(cache: Path) -> Path:
    """Return the path of a folder for one JVM below a cache folder."""
    return cache / "spark" / f"{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def opened_log(folder: Path) -> Iterator[IO[bytes]]:
    """Open the log of a JVM that is started within the block, locked where the disk has locks."""
    with (folder / LOG).open("ab") as log:
        with suppress(OSError):
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / _MACHINE).write_text(socket.gethostname())
        yield log


def keep_logs(folder: Path) -> None:
    """Remove what is in the folder of a JVM that has ended, but its logs."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name not in {LOG, CRASH}:
            entry.unlink(missing_ok=True)


def clear_left(cache: Path) -> None:
    """Remove what JVMs of this machine left that were killed with their process, but their logs."""
    with suppress(OSError):  # it is no matter for who starts another one
        for folder in (cache / "spark").iterdir():
            if _NAME.fullmatch(folder.name) and not folder.is_symlink():
                _clear(folder)


def _clear(folder: Path) -> None:
    with suppress(OSError):  # of another user, or started just now
        if read_regular(folder / _MACHINE) != socket.gethostname().encode():
            return
        with open_regular(folder / LOG) as log:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            keep_logs(folder)
