"""Paths as Spark takes them: it undoes no encoding, and reads some characters as patterns."""

import re
from pathlib import Path

__all__ = ["to_read", "to_write"]

_PATTERNS = re.compile(r"([{}\[\]*?\\])")


def to_read(path: Path) -> str:
    """Return a path for reading just this file or folder."""
    return _PATTERNS.sub(r"\\\1", str(path))


def to_write(path: Path) -> str:
    """Return a path for making a folder of files."""
    return f"file:{path}"
