"""The commands that run data again, and that look at past runs.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, OnBusy, ProjectCommand
from odfbuild.cli.declarations.act import APPLIED_AS, AppliedAs, FailFast, Pool, RunReport
from odfbuild.cli.declarations.groups import Wait
from odfbuild.cli.declarations.look import Exclude, Selection
from odfbuild.cli.declarations.maintenance import DryRun, Out, Told, ToldFormat, Yes

commands = typer.Typer()


class RunsFormat(StrEnum):
    """How runs are listed."""

    TABLE = "table"
    JSON = "json"


@commands.command(cls=ProjectCommand)
def run(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="Go on until sources and inputs have nothing new."),
    ] = False,
    max_slices: Annotated[
        int | None,
        typer.Option(
            "--max-slices", metavar="N", min=1, help="Take in N slices of each source at most."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Begin again after a pause, until ^C.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds of the pause with --watch.")
    ] = 10.0,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")] = 4,
    fail_fast: FailFast = False,
    pool: Pool = None,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Plain lines only.")] = False,
    output: Annotated[AppliedAs, typer.Option("-o", "--output", help=APPLIED_AS)] = AppliedAs.TEXT,
    report: RunReport = None,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Take in what sources have and derive what follows, without a change of definitions."""
    from odfbuild.cli.commands.apply.apply import ApplyOptions, run_reports
    from odfbuild.cli.commands.apply.run import RunOptions, run_data

    if until_idle and max_slices is not None:
        raise typer.BadParameter("--until-idle takes in everything, --max-slices does not")
    if output is AppliedAs.JSON and (watch or until_idle):
        raise typer.BadParameter(
            "-o json is one document: leave out --watch and --until-idle, or write -o ndjson"
        )
    reports = run_reports(report or ())
    if reports.wants("json") and (watch or until_idle):
        raise typer.BadParameter("--report json is one document: leave out --watch, --until-idle")
    options = RunOptions(
        select=tuple(selection or ()),
        exclude=tuple(exclude or ()),
        until_idle=until_idle,
        slices=max_slices,
        watch=interval if watch else None,
        apply=ApplyOptions(
            jobs=jobs,
            progress=not no_progress,
            lock_timeout=lock_timeout,
            on_busy=on_busy,
            output=output.value,
            reports=reports,
            fail_fast=fail_fast,
            pools=tuple(pool or ()),
        ),
    )
    raise Exit(run_data(given(context), options))


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
    from odfbuild.cli.commands.apply.runs import show_runs

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
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Set every dataset back to where a run found it; what it made is given up."""
    from odfbuild.cli.commands.apply.undo import UndoOptions, undo_run

    options = UndoOptions(
        out=out,
        dry_run=dry_run,
        yes=yes,
        as_json=output is ToldFormat.JSON,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    raise Exit(undo_run(given(context), run, options))
