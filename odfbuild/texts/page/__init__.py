"""Style and scripts that the pages of this program share, and how a page gets its files."""

from collections.abc import Iterable
from importlib import resources


def page_file(name: str, package: str = __name__) -> str:
    """Return a file that belongs to a page, by default one that is shared."""
    return (resources.files(package) / name).read_text("utf-8").replace("\r\n", "\n")


def joined_scripts(scripts: Iterable[str]) -> str:
    """Return scripts as one, whose names are its own."""
    return '(() => {\n"use strict";\n' + "".join(scripts) + "})();\n"
