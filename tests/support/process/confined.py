"""Watch what code does outside of one folder: files, programs, the network.

Python tells its audit hooks of every file that is opened, every folder that is listed and every
program that is started, also by its own library; what the interpreter reads for itself is allowed.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["confined"]

_PATHS = {
    "open": 0,
    "os.listdir": 0,
    "os.scandir": 0,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rmdir": 0,
    "os.chmod": 0,
    "os.truncate": 0,
    "os.link": 1,
    "os.symlink": 1,
    "os.rename": 1,
}
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.startfile")
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind")
_OWN = tuple(
    os.path.realpath(each)
    for each in (
        sys.prefix,
        sys.base_prefix,
        sysconfig.get_paths()["stdlib"],
        Path(__file__).parents[3],
        "/dev/null",
        "/usr/share/zoneinfo",
    )
)


class _Watch:
    """The hook: one for the whole process, because hooks cannot be taken away again."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] | None = None
        self.seen: list[str] = []
        self.busy = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folders is None or self.busy:
            return
        self.busy = True
        try:
            if event in _STARTS or event in _NETWORK:
                self.seen.append(f"{event} {args[0]!r}")
            elif event in _PATHS and not self._is_allowed(args[_PATHS[event]]):
                self.seen.append(f"{event} {args[_PATHS[event]]!r}")
        finally:
            self.busy = False

    def _is_allowed(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # an open file, which was allowed when it was opened
        real = os.path.realpath(os.fsdecode(path))
        if real in map(os.path.realpath, filter(None, sys.path)):
            return True  # where the interpreter looks for packages: Spark adds a folder there
        return any(
            real == each or real.startswith(each + os.sep)
            for each in (*(self.folders or ()), *_OWN)
        )


_WATCH = _Watch()
sys.addaudithook(_WATCH)


@contextmanager
def confined(*folders: Path) -> Iterator[list[str]]:
    """Give what is done outside of some folders while the block runs, an entry each."""
    _WATCH.seen = []
    _WATCH.folders = tuple(os.path.realpath(each) for each in folders)
    try:
        yield _WATCH.seen
    finally:
        _WATCH.folders = None
