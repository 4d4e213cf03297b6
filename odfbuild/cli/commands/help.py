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
            metavar="[CODE|codes|exit-codes]",
            help="A rule, such as ODF201, the code of an error, or a list. Default: the rules.",
        ),
    ] = None,
) -> None:
    """Explain a rule of the gate, an error, or the exit codes."""
    from odfbuild.cli.help import show_help

    raise Exit(show_help(topic))
