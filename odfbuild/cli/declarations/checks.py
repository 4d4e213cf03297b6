"""The commands of the command line: check, test, lock, deps.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import ProjectCommand, complete_names
from odfbuild.cli.declarations.plan import Exclude

commands = typer.Typer()
deps_app = typer.Typer(help="Fetch the packages of the project.", no_args_is_help=True)


class TestedAs(StrEnum):
    """How `test` tells what it found."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"


class CheckFormat(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


Selection = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SEL]...", help="Datasets. Default: all.", autocompletion=complete_names
    ),
]


@commands.command(cls=ProjectCommand)
def check(
    context: typer.Context,
    selection: Selection = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="First rewrite manifests of older specifications.")
    ] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="End with 3 if odfbuild.lock is out of date.")
    ] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="Ask the engine about queries and sources.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="git:REV",
            help="A reviewed revision: what the project switches on by itself (Python, the "
            "environment) is on only if it is on there.",
        ),
    ] = None,
    output: Annotated[CheckFormat, typer.Option("-o", "--output")] = CheckFormat.TEXT,
) -> None:
    """Say what is wrong with the project, all of it at once. Needs no network and no engine."""
    from odfbuild.cli.commands.check.check import check_project

    code = check_project(
        given(context),
        selection or [],
        fix=fix,
        locked=locked,
        engine=engine,
        output=output.value,
        against=against,
    )
    raise Exit(code)


@commands.command("test", cls=ProjectCommand)
def run_tests(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    unit: Annotated[
        bool, typer.Option("--unit", help="Only the fixtures of queries, below tests/unit.")
    ] = False,
    data: Annotated[
        bool, typer.Option("--data", help="Only the checks on rows, below tests/data.")
    ] = False,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="Run each fixture once more with all of its batches in one, which must give the "
            "same rows.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Fixtures at a time.")] = 4,
    output: Annotated[
        TestedAs, typer.Option("-o", "--output", help="How it is told what was found.")
    ] = TestedAs.TEXT,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report", metavar="FMT=FILE", help="Write junit or json to a file, too; repeatable."
        ),
    ] = None,
) -> None:
    """Run the fixtures of queries, and the checks on the rows of the workspace."""
    from odfbuild.cli.commands.check.test import TestOptions, test_project

    options = TestOptions(
        unit=unit or not data,
        data=data or not unit,
        merged=batches,
        jobs=jobs,
        output=output.value,
        reports=tuple(report or ()),
    )
    raise Exit(test_project(given(context), selection or [], exclude or [], options))


@commands.command(cls=ProjectCommand)
def lock(
    context: typer.Context,
    selection: Selection = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
    ] = False,
) -> None:
    """Write odfbuild.lock: revisions and hashes of packages, the columns of every dataset."""
    from odfbuild.cli.commands.check.lock import lock_project

    raise Exit(lock_project(given(context), selection or [], check=check))


@deps_app.command(cls=ProjectCommand)
def install(context: typer.Context) -> None:
    """Fetch what odfbuild.lock pins into packages/."""
    from odfbuild.cli.commands.check.deps import install_packages

    raise Exit(install_packages(given(context)))


@deps_app.command(cls=ProjectCommand)
def update(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One package. Default: all.")] = None,
) -> None:
    """Look revisions up anew, pin them in odfbuild.lock, and fetch them."""
    from odfbuild.cli.commands.check.deps import update_packages

    raise Exit(update_packages(given(context), name))


commands.add_typer(deps_app, name="deps")
