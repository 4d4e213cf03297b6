"""The command watermark, which says up to when a root dataset is complete.

It imports what it needs when it runs, so that all commands start fast.
"""

from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Name, ProjectCommand
from odfbuild.cli.declarations.groups import Wait

commands = typer.Typer()


@commands.command(cls=ProjectCommand, context_settings={"ignore_unknown_options": True})
def watermark(
    context: typer.Context,
    name: Name,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="2024-03-01T12:00:00Z, 2024-03-01, or how long ago: -90m, -12h, -1d, -2w.",
        ),
    ] = None,
    lock_timeout: Wait = 10.0,
) -> None:
    """Show the watermark of a dataset, or move that of a root forward; it never goes back."""
    from odfbuild.cli.commands.apply.watermark import set_watermark, show_watermark

    if to is None:
        raise Exit(show_watermark(given(context), name))
    raise Exit(set_watermark(given(context), name, to, lock_timeout))
