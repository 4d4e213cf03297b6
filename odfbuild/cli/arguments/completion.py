"""Names of datasets and scripts for the completion of shells.

A shell asks at every press of a key, so names come from the files as they are: those of the
workspace, and what follows `name:` in definitions.  No YAML is read and no chain.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer import completion
from typer.core import TyperGroup

from odfbuild.cli.arguments.context import command_options
from odfbuild.host.files import MOST, open_regular, read_regular
from odfbuild.texts.patterns import late_pattern

VARIABLE = "_ODFBUILD_COMPLETE"
"""The variable with what a script asks; `main` looks for it."""
_PROGRAM = "odfbuild"
_MOST_FILES = 5_000
_HEAD = 4_096  # bytes of a definition in which its name stands
_WORKSPACE = late_pattern(r"\bworkspace:\s*[\"']?([^\s\"',}]+)")
_NAME = late_pattern(r"^\s+name:\s*[\"']?([A-Za-z0-9][A-Za-z0-9./-]*)", re.MULTILINE)
_PLAIN = late_pattern(r"[A-Za-z0-9][A-Za-z0-9./-]*")  # shells evaluate what they are answered
_LEADING = late_pattern(r"^(?:.*[,@]|[0-9]*\+)?")  # of a selector, before a name


def completion_script(shell: str) -> str:
    """Return the script that makes a shell complete the program."""
    script = getattr(completion, "get_completion_script")  # noqa: B009 - it is not re-exported
    return str(script(prog_name=_PROGRAM, complete_var=VARIABLE, shell=shell))


def answer_shell(command: TyperGroup, instruction: str) -> int:
    """Answer what a script asks, such as `complete_bash`; the line is in the environment."""
    words: Any = completion
    words.completion_init()
    code: int = words.shell_complete(command, {}, _PROGRAM, VARIABLE, instruction)
    return code


def complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return what a name or selector that was begun may become; nothing outside of a project."""
    lead = _LEADING.match(incomplete)
    before = "" if lead is None else lead[0]
    begun = incomplete.removeprefix(before)
    root = _root(command_options(context).directory)
    if root is None:
        return []
    found = {each.lower(): each for each in (*_in_workspaces(root), *_declared_names(root))}
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


def _declared_names(root: Path) -> Iterator[str]:
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
            if name.lower().endswith((".yaml", ".yml")) and left:
                left -= 1
                yield Path(folder, name)
