"""The commands of the command line: what is done to a workspace now and then.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import ProjectCommand

commands = typer.Typer()


class TextFormat(StrEnum):
    """How findings are told."""

    TEXT = "text"
    JSON = "json"


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@commands.command("import", cls=ProjectCommand)
def import_(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="The folder of a dataset, made by odfbuild or kamu; or a dataset of the workspace "
            "that has no definition.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="What it shall be called. Default: as it is called there."
        ),
    ] = None,
    no_definition: Annotated[
        bool, typer.Option("--no-definition", help="Only take the chain in; write no YAML.")
    ] = False,
    with_inputs: Annotated[
        bool,
        typer.Option("--with-inputs", help="First take in what it reads, from the folders beside."),
    ] = False,
    with_sources: Annotated[
        bool,
        typer.Option(
            "--with-sources",
            help="Use its source, which may run programs and fetch from servers; also of a dataset "
            "that was imported before. Default: it is not used.",
        ),
    ] = False,
) -> None:
    """Take an existing chain into the workspace, and write its definition."""
    from odfbuild.cli.commands.author.import_ import Manner, import_dataset

    manner = Manner(
        definition=not no_definition, with_inputs=with_inputs, with_sources=with_sources
    )
    raise Exit(import_dataset(given(context), folder, name, manner))


@commands.command(cls=ProjectCommand)
def gc(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")
    ] = False,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="TIME", help="Keep what is younger, such as 30m."),
    ] = "1d",
    keep_runs: Annotated[
        int, typer.Option("--keep-runs", min=0, help="Keep the records of so many runs.")
    ] = 100,
    output: Annotated[TextFormat, typer.Option("-o", "--output")] = TextFormat.TEXT,
) -> None:
    """Free the space of what nothing reaches any more."""
    from odfbuild.cli.commands.manage.gc import free_space

    raise Exit(
        free_space(
            given(context),
            older_than=older_than,
            keep_runs=keep_runs,
            dry_run=dry_run,
            as_json=output is TextFormat.JSON,
        )
    )


@commands.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.", show_choices=False)],
) -> None:
    """Print the script that makes a shell complete commands, options and names."""
    from odfbuild.cli.arguments.options import show_script

    raise Exit(show_script(shell.value))


@commands.command()
def version(
    output: Annotated[TextFormat, typer.Option("-o", "--output")] = TextFormat.TEXT,
) -> None:
    """Print the versions of odfbuild, Python, the engine and the specification."""
    from odfbuild.cli.commands.manage.version import show_version

    raise Exit(show_version(as_json=output is TextFormat.JSON))


@commands.command(cls=ProjectCommand)
def doctor(
    context: typer.Context,
    engine: Annotated[
        bool, typer.Option("--engine", help="Start the engine, too, and ask it something.")
    ] = False,
    output: Annotated[TextFormat, typer.Option("-o", "--output")] = TextFormat.TEXT,
) -> None:
    """Say whether this machine and the workspace are well, and what to do if not."""
    from odfbuild.cli.commands.check.doctor import tell_health

    as_json = output is TextFormat.JSON
    raise Exit(tell_health(given(context), engine=engine, as_json=as_json))
