"""Where a project lies in its git repository."""

import subprocess
from pathlib import Path

__all__ = ["prefix_of"]

_TIMEOUT = 30


def prefix_of(root: Path) -> str:
    """Return the path from the top of the repository to a folder, ended by a slash.

    Empty at the top itself, and where there is no repository or no git.
    """
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--show-prefix"],  # noqa: S607 - the git of the user
            cwd=root,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.removesuffix("\n") if done.returncode == 0 else ""
