"""odfbuild rebuild: all data again, or only files that are lost or damaged."""

from __future__ import annotations

from typing import Annotated

import typer

from odfbuild.app.maintenance.rewrite import Rebuild
from odfbuild.cli.arguments.completion import complete_names
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    Downstream,
    DryRun,
    Exclude,
    LockTimeout,
    OnBusy,
    Out,
    TextFormat,
    Yes,
)
from odfbuild.cli.commands.apply.maintenance import MaintenanceOptions, housekeep
from odfbuild.cli.commands.apply.restoration import restore_selected


def rebuild(
    given: ProjectArguments,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SEL...",
            help="Datasets of the workspace, by name or selector. With --restore: by default all.",
            autocompletion=complete_names,
        ),
    ] = None,
    downstream: Downstream = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Begin a new chain from the definition in the project, for instance after a "
            "column changed its type; a root reads its source again. The old chain stays "
            "until gc.",
        ),
    ] = False,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", help="Keep the chain: only recreate files that are lost or damaged."
        ),
    ] = False,
    reencode: Annotated[
        bool,
        typer.Option(
            "--reencode",
            help="With --restore: also accept files with the recorded rows but other bytes.",
        ),
    ] = False,
    exclude: Exclude = None,
    output: TextFormat = "text",
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Rebuild the rows of derivative datasets from their inputs."""
    as_json = output == "json"
    if restore:
        if downstream or full or out is not None:
            raise typer.BadParameter(
                "--restore keeps the chain: it excludes --downstream, --full and --out"
            )
        return restore_selected(
            given,
            names or [],
            exclude or [],
            dry_run=dry_run,
            as_json=as_json,
            reencode=reencode,
        )
    if reencode:
        raise typer.BadParameter("--reencode needs --restore")
    if not names:
        raise typer.BadParameter("name the datasets to rebuild, or use --restore")
    settings = MaintenanceOptions(
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
        full=full,
    )
    return housekeep(given, names, exclude or [], Rebuild(), settings)
