"""odfbuild reset: set heads of datasets back to an earlier block."""

from __future__ import annotations

from typing import Annotated

import typer

from odfbuild.app.maintenance.rewrite import Reset
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
from odfbuild.cli.commands.apply.maintenance import MaintenanceOptions, housekeep, reset_at


def reset(
    given: ProjectArguments,
    selection: Annotated[
        str,
        typer.Argument(
            metavar="SEL",
            help="A dataset, or a selector of several.",
            autocompletion=complete_names,
        ),
    ],
    block: Annotated[
        str | None,
        typer.Argument(
            metavar="[BLOCK]",
            help="A reference, a sequence number, a hash, or six characters of its start or end.",
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", min=0, help="The sequence number of the block.")
    ] = None,
    as_at: Annotated[
        str | None,
        typer.Option(
            "--as-at",
            metavar="TIME",
            help="The last block up to a system time such as 2024-03-01T12:00:00Z, 2024-03-01 or "
            "-1d.",
        ),
    ] = None,
    downstream: Downstream = False,
    exclude: Exclude = None,
    output: TextFormat = "text",
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Reset datasets to an earlier block. Later blocks are dropped."""
    if sum(each is not None for each in (block, sequence, as_at)) != 1:
        raise typer.BadParameter(
            "name the block that becomes the head: BLOCK, --sequence N or --as-at TIME"
        )
    settings = MaintenanceOptions(
        yes=yes,
        dry_run=dry_run,
        as_json=output == "json",
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
    )
    text = str(sequence) if block is None else block
    wish = Reset(text) if as_at is None else reset_at(as_at)
    return housekeep(given, [selection], exclude or [], wish, settings)
