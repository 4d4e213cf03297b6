"""The commands of the command line: check, lock, deps.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.options import ProjectCommand, given

__all__ = ["commands", "deps_app"]

commands = typer.Typer()
deps_app = typer.Typer(help="Fetch the packages of the project.", no_args_is_help=True)


class CheckFormat(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


Selection = Annotated[
    list[str] | None, typer.Argument(metavar="[SEL]...", help="Datasets. Default: all.")
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
    output: Annotated[CheckFormat, typer.Option("-o", "--output")] = CheckFormat.TEXT,
) -> None:
    """Say what is wrong with the project, all of it at once. Needs no network and no engine."""
    from odfbuild.cli.check import check_project

    code = check_project(
        given(context),
        selection or [],
        fix=fix,
        locked=locked,
        engine=engine,
        output=output.value,
    )
    raise Exit(code)


@commands.command(cls=ProjectCommand)
def lock(
    context: typer.Context,
    selection: Selection = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
    ] = False,
) -> None:
    """Write odfbuild.lock: revisions and hashes of packages, the columns of every dataset."""
    from odfbuild.cli.lock import lock_project

    raise Exit(lock_project(given(context), selection or [], check=check))


@deps_app.command(cls=ProjectCommand)
def install(context: typer.Context) -> None:
    """Fetch what odfbuild.lock pins into packages/."""
    from odfbuild.cli.deps import install_packages

    raise Exit(install_packages(given(context)))


@deps_app.command(cls=ProjectCommand)
def update(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One package. Default: all.")] = None,
) -> None:
    """Look revisions up anew, pin them in odfbuild.lock, and fetch them."""
    from odfbuild.cli.deps import update_packages

    raise Exit(update_packages(given(context), name))


commands.add_typer(deps_app, name="deps")
