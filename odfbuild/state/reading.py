"""A workspace that can only be read: nothing in it is ever opened for writing, nor locked."""

import errno
from pathlib import Path
from typing import NoReturn

from odfbuild.errors import StateError
from odfbuild.state.disk import Disk
from odfbuild.state.index import Index
from odfbuild.state.workspace import Workspace

__all__ = ["ReadOnlyDisk", "ReadOnlyError", "ReadOnlyWorkspace"]


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


class ReadOnlyWorkspace(Workspace):
    """The datasets in a folder, to be looked at; chains are read anew, since even the index of a
    workspace is a file that is written to.
    """

    is_read_only = True

    def __init__(self, root: Path) -> None:
        super().__init__(root, disk=ReadOnlyDisk())
        self.index = Index()

    @property
    def cache(self) -> Path:
        """Refuse: what is kept there would be written."""
        raise OSError(errno.EROFS, "the workspace is only read", str(self.root))


def _refusal(path: Path) -> ReadOnlyError:
    return ReadOnlyError(
        what=f"{path} would be changed by a command that only reads",
        why="what looks for differences must not make any",
        fix="report this: it is a fault of odfbuild",
    )
