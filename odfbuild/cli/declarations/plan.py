"""The commands of the command line: plan, and what else says what would happen.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import ProjectCommand, complete_names
from odfbuild.cli.formats.outputs import MAX_BYTES, Output

commands = typer.Typer()

Select = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SEL]...",
        help="Datasets, by name or selector: +name is all that feeds it, name+ all that reads it.",
        autocompletion=complete_names,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="SEL", help="Leave these out; may be repeated."),
]
Gate = Annotated[
    str,
    typer.Option(
        "--gate",
        metavar="strict|default|off",
        help="strict refuses warnings, too; off refuses nothing.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="CODE[:SEL]", help="Let a rule pass this once; may be repeated."
    ),
]
MetadataOnly = Annotated[
    bool,
    typer.Option("--metadata-only", "--no-data", help="Append definitions, run nothing."),
]
PlanOutput = Annotated[Output, typer.Option("-o", "--output")]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", min=1_000, help="The most bytes of markdown.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Give every reason, and what stands behind it.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print the whole blocks to append.")]


class Refresh(StrEnum):
    """Whether local sources are looked at."""

    AUTO = "auto"
    OFF = "off"


@commands.command(cls=ProjectCommand)
def plan(
    context: typer.Context,
    select: Select = None,
    exclude: Exclude = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="git:REV",
            help="Compare with the project in a revision of git; no workspace is looked at.",
        ),
    ] = None,
    gate: Gate = "default",
    allow: Allow = None,
    metadata_only: MetadataOnly = False,
    refresh: Annotated[
        Refresh,
        typer.Option("--refresh", help="Whether to look at local sources for new files."),
    ] = Refresh.AUTO,
    output: PlanOutput = Output.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Save the plan for `apply FILE`.")
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FMT=FILE",
            help="Write the plan in another format, too; may be repeated.",
        ),
    ] = None,
    max_bytes: MaxBytes = MAX_BYTES,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="End with 2 when there are changes."),
    ] = False,
    data_diff: Annotated[
        int | None,
        typer.Option(
            "--data-diff",
            metavar="N",
            min=1,
            help="Run changed queries over the last N rows of each input, and say which rows would "
            "come out otherwise. Starts an engine.",
        ),
    ] = None,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine",
            help="Ask the engine about new and changed queries, as apply does first. Starts one.",
        ),
    ] = False,
    explain: Explain = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="List also each of many datasets that only have new data, beside changes."
        ),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Say which blocks would be appended, what would run, and why. Changes nothing."""
    from odfbuild.cli.arguments.scope import Scope
    from odfbuild.cli.commands.plan.plan import PlanOptions, show_plan

    scope = Scope(
        select=tuple(select or ()),
        exclude=tuple(exclude or ()),
        gate=gate,
        allow=tuple(allow or ()),
        metadata_only=metadata_only,
        refresh=refresh is Refresh.AUTO,
        against=against,
        engine=engine,
    )
    options = PlanOptions(
        scope=scope,
        output=output,
        out=out,
        reports=tuple(report or ()),
        max_bytes=max_bytes,
        changes_exit=detailed_exitcode,
        explain=explain,
        blocks=verbose,
        every=every,
        tried=data_diff,
    )
    raise Exit(show_plan(given(context), options))
