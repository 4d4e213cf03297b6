"""The command of the command line that explains others: help."""

from typing import Annotated

import typer
from typer.exceptions import Exit

__all__ = ["commands"]

commands = typer.Typer()


@commands.command()
def help(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|exit-codes]",
            help="A rule, such as ODF201, or exit-codes. Default: list.",
        ),
    ] = None,
) -> None:
    """Explain a rule of the gate, or the exit codes."""
    from odfbuild.cli.help import show_help

    raise Exit(show_help(topic))
