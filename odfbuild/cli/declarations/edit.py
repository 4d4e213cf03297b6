"""The commands of the command line: what edits the files of a project.

Each imports what it needs when it runs, so that all start fast.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, Name, OnBusy, ProjectCommand
from odfbuild.cli.declarations.groups import Wait

commands = typer.Typer()


@commands.command(cls=ProjectCommand)
def fmt(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files or folders. Default: the whole project."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
    ] = False,
) -> None:
    """Lay out definitions in one way: indentation, order of keys, blank lines. Comments stay."""
    from odfbuild.cli.commands.author.fmt import format_files

    raise Exit(format_files(given(context), paths or [], check=check))


@commands.command("mv", cls=ProjectCommand)
def move(
    context: typer.Context,
    old: Annotated[str, typer.Argument(help="The dataset as it is called.")],
    new: Annotated[str, typer.Argument(help="What it shall be called.")],
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> None:
    """Rename a dataset: its definition, the inputs that read it, and a moved: entry."""
    from odfbuild.cli.commands.author.mv import move_dataset

    raise Exit(move_dataset(given(context), old, new, lock_timeout=lock_timeout, on_busy=on_busy))


@commands.command(cls=ProjectCommand)
def accept(
    context: typer.Context,
    code: Annotated[str, typer.Argument(help="The rule, such as ODF201.")],
    name: Name,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="PATH", help="The column, such as address.street."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="DATE", help="The last day. Default: in 90 days."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is accepted.")] = None,
) -> None:
    """Accept a finding of the gate, in odfbuild.yaml, for review in git."""
    from odfbuild.cli.commands.author.accept import accept_finding

    raise Exit(
        accept_finding(given(context), code, name, column=column, until=until, reason=reason)
    )


@commands.command(cls=ProjectCommand)
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the dataset shall be called.")],
    root: Annotated[bool, typer.Option("--root", help="It takes data in from outside.")] = False,
    derivative: Annotated[
        bool, typer.Option("--derivative", help="It is made from other datasets.")
    ] = False,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|URL|DATASETS",
            help="A file or URL to guess columns from; of a derivative, what it reads: A,B.",
        ),
    ] = None,
) -> None:
    """Write the definition of a dataset, with a schema that is guessed from a sample."""
    from odfbuild.cli.commands.author.new import new_dataset

    raise Exit(new_dataset(given(context), name, origin, root=root, derivative=derivative))
