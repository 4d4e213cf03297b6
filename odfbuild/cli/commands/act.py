"""The commands of the command line: apply, and what else makes or rechecks data.

Each imports what it needs when it runs, so that all start fast.
"""

from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.commands.look import Exclude, Selection
from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands"]

commands = typer.Typer()


@commands.command(cls=ProjectCommand)
def apply(
    context: typer.Context,
    file: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]", help="A plan that `plan --out FILE` saved."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")] = 4,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Plain lines only.")] = False,
    lock_timeout: Annotated[
        float,
        typer.Option(
            "--lock-timeout",
            envvar="ODFBUILD_LOCK_TIMEOUT",
            min=0,
            help="Seconds to wait for a dataset that another process is changing.",
        ),
    ] = 10.0,
) -> None:
    """Plan, ask, and do what was planned; or carry out exactly a saved plan."""
    from odfbuild.cli.act import ApplyOptions, apply_project, saved_file

    arguments = file or []
    plan = saved_file(arguments)
    if arguments and plan is None:
        raise typer.BadParameter(f"no file of a saved plan: {' '.join(arguments)}")
    options = ApplyOptions(
        file=plan, yes=yes, jobs=jobs, progress=not no_progress, lock_timeout=lock_timeout
    )
    raise Exit(apply_project(given(context), options))


@commands.command(cls=ProjectCommand)
def verify(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
) -> None:
    """Rehash every block and data file, and recheck links and rules."""
    from odfbuild.cli.act import verify_datasets

    raise Exit(verify_datasets(given(context), selection or [], exclude or []))
