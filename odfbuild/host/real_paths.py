"""Paths with links resolved, with a cache for many paths."""

import os
import stat


class RealPaths:
    """A cache of real paths: each part of a path is looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, path: str | os.PathLike[str]) -> str:
        """Return a path as `os.path.realpath` does.  Raises ValueError for an invalid path."""
        text = os.fspath(path)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._follow(text)
        return known

    def _follow(self, path: str) -> str:
        above, name = os.path.split(path)
        if name in ("", ".", "..") or above in ("", path):
            return os.path.realpath(path)
        here = os.path.join(self.of(above), name)  # noqa: PTH118
        return os.path.realpath(here) if _is_link(here) else here


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False
