"""Where links of a project lead: what comes from elsewhere may hold links to anything."""

import os
from pathlib import Path
from posixpath import normpath

__all__ = ["is_own_folder", "leads_out"]


def leads_out(root: Path, path: Path) -> bool:
    """Tell whether a path is a link out of a folder; one that leads in a circle is not."""
    try:
        return path.is_symlink() and not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise the latter
        return False


def is_own_folder(root: Path, folder: str) -> bool:
    """Tell whether there is such a folder below another one, with no link on the way to it."""
    path = root / folder
    real = os.path.realpath(root)
    return path.is_dir() and os.path.realpath(path) == os.path.normpath(
        f"{real}/{normpath(folder)}"
    )
