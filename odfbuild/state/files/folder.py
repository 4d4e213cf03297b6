"""Folders of a workspace: private to their owner where they hold rows, keys or plans; durable."""

import os
from itertools import islice
from pathlib import Path

from odfbuild.state.files.disk import Disk

_PRIVATE = 0o700
_MANY = 500  # files


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
