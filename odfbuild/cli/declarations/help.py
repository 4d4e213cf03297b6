"""The command of the command line that explains others: help."""

from typing import Annotated

import typer
from typer.exceptions import Exit

commands = typer.Typer()


@commands.command()
def help(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|codes|exit-codes]",
            help="A rule, such as ODF201, the code of an error, a command, or a list. "
            "Default: the rules.",
        ),
    ] = None,
) -> None:
    """Explain a rule of the gate, an error, or the exit codes."""
    from odfbuild.cli.commands.plan.help import show_help

    raise Exit(show_help(topic, lambda name: _command_help(context, name)))


def _command_help(context: typer.Context, name: str) -> str | None:
    """Return the help of a command, None if there is no such command."""
    root = context.find_root()
    known = getattr(root.command, "commands", {}).get(name)
    if known is None:
        return None
    return str(known.get_help(typer.Context(known, info_name=name, parent=root)))
