"""Standard output and error: width, colour, tables, and texts made safe to print.

It holds for the whole process: what is asked before or after any command is heeded everywhere.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, TextIO

from odfbuild.texts.known_secrets import KNOWN_SECRETS
from odfbuild.texts.visible import visible
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from rich.console import Console

COLOURS: Final = ("auto", "always", "never")


@dataclass(slots=True)
class _ConsoleOptions:
    quiet: bool = False
    colours: str = COLOURS[0]


_ASKED: Final = _ConsoleOptions()


def as_usual() -> None:
    """Forget what was asked: for a process that runs several commands."""
    _ASKED.quiet, _ASKED.colours = False, COLOURS[0]


def ask_quiet() -> None:
    """Leave progress, notes and hints out; warnings and errors stay."""
    _ASKED.quiet = True


def ask_colour(when: str) -> None:
    """Use colours `auto`, on terminals that show them, or `always`, or `never`."""
    _ASKED.colours = when


def is_quiet() -> bool:
    """Say whether only answers, warnings and errors are wanted."""
    return _ASKED.quiet


def wants_colour(stream: TextIO | None = None) -> bool:
    """Return whether a stream, by default stdout, is a terminal that shows colours that are wanted.

    What the user says with --color goes before the terminal and NO_COLOR, which counts unless it is
    empty (no-color.org).
    """
    if _ASKED.colours != COLOURS[0]:
        return _ASKED.colours == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return (sys.stdout if stream is None else stream).isatty() and not plain


def stderr_console() -> Console:
    """Return the console of live lines: without colours, dim or bold where no colour is wanted."""
    from rich.console import Console

    system: Literal["auto"] | None = "auto" if wants_colour(sys.stderr) else None
    return Console(stderr=True, color_system=system, no_color=False)


def hint(text: str) -> None:
    """Write what helps and can be missed to standard error."""
    if not _ASKED.quiet:
        sys.stderr.write(text)
        sys.stderr.flush()


class Tone(Enum):
    """A colour by what it is for, as the number of an ANSI escape code."""

    GOOD = "32"
    CHANGE = "33"
    BAD = "1;31"
    GONE = "31"
    MOVE = "36"
    DATA = "34"
    FAINT = "2"


class Paint:
    """Puts colour on texts, or leaves them as they are."""

    __slots__ = ("_on",)

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, tone: Tone) -> str:
        return f"\x1b[{tone.value}m{text}\x1b[0m" if self._on and text else text


_UNUSUAL = re.compile(r"[^\n\x20-\x7e]")


def printable(text: str) -> str:
    """Return the text with control, format and unreadable characters shown as escapes.

    No credential of a repository is in it, whoever repeats one.
    """
    return visible(KNOWN_SECRETS.hidden(text))


def printable_json(text: str) -> str:
    """Return JSON of the same value, with such characters escaped as JSON does it.

    No credential of a repository is in it, whoever repeats one.
    """
    text = KNOWN_SECRETS.hidden(text)
    return text if text.isprintable() else _UNUSUAL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    sign = found.group()
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def columns(most: int) -> int:
    """Return how many columns a line may take so that it is not wrapped, at least 40.

    COLUMNS goes first; where nothing is known, as in files and pipes, it is `most`.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and len(given) < 9:
        return min(most, max(40, int(given)))
    for stream in (2, 1):
        with suppress(OSError):
            return min(most, max(40, os.get_terminal_size(stream).columns or most))
    return most


_BETWEEN = "   "


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    """Print rows under headings; `right` tells which columns are set to the right.

    Cells fold rather than vanish on a narrow terminal; away from a terminal nothing is folded, and
    thousands of rows take no time.
    """
    lines = [[printable(cell) for cell in line] for line in (columns, *rows)]
    broken = any("\n" in cell for line in lines for cell in line)
    if broken or sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _print_fitting(lines, right)
    else:
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in _plain(lines, right)))


def _plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    widths = [max(map(wide, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        yield _BETWEEN.join(
            _set(cell, width, to_right=to_right)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        if number == 0:
            yield "─" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1))


def _set(cell: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - wide(cell))
    return space + cell if to_right else cell + space


def wide(cell: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _print_fitting(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    for column, to_right in zip(lines[0], right, strict=True):
        heading = Text(column)
        table.add_column(heading, justify="right" if to_right else "left", overflow="fold")
    for row in lines[1:]:
        table.add_row(*map(Text, row))
    with console.capture() as text:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.get().splitlines()))
