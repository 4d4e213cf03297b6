"""Tables that fit the width they have."""

import os
import sys
from collections.abc import Iterator, Sequence

from odfbuild.cli.printable import printable

__all__ = ["print_table"]

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
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        yield _BETWEEN.join(
            _set(cell, width, to_right=to_right)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        if number == 0:
            yield "─" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1))


def _set(cell: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if to_right else cell + space


def _width(cell: str) -> int:
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
