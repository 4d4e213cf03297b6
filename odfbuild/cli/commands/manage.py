"""The commands of the command line: what is done to a workspace now and then.

Each imports what it needs when it runs, so that all start fast.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("import", cls=ProjectCommand)
def import_(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="The folder of a dataset, made by odfbuild or kamu; or a dataset of the workspace "
            "that has no definition.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="What it shall be called. Default: as it is called there."
        ),
    ] = None,
    no_definition: Annotated[
        bool, typer.Option("--no-definition", help="Only take the chain in; write no YAML.")
    ] = False,
) -> None:
    """Take an existing chain into the workspace, and write its definition."""
    from odfbuild.cli.importing import import_dataset

    raise Exit(import_dataset(given(context), folder, name, definition=not no_definition))
