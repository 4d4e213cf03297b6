"""The commands about the engine itself.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, OnBusy, ProjectCommand
from odfbuild.cli.declarations.groups import Wait
from odfbuild.cli.declarations.look import Exclude, Selection

engine_app = typer.Typer(help="Keep the engine running, or go over to another version of it.")


class UpgradedAs(StrEnum):
    """How `engine upgrade` tells what it found and did."""

    TEXT = "text"
    JSON = "json"


@engine_app.command("upgrade", cls=ProjectCommand)
def upgrade(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run the steps again, and write nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")] = 4,
    output: Annotated[UpgradedAs, typer.Option("-o", "--output")] = UpgradedAs.TEXT,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Run again what other versions of the engine made; if all is equal, record this one."""
    from odfbuild.cli.commands.manage.engine import UpgradeOptions, upgrade_engine

    options = UpgradeOptions(
        dry_run=dry_run,
        yes=yes,
        jobs=jobs,
        json=output is UpgradedAs.JSON,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    raise Exit(upgrade_engine(given(context), selection or [], exclude or [], options))


class StatusAs(StrEnum):
    """How `engine status` tells what it found."""

    TEXT = "text"
    JSON = "json"


@engine_app.command("start", cls=ProjectCommand)
def start(
    context: typer.Context,
    idle: Annotated[
        str | None,
        typer.Option("--idle", metavar="TIME", help="End after so long unused: 90s, 15m, 8h."),
    ] = None,
) -> None:
    """Start an engine that stays for the commands to come; each saves the start of its own."""
    from odfbuild.cli.commands.manage.engine import start_engine

    raise Exit(start_engine(given(context), idle))


@engine_app.command("stop", cls=ProjectCommand)
def stop(
    context: typer.Context,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for commands that use it: they fail.")
    ] = False,
) -> None:
    """End the engine that stays, once no command uses it."""
    from odfbuild.cli.commands.manage.engine import stop_engine

    raise Exit(stop_engine(given(context), now=now))


@engine_app.command("status", cls=ProjectCommand)
def status(
    context: typer.Context,
    output: Annotated[StatusAs, typer.Option("-o", "--output")] = StatusAs.TEXT,
) -> None:
    """Tell whether an engine stays, who uses it, and why commands do not if they do not."""
    from odfbuild.cli.commands.manage.engine import engine_status

    raise Exit(engine_status(given(context), as_json=output is StatusAs.JSON))
