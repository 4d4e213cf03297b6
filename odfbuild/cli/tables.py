"""Tables that fit the width they have."""

import sys
from collections.abc import Sequence

from odfbuild.cli.printable import printable

__all__ = ["print_table"]


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    """Print rows under headings; `right` tells which columns are set to the right.

    Cells fold rather than vanish on a narrow terminal; away from a terminal nothing is folded.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    for column, to_right in zip(columns, right, strict=True):
        heading = Text(printable(column))
        table.add_column(heading, justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as text:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.get().splitlines()))
