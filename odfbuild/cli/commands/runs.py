"""The commands that run data again, and that look at past runs.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.commands.groups import Wait
from odfbuild.cli.commands.keep import DryRun, Out, Told, ToldFormat, Yes
from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


class RunsFormat(StrEnum):
    """How runs are listed."""

    TABLE = "table"
    JSON = "json"


@commands.command(cls=ProjectCommand)
def runs(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="The id of a run, a part of it that no other has, or `last`."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A dataset: what the run did to it, in order."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("-n", "--limit", min=1, help="The newest N. Default: 20 in a table."),
    ] = None,
    output: Annotated[RunsFormat, typer.Option("-o", "--output")] = RunsFormat.TABLE,
) -> None:
    """List past runs; show one: its steps, how long they took, heads before and after."""
    from odfbuild.cli.runs import show_runs

    as_json = output is RunsFormat.JSON
    raise Exit(show_runs(given(context), run, name, limit, as_json=as_json))


@commands.command(cls=ProjectCommand)
def undo(
    context: typer.Context,
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The id of a run, a part of it that no other has, or `last`."
        ),
    ],
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
) -> None:
    """Set every dataset back to where a run found it; what it made is given up."""
    from odfbuild.cli.undo import UndoOptions, undo_run

    options = UndoOptions(
        out=out,
        dry_run=dry_run,
        yes=yes,
        as_json=output is ToldFormat.JSON,
        lock_timeout=lock_timeout,
    )
    raise Exit(undo_run(given(context), run, options))
