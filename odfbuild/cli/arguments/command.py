"""Command and group classes that take the options of a project.

These options go before a command or after it: what comes later wins, and variables add up.  So
they are no parameters of the commands; each adds to one Given, which a command is called with.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from odfbuild.cli.arguments.context import command_options
from odfbuild.cli.terminal.console import COLOURS, ask_colour, ask_quiet


class ProjectCommand(TyperCommand):
    """A command that takes the options of a project, too."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **more: Any) -> None:
        super().__init__(name, params=[*(params or []), *_project_options({})], **more)


class ProjectGroup(TyperGroup):
    """A group whose options of a project may also come from the environment."""

    def __init__(self, *, params: list[Any] | None = None, **more: Any) -> None:
        options = _project_options(
            {
                "--project-dir": "ODFBUILD_PROJECT_DIR",
                "--target": "ODFBUILD_TARGET",
                "--quiet": "ODFBUILD_QUIET",
                "--color": "ODFBUILD_COLOR",
            }
        )
        super().__init__(params=[*(params or []), *options], **more)


def _project_options(environment: Mapping[str, str]) -> list[TyperOption]:
    """Return the options of a project; each puts its value into the context's Given."""
    return [
        _option(
            ["-C", "--project-dir"],
            environment,
            "The project folder. Default: the nearest parent with an odfbuild.yaml.",
            lambda known, value: replace(known, directory=Path(value)),
            metavar="DIR",
        ),
        _option(
            ["-t", "--target"],
            environment,
            "The target to build. Default: the project's.",
            lambda known, value: replace(known, target=value),
            metavar="NAME",
        ),
        _option(
            ["--var"],
            {},
            "The value of a variable of the project; may be repeated.",
            lambda known, value: replace(known, variables=(*known.variables, *value)),
            metavar="K=V",
            multiple=True,
        ),
        _option(
            ["--vars-file"],
            {},
            "A YAML file with values of variables; may be repeated.",
            lambda known, value: replace(
                known, vars_files=(*known.vars_files, *(Path(each) for each in value))
            ),
            metavar="FILE",
            multiple=True,
        ),
        *_terminal_options(environment),
    ]


def _terminal_options(environment: Mapping[str, str]) -> list[TyperOption]:
    """Return the options of the terminal: colours, and what is printed on it."""
    return [
        TyperOption(
            param_decls=["-q", "--quiet"],
            type=bool,
            is_flag=True,
            envvar=environment.get("--quiet"),
            help="Print no progress, notes or hints; only warnings and errors.",
            callback=_hush,
            expose_value=False,
        ),
        TyperOption(
            param_decls=["--color"],
            type=str,
            envvar=environment.get("--color"),
            help="Whether to use colours. Default: auto, on terminals.",
            metavar="|".join(COLOURS),
            callback=_paint,
            expose_value=False,
        ),
    ]


def _hush(_context: typer.Context, _parameter: Any, value: Any) -> Any:
    if value:
        ask_quiet()
    return value


def _paint(_context: typer.Context, _parameter: Any, value: Any) -> Any:
    if value is not None:
        if value not in COLOURS:
            raise typer.BadParameter(f"--color {value}: it is one of {', '.join(COLOURS)}")
        ask_colour(value)
    return value


def _option(
    names: list[str],
    environment: Mapping[str, str],
    text: str,
    put: Any,
    *,
    metavar: str,
    **more: Any,
) -> TyperOption:
    def keep(context: typer.Context, _parameter: Any, value: Any) -> Any:
        if value is not None and value != ():
            root = context.find_root()
            root.obj = put(command_options(context), value)
        return value

    return TyperOption(
        param_decls=names,
        type=str,
        envvar=environment.get(names[-1]),
        help=text,
        metavar=metavar,
        callback=keep,
        expose_value=False,
        **more,
    )
