"""The commands of the command line: plan, and what else says what would happen.

Each imports what it needs when it runs, so that all start fast.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.options import ProjectCommand, given
from odfbuild.cli.outputs import MAX_BYTES, Output

__all__ = ["Explain", "MaxBytes", "PlanOutput", "Verbose", "commands"]

commands = typer.Typer()

PlanOutput = Annotated[Output, typer.Option("-o", "--output")]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", min=1_000, help="The most bytes of markdown.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Give every reason, and what stands behind it.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print the whole blocks to append.")]


@commands.command(cls=ProjectCommand)
def plan(
    context: typer.Context,
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
    explain: Explain = False,
    verbose: Verbose = False,
) -> None:
    """Say which blocks would be appended, what would run, and why. Changes nothing."""
    from odfbuild.cli.decide import PlanOptions, show_plan

    options = PlanOptions(
        output=output,
        out=out,
        reports=tuple(report or ()),
        max_bytes=max_bytes,
        changes_exit=detailed_exitcode,
        explain=explain,
        blocks=verbose,
    )
    raise Exit(show_plan(given(context), options))
