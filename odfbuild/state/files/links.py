"""Symbolic links in a workspace: refused, as they may have come with a foreign repository.

What is swept, written and deleted is named by its place below the root of the workspace, and over
a link such a place is one outside.  The root itself may be a link: to a larger disk, say.
"""

import os
from contextlib import suppress
from pathlib import Path

from odfbuild.errors import StateError

_OF_SPARK = ("local", "warehouse")  # what is in them Spark alone makes
_PARTS = ("refs", "blocks", "data", "checkpoints", "attestations")


class WorkspaceLinkError(StateError):
    """A folder or file of a workspace is a link."""

    code = "workspace-link"

    def __init__(self, path: str) -> None:
        super().__init__(
            what=f"{path} is a link",
            why="it is part of a workspace, which would write and delete files at the target of "
            "the link",
            fix="delete the link, or replace it by its target; the workspace folder itself may be "
            "a link, or set `workspace` of a target to another folder",
        )


def check_links(root: Path) -> None:
    """Raise WorkspaceLinkError of a link in a workspace, in a folder of it or of its cache."""
    _check_entries(str(root))
    for folder in (str(root), f"{root}{os.sep}cache"):
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208
                if name not in _OF_SPARK:
                    _check_entries(f"{folder}{os.sep}{name}")


def check_staging_links(root: Path) -> None:
    """Raise WorkspaceLinkError if the folder that files are made in is a link."""
    _check_link(f"{root}{os.sep}staging")


def check_dataset_links(folder: Path) -> None:
    """Raise WorkspaceLinkError if the folder of a dataset, or one of those in it, is a link."""
    for path in (str(folder), *(f"{folder}{os.sep}{part}" for part in _PARTS)):
        _check_link(path)


def _check_link(path: str) -> None:
    if os.path.islink(path):  # noqa: PTH114
        raise WorkspaceLinkError(path)


def _check_entries(folder: str) -> None:
    try:
        entries = os.scandir(folder)
    except OSError:  # not a folder, or none
        return
    with entries:  # a loop in C: a workspace has tens of thousands of entries
        if (link := next(filter(os.DirEntry.is_symlink, entries), None)) is not None:
            raise WorkspaceLinkError(link.path)
