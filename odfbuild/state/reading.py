"""A workspace that can only be read: nothing in it is ever opened for writing, nor locked."""

from pathlib import Path
from typing import NoReturn

from odfbuild.errors import StateError
from odfbuild.state.disk import Disk
from odfbuild.state.index import Index
from odfbuild.state.workspace import Workspace

__all__ = ["ReadOnlyDisk", "ReadOnlyError", "reading"]


class ReadOnlyError(StateError):
    """Something was to be written by what only reads."""

    code = "read-only"


class ReadOnlyDisk(Disk):
    """A file system that refuses every change."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> NoReturn:  # noqa: ARG002
        raise _refusal(path)

    def sync(self, path: Path) -> NoReturn:
        raise _refusal(path)

    def rename(self, old: Path, new: Path) -> NoReturn:  # noqa: ARG002
        raise _refusal(new)

    def link(self, old: Path, new: Path) -> NoReturn:  # noqa: ARG002
        raise _refusal(new)

    def remove(self, path: Path) -> NoReturn:
        raise _refusal(path)


def reading(root: Path) -> Workspace:
    """Return a workspace that reads chains anew: its index is in memory, its disk refuses."""
    workspace = Workspace(root, disk=ReadOnlyDisk())
    workspace.index = Index()
    return workspace


def _refusal(path: Path) -> ReadOnlyError:
    return ReadOnlyError(
        what=f"{path} would be changed by a command that only reads",
        why="what looks for differences must not make any",
        fix="report this: it is a fault of odfbuild",
    )
