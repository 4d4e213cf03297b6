"""odfbuild ci comment and summary: what a pull request or a run of CI shows of a saved plan."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.options import PlanFile
from odfbuild.cli.formats import markdown
from odfbuild.cli.saved import load_plan

TextBytes = Annotated[
    int, typer.Option("--max-bytes", min=1_000, help="Maximum number of bytes to write.")
]


def comment(
    file: PlanFile,
    max_bytes: TextBytes = 60_000,
    marker: Annotated[
        str,
        typer.Option(
            "--marker", help="Hidden text at the start, by which CI finds the comment to update."
        ),
    ] = "odfbuild-plan",
) -> int:
    """Write the body of one pull request comment, as markdown."""
    sys.stdout.write(markdown.render(load_plan(file), max_bytes, marker=marker))
    return exits.DONE


def summary(
    file: PlanFile,
    max_bytes: TextBytes = 1_000_000,
) -> int:
    """Write a summary of a run, as markdown: append it to $GITHUB_STEP_SUMMARY."""
    sys.stdout.write(markdown.render(load_plan(file), max_bytes))
    return exits.DONE
