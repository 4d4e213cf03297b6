"""Options that many commands take, and their completion in shells.

The options of a project go before a command or after it: what comes later wins, and variables add
up.  So they are no parameters of the commands; each adds to one Given, which a command asks for.

A shell asks at every press of a key, so names are told from the files as they lie: those of the
workspace, and what stands after `name:` in definitions.  No YAML is read and no chain.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer import completion
from typer.core import TyperCommand, TyperGroup, TyperOption

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import given
from odfbuild.cli.terminal.console import COLOURS, ask_colour, ask_quiet
from odfbuild.host.files import MOST, open_regular, read_regular


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

VARIABLE = "_ODFBUILD_COMPLETE"
"""What a script asks is in this variable; `main` looks for it."""
_PROGRAM = "odfbuild"
_MOST_FILES = 5_000
_HEAD = 4_096  # bytes of a definition in which its name stands
_WORKSPACE = re.compile(r"\bworkspace:\s*[\"']?([^\s\"',}]+)")
_NAME = re.compile(r"^\s+name:\s*[\"']?([A-Za-z0-9][A-Za-z0-9./-]*)", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9./-]*")  # shells evaluate what they are answered
_LEADING = re.compile(r"^(?:.*[,@]|[0-9]*\+)?")  # of a selector, before a name


def show_script(shell: str) -> int:
    """Print the script that makes a shell complete the program."""
    script = getattr(completion, "get_completion_script")  # noqa: B009 - it is not re-exported
    sys.stdout.write(script(prog_name=_PROGRAM, complete_var=VARIABLE, shell=shell) + "\n")
    return exits.DONE


def answer_shell(app: typer.Typer, instruction: str) -> int:
    """Answer what a script asks, such as `complete_bash`; the line is in the environment."""
    words: Any = completion
    words.completion_init()
    command = typer.main.get_command(app)
    code: int = words.shell_complete(command, {}, _PROGRAM, VARIABLE, instruction)
    return code


def dataset_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return what a name or selector that was begun may become; nothing outside of a project."""
    lead = _LEADING.match(incomplete)
    before = "" if lead is None else lead[0]
    begun = incomplete.removeprefix(before)
    root = _root(given(context).directory)
    if root is None:
        return []
    found = {each.lower(): each for each in (*_in_workspaces(root), *_declared(root))}
    fitting = (found[each] for each in sorted(found) if found[each].startswith(begun))
    return [f"{before}{each}" for each in fitting if _PLAIN.fullmatch(each)]


def _root(directory: Path | None) -> Path | None:
    if directory is not None:
        return directory if (directory / "odfbuild.yaml").is_file() else None
    here = Path.cwd()
    return next(
        (each for each in (here, *here.parents) if (each / "odfbuild.yaml").is_file()), None
    )


def _in_workspaces(root: Path) -> Iterator[str]:
    """Yield the names in all workspaces that the settings speak of."""
    try:
        settings = read_regular(root / "odfbuild.yaml", MOST).decode("utf-8", "replace")
    except OSError:
        return
    for folder in {".odfbuild", *_WORKSPACE.findall(settings)}:
        try:
            names = os.listdir(root / folder / "names")  # noqa: PTH208 - thousands of them
        except OSError:
            continue
        for name in names:
            if not name.startswith("."):
                yield name.replace("%2F", "/")


def _declared(root: Path) -> Iterator[str]:
    for file in _definitions(root):
        try:
            with open_regular(file) as opened:
                text = opened.read(_HEAD).decode("utf-8", "replace")
        except OSError:
            continue
        if "DatasetSnapshot" in text and (name := _NAME.search(text)) is not None:
            yield name[1]


def _definitions(root: Path) -> Iterator[Path]:
    left = _MOST_FILES
    for folder, folders, names in os.walk(root):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in names:
            if name.endswith((".yaml", ".yml")) and left:
                left -= 1
                yield Path(folder, name)
