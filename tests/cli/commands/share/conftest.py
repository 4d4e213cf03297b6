"""A folder that is a repository, for the commands that share."""

from pathlib import Path

import pytest


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """Return the folder of a repository."""
    folder = tmp_path / "hub"
    folder.mkdir()
    return folder
