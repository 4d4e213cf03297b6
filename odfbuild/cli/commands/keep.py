"""The commands that give up or rewrite history: reset, compact and rebuild.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.commands.groups import Wait
from odfbuild.cli.commands.look import Exclude
from odfbuild.cli.options import Busy, Name, OnBusy, ProjectCommand, complete_names, given

__all__ = ["commands"]

commands = typer.Typer()


class ToldFormat(StrEnum):
    """How is printed what will happen."""

    TEXT = "text"
    JSON = "json"


Told = Annotated[ToldFormat, typer.Option("-o", "--output")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and end.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Save it for `apply FILE`, and do nothing now."),
]


@commands.command(cls=ProjectCommand)
def reset(
    context: typer.Context,
    name: Name,
    block: Annotated[
        str | None,
        typer.Argument(
            metavar="[BLOCK]",
            help="A reference, a sequence number, or a hash or six characters of its start or end.",
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", min=0, help="The sequence number of the block.")
    ] = None,
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Make an earlier block the last one of a dataset; what came after it is given up."""
    from odfbuild.app.housekeeping import Reset
    from odfbuild.cli.housekeeping import Manner, housekeep

    if (block is None) == (sequence is None):
        raise typer.BadParameter("say which block is to be the last: BLOCK or --sequence N")
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=output is ToldFormat.JSON,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    wish = Reset(str(sequence) if block is None else block)
    raise Exit(housekeep(given(context), name, wish, manner))


@commands.command(cls=ProjectCommand)
def compact(
    context: typer.Context,
    name: Name,
    hard: Annotated[
        bool, typer.Option("--hard", help="Merge the slices of a root. The default.")
    ] = False,
    keep_metadata_only: Annotated[
        bool,
        typer.Option("--keep-metadata-only", help="Drop all data, to have it made anew."),
    ] = False,
    max_slice_size: Annotated[
        int, typer.Option("--max-slice-size", min=1, help="Bytes of a merged slice.")
    ] = 300_000_000,
    max_slice_records: Annotated[
        int, typer.Option("--max-slice-records", min=1, help="Records of a merged slice.")
    ] = 10_000,
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Rewrite a chain with its slices merged, or without its data; its readers may diverge."""
    from odfbuild.app.housekeeping import HARD, METADATA_ONLY, Compaction
    from odfbuild.cli.housekeeping import Manner, housekeep
    from odfbuild.planner.compaction import Limits

    if hard and keep_metadata_only:
        raise typer.BadParameter("--hard keeps the data that --keep-metadata-only drops")
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=output is ToldFormat.JSON,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    mode = METADATA_ONLY if keep_metadata_only else HARD
    wish = Compaction(mode, Limits(max_slice_size, max_slice_records))
    raise Exit(housekeep(given(context), name, wish, manner))


@commands.command(cls=ProjectCommand)
def rebuild(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="The dataset. With --restore: selectors, and all datasets by default.",
            autocompletion=complete_names,
        ),
    ] = None,
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream", help="Then also what is made of it and cannot go on, in order."
        ),
    ] = False,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", help="Keep the chain: make only files again that are lost or damaged."
        ),
    ] = False,
    reencode: Annotated[
        bool,
        typer.Option(
            "--reencode", help="With --restore: also take the recorded rows in other bytes."
        ),
    ] = False,
    exclude: Exclude = None,
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Make all data of a derivative dataset anew from its inputs, or only lost files of it."""
    from odfbuild.app.housekeeping import Rebuild
    from odfbuild.cli.housekeeping import Manner, housekeep
    from odfbuild.cli.restoration import restore_selected

    as_json = output is ToldFormat.JSON
    if restore:
        if downstream or out is not None:
            raise typer.BadParameter("--restore keeps the chain: no --downstream, no --out")
        done = restore_selected(
            given(context),
            names or [],
            exclude or [],
            dry_run=dry_run,
            as_json=as_json,
            reencode=reencode,
        )
        raise Exit(done)
    if reencode or exclude:
        raise typer.BadParameter("--reencode and --exclude go with --restore only")
    if len(names or []) != 1:
        raise typer.BadParameter("name the one dataset to make anew, or restore with --restore")
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
    )
    raise Exit(housekeep(given(context), (names or [""])[0], Rebuild(), manner))
