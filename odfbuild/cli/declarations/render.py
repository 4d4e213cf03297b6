"""The command that shows definitions after templating.

It imports what it needs when it runs, so that all commands start fast.
"""

from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import ProjectCommand
from odfbuild.cli.declarations.look import Exclude, Selection

commands = typer.Typer()


@commands.command(cls=ProjectCommand)
def render(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Say which line of which file made each line.")
    ] = False,
) -> None:
    """Print the YAML of datasets after templating, with what it includes."""
    from odfbuild.cli.commands.author.render import render_definitions

    raise Exit(render_definitions(given(context), selection or [], exclude or [], trace=trace))
