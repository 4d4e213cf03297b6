"""Path of a project within its git repository."""

from __future__ import annotations

from pathlib import Path

from odfbuild.project.git import GitError, WorkTree


def prefix_of(root: Path) -> str:
    """Return the path from the top of the repository to a folder, ended by a slash.

    Empty at the top itself, and where there is no repository that can be read.
    """
    try:
        return WorkTree.of(root).prefix
    except GitError:
        return ""
