"""Tables that fit the width they have."""

from collections.abc import Sequence

__all__ = ["print_table"]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; a heading that starts with `>` sets its column to the right.

    Cells fold rather than vanish on a narrow terminal; away from a terminal nothing is folded.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(_printable(cell) for cell in row))
    console.print(table, markup=False, highlight=False)


def _printable(text: str) -> str:
    """Keep data from driving the terminal: control characters are shown as escapes."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return shown.replace("[", "\\[")
