"""The commands of the command line: plan, and what else says what would happen.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TEXT = "text"
    JSON = "json"


@commands.command(cls=ProjectCommand)
def plan(
    context: typer.Context,
    output: Annotated[PlanFormat, typer.Option("-o", "--output")] = PlanFormat.TEXT,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the whole blocks to append.")
    ] = False,
) -> None:
    """Say which blocks would be appended, what would run, and why. Changes nothing."""
    from odfbuild.cli.decide import show_plan

    raise Exit(show_plan(given(context), as_json=output is PlanFormat.JSON, verbose=verbose))
