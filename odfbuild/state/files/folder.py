"""Folders of a workspace: private to their owner where they hold rows, keys or plans; durable."""

import os
from itertools import islice
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.state.files.disk import Disk

_PRIVATE = 0o700
_FOLDERS = ("cache", "datasets", "disabled", "keys", "names", "runs", "sources", "staging")
_MANY = 500  # files


class WorkspaceFolderError(StateError):
    """There is something else where a workspace, or a folder of it, has to be."""

    code = "workspace-folder"

    def __init__(self, path: str) -> None:
        super().__init__(
            what=f"{path} is no folder",
            why="a workspace is a folder, and keeps what it has in folders",
            fix="move it elsewhere; or name another folder as `workspace` of the target",
        )


def check_folders(root: Path) -> None:
    """Raise WorkspaceFolderError if a workspace, or a folder of it, is something else."""
    for path in (str(root), *(f"{root}{os.sep}{name}" for name in _FOLDERS)):
        if os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112
            raise WorkspaceFolderError(path)


def make_workspace_folder(
    root: Path, folder: Path, *, mode: int = 0o777, disk: Disk | None = None
) -> None:
    """Have a folder below the root of a workspace, and the root, which is private if it is new.

    A root that is there keeps its mode: its owner may share it.  With `disk`, names are on disk on
    return.  Raises OSError.
    """
    if disk is not None:
        disk.make_folder(root, _PRIVATE)
        disk.make_folder(folder, mode)
    elif not folder.is_dir():
        root.mkdir(_PRIVATE, parents=True, exist_ok=True)
        folder.mkdir(mode, parents=True, exist_ok=True)


def have_on_disk(folder: Path, disk: Disk) -> None:
    """Return when a folder and all below it is on disk; of many files at once, as one by one takes
    minutes.
    """
    found = list(islice(folder.rglob("*"), _MANY + 1))
    if len(found) > _MANY:
        os.sync()
        return
    for each in (*reversed(found), folder):
        disk.sync(each)
