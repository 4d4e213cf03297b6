"""The commands that give up or rewrite history: reset, compact, rebuild and retire.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, OnBusy, ProjectCommand, complete_names
from odfbuild.cli.declarations.groups import Wait
from odfbuild.cli.declarations.look import Exclude

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
Selected = Annotated[
    list[str],
    typer.Argument(
        metavar="SEL...",
        help="Datasets of the workspace, by name or selector.",
        autocompletion=complete_names,
    ),
]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream",
        help="In the same plan make anew what is made of them and cannot go on afterwards.",
    ),
]


@commands.command(cls=ProjectCommand)
def reset(
    context: typer.Context,
    selection: Annotated[
        str,
        typer.Argument(
            metavar="SEL",
            help="The dataset, or several by one selector.",
            autocompletion=complete_names,
        ),
    ],
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
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Make an earlier block the last one of datasets; what came after it is given up."""
    from odfbuild.app.maintenance.rewrite import Reset
    from odfbuild.cli.commands.apply.maintenance import Manner, housekeep, reset_at

    if sum(each is not None for each in (block, sequence, as_at)) != 1:
        raise typer.BadParameter(
            "say which block is to be the last: BLOCK, --sequence N or --as-at TIME"
        )
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=output is ToldFormat.JSON,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
    )
    text = str(sequence) if block is None else block
    wish = Reset(text) if as_at is None else reset_at(as_at)
    raise Exit(housekeep(given(context), [selection], exclude or [], wish, manner))


@commands.command(cls=ProjectCommand)
def compact(
    context: typer.Context,
    selection: Selected,
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
    downstream: Downstream = False,
    exclude: Exclude = None,
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Rewrite chains with their slices merged, or without their data; readers may diverge."""
    from odfbuild.app.maintenance.rewrite import Compaction
    from odfbuild.cli.commands.apply.maintenance import Manner, housekeep
    from odfbuild.planner.maintenance.compaction import Limits
    from odfbuild.planner.maintenance.rewrite import HARD, METADATA_ONLY

    if hard and keep_metadata_only:
        raise typer.BadParameter("--hard keeps the data that --keep-metadata-only drops")
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=output is ToldFormat.JSON,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
    )
    mode = METADATA_ONLY if keep_metadata_only else HARD
    wish = Compaction(mode, Limits(max_slice_size, max_slice_records))
    raise Exit(housekeep(given(context), selection, exclude or [], wish, manner))


@commands.command(cls=ProjectCommand)
def rebuild(
    context: typer.Context,
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
            help="Begin a new chain by the definition in the project, as after another type of a "
            "column; a root reads its source again. The old chain stays until gc.",
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
    """Make all data of derivative datasets anew from their inputs, or only lost files of them."""
    from odfbuild.app.maintenance.rewrite import Rebuild
    from odfbuild.cli.commands.apply.maintenance import Manner, housekeep
    from odfbuild.cli.commands.apply.restoration import restore_selected

    as_json = output is ToldFormat.JSON
    if restore:
        if downstream or full or out is not None:
            raise typer.BadParameter("--restore keeps the chain: no --downstream, --full or --out")
        done = restore_selected(
            given(context),
            names or [],
            exclude or [],
            dry_run=dry_run,
            as_json=as_json,
            reencode=reencode,
        )
        raise Exit(done)
    if reencode:
        raise typer.BadParameter("--reencode goes with --restore only")
    if not names:
        raise typer.BadParameter("say which datasets to make anew, or restore with --restore")
    manner = Manner(
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
        out=out,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        downstream=downstream,
        full=full,
    )
    raise Exit(housekeep(given(context), names, exclude or [], Rebuild(), manner))


@commands.command(cls=ProjectCommand)
def retire(
    context: typer.Context,
    selection: Selected,
    exclude: Exclude = None,
    output: Told = ToldFormat.TEXT,
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Take away datasets that are no longer declared; their files stay until gc."""
    from odfbuild.cli.commands.apply.retire import retire_selected
    from odfbuild.cli.commands.apply.undo import UndoOptions

    options = UndoOptions(
        out=out,
        dry_run=dry_run,
        yes=yes,
        as_json=output is ToldFormat.JSON,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    raise Exit(retire_selected(given(context), selection, exclude or [], options))
