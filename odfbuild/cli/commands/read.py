"""The commands of the command line: what the workspace holds.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.commands.look import Exclude, Selection
from odfbuild.cli.options import Name, ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"


@commands.command(cls=ProjectCommand)
def status(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
) -> None:
    """List the datasets of the workspace: head, rows, watermark."""
    from odfbuild.cli.read import show_status

    raise Exit(show_status(given(context), selection or [], exclude or []))


@commands.command(cls=ProjectCommand)
def log(
    context: typer.Context,
    name: Name,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="The newest N blocks only.")
    ] = None,
    ref: Annotated[str, typer.Option("--ref", help="The chain of this reference.")] = "head",
) -> None:
    """Show the metadata chain of a dataset, newest block first."""
    from odfbuild.cli.read import show_log

    raise Exit(show_log(given(context), name, limit, ref))


@commands.command(cls=ProjectCommand)
def show(
    context: typer.Context,
    name: Name,
    output: Annotated[RowFormat, typer.Option("-o", "--output")] = RowFormat.TABLE,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="The last N rows.")] = 20,
) -> None:
    """Show the last rows of a dataset."""
    from odfbuild.cli.read import show_rows

    raise Exit(show_rows(given(context), name, output.value, limit))
