"""The commands of the command line for CI: what they print is posted by the CI system itself.

Each imports what it needs when it runs, so that all start fast.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

ci_app = typer.Typer(help="Write what a pull request or a run of CI shows of a saved plan.")

PlanFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan that `plan --out FILE` saved; - is stdin.")
]
MaxBytes = typer.Option("--max-bytes", min=1_000, help="The most bytes to write.")


@ci_app.command("comment")
def comment(
    file: PlanFile,
    max_bytes: Annotated[int, MaxBytes] = 60_000,
    marker: Annotated[
        str,
        typer.Option(
            "--marker", help="Hidden text in front, by which the comment is found and updated."
        ),
    ] = "odfbuild-plan",
) -> None:
    """Write the body of one pull request comment, as markdown."""
    from odfbuild.cli.commands.plan.ci import write_comment

    raise Exit(write_comment(file, max_bytes, marker))


@ci_app.command("summary")
def summary(file: PlanFile, max_bytes: Annotated[int, MaxBytes] = 1_000_000) -> None:
    """Write a summary of a run, as markdown: append it to $GITHUB_STEP_SUMMARY."""
    from odfbuild.cli.commands.plan.ci import write_summary

    raise Exit(write_summary(file, max_bytes))
