"""Folds of long lines on a terminal: what follows is set below the text of the line.

A terminal would break a line within a word and continue at its left edge.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from odfbuild.cli.terminal.console import columns, wide

__all__ = ["fold", "folded"]

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_LABEL: Final = re.compile(r" {6}(?:\S+ {2,}| {11})(?=\S)")
_EXCERPT: Final = re.compile(r"\s*\d* ?\|")
_LEAST: Final = 20  # columns that are left for the text
_WIDEST: Final = 10_000


def folded(text: str) -> str:
    """Return a text for standard output, folded if that is a terminal."""
    return fold(text, columns(_WIDEST)) if sys.stdout.isatty() else text


def fold(text: str, width: int) -> str:
    """Return a text with its lines folded between words; excerpts of files stay as they are."""
    return "\n".join(_line(each, width) for each in text.split("\n"))


def _line(line: str, width: int) -> str:
    plain = _COLOURS.sub("", line)
    if wide(plain) <= width or _EXCERPT.match(plain):
        return line
    label = _LABEL.match(plain)
    indent = label.end() if label else len(plain) - len(plain.lstrip()) + 2
    if indent + _LEAST > width:
        return line
    first, *words = re.split(r"(?<=\S) (?=\S)", line)
    lines, now = [first], wide(_COLOURS.sub("", first))
    for word in words:
        size = wide(_COLOURS.sub("", word))
        if now + 1 + size > width:
            lines.append(" " * indent + word)
            now = indent + size
        else:
            lines[-1] += f" {word}"
            now += 1 + size
    return "\n".join(lines)
