"""Options that many commands take, and how they reach what a command calls.

The options of a project go before a command or after it: what comes later wins, and variables add
up.  So they are no parameters of the commands; each adds to one Given, which a command asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from odfbuild.cli.loudness import COLOURS, ask_colour, ask_quiet

__all__ = [
    "BlockName",
    "Busy",
    "Given",
    "Name",
    "OnBusy",
    "ProjectCommand",
    "ProjectGroup",
    "complete_names",
    "given",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the user said of the project: its folder, the target, values of its variables.

    `variables` are texts of the form K=V, in the order in which they were given; those of the
    files in `vars_files` stand behind them.
    """

    directory: Path | None = None
    target: str | None = None
    variables: tuple[str, ...] = ()
    vars_files: tuple[Path, ...] = ()


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


def given(context: typer.Context) -> Given:
    """Return what was given before and after the command."""
    found = context.find_root().obj
    return found if isinstance(found, Given) else Given()


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
        *_manners(environment),
    ]


def _manners(environment: Mapping[str, str]) -> list[TyperOption]:
    """Return the options about how it is told."""
    return [
        TyperOption(
            param_decls=["-q", "--quiet"],
            type=bool,
            is_flag=True,
            envvar=environment.get("--quiet"),
            help="Tell no progress, notes and hints; warnings and errors stay.",
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
            root.obj = put(given(context), value)
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


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the datasets that a name or selector may become, for the completion of shells."""
    from odfbuild.cli.completing import dataset_names

    return dataset_names(context, incomplete)


class OnBusy(StrEnum):
    """What to do while another run works on the same datasets."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


Busy = Annotated[
    OnBusy,
    typer.Option(
        "--on-busy",
        envvar="ODFBUILD_ON_BUSY",
        help="While another run works on the same datasets: wait for it, leave these and what "
        "follows from them out, or end.",
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="With -o csv: put ' before texts that a spreadsheet would compute, as =, +, -, @ do.",
    ),
]
Name = Annotated[str, typer.Argument(help="The name of a dataset.", autocompletion=complete_names)]
BlockName = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="BLOCK",
        help="As of this block: head, another reference, a sequence number, or a hash or "
        "six characters of its start or end.",
    ),
]
