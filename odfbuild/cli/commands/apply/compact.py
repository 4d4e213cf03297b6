"""odfbuild compact: rewrite chains with merged slices, or without data."""

from __future__ import annotations

from typing import Annotated

import typer

from odfbuild.app.maintenance.rewrite import Compaction
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    Downstream,
    DryRun,
    Exclude,
    ExistingSelection,
    LockTimeout,
    OnBusy,
    Out,
    TextFormat,
    Yes,
)
from odfbuild.cli.commands.apply.maintenance import MaintenanceOptions, housekeep
from odfbuild.planner.maintenance.compaction import Limits
from odfbuild.planner.maintenance.rewrite import HARD, METADATA_ONLY


def compact(
    given: ProjectArguments,
    selection: ExistingSelection,
    hard: Annotated[
        bool, typer.Option("--hard", help="Merge the slices of a root (default).")
    ] = False,
    keep_metadata_only: Annotated[
        bool,
        typer.Option("--keep-metadata-only", help="Drop all data, so that it is rebuilt."),
    ] = False,
    max_slice_size: Annotated[
        int,
        typer.Option("--max-slice-size", min=1, help="Maximum size of a merged slice in bytes."),
    ] = 300_000_000,
    max_slice_records: Annotated[
        int,
        typer.Option(
            "--max-slice-records", min=1, help="Maximum number of records of a merged slice."
        ),
    ] = 10_000,
    downstream: Downstream = False,
    exclude: Exclude = None,
    output: TextFormat = "text",
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Rewrite chains with slices merged, or without their data. Readers can diverge."""
    if hard and keep_metadata_only:
        raise typer.BadParameter("--hard keeps the data that --keep-metadata-only drops")
    settings = MaintenanceOptions(
        yes=yes,
        dry_run=dry_run,
        as_json=output == "json",
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
    )
    mode = METADATA_ONLY if keep_metadata_only else HARD
    wish = Compaction(mode, Limits(max_slice_size, max_slice_records))
    return housekeep(given, selection, exclude or [], wish, settings)
