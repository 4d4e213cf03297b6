"""Context of all commands: the project, its target, its variables.

The options of a project go before a command or after it: what comes later wins, and variables add
up.  So they are no parameters of the commands; each adds to one Given, which a command asks for.
"""

from pathlib import Path

import typer

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectArguments:
    """What the user said of the project: its folder, the target, values of its variables.

    `variables` are texts of the form K=V, in the order in which they were given; those of the
    files in `vars_files` are behind them.
    """

    directory: Path | None = None
    target: str | None = None
    variables: tuple[str, ...] = ()
    vars_files: tuple[Path, ...] = ()


def command_options(context: typer.Context) -> ProjectArguments:
    """Return what was given before and after the command."""
    found = context.find_root().obj
    return found if isinstance(found, ProjectArguments) else ProjectArguments()
