"""The commands of the command line: what edits the files of a project.

Each imports what it needs when it runs, so that all start fast.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


@commands.command(cls=ProjectCommand)
def fmt(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files or folders. Default: the whole project."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
    ] = False,
) -> None:
    """Lay out definitions in one way: indentation, order of keys, blank lines. Comments stay."""
    from odfbuild.cli.fmt import format_files

    raise Exit(format_files(given(context), paths or [], check=check))
