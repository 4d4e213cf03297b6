"""Links in a workspace: none may stand in it, as it may have come with somebody's repository.

What is swept, written and deleted is named by its place below the root of the workspace, and over
a link such a place is one outside.  The root itself may be a link: to a larger disk, say.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from odfbuild.errors import StateError

__all__ = ["WorkspaceLinkError", "check_dataset_links", "check_links"]

_FOLDERS = ("staging", "datasets", "names", "keys", "cache", "runs", "disabled")
_OTHERS = ("index.sqlite", "local", "warehouse")  # what is in them Spark alone makes
_PARTS = ("refs", "blocks", "data", "checkpoints")


class WorkspaceLinkError(StateError):
    """A folder or file of a workspace is a link."""

    code = "workspace-link"

    def __init__(self, path: str) -> None:
        super().__init__(
            what=f"{path} is a link",
            why="it is part of a workspace, and what is written and deleted in there would be "
            "written and deleted where the link leads",
            fix="delete the link, or put what it leads to in its place; a workspace itself may be "
            "a link, or `workspace` of a target names another folder",
        )


def check_links(root: Path) -> None:
    """Raise WorkspaceLinkError of a link among the folders of a workspace or in one of them."""
    for name in (*_FOLDERS, *_OTHERS):
        path = os.path.join(root, name)  # noqa: PTH118
        if os.path.islink(path):  # noqa: PTH114
            raise WorkspaceLinkError(path)
    for name in _FOLDERS:
        for folder in _without_links(os.path.join(root, name)):  # noqa: PTH118
            if name == "cache":
                for _ in _without_links(folder):
                    pass


def check_dataset_links(folder: Path) -> None:
    """Raise WorkspaceLinkError if the folder of a dataset, or one of those in it, is a link."""
    for path in (str(folder), *(f"{folder}{os.sep}{part}" for part in _PARTS)):
        if os.path.islink(path):  # noqa: PTH114
            raise WorkspaceLinkError(path)


def _without_links(folder: str) -> Iterator[str]:
    """Yield the folders in a folder, if it is one; raise WorkspaceLinkError of a link in it."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.is_symlink():
                raise WorkspaceLinkError(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield entry.path
