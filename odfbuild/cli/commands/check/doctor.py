"""odfbuild doctor: what is well and what is not, a line each, with its way out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app.inspection.doctor import (
    Checkup,
    Health,
    look_at_clock,
    look_at_machine,
    look_at_project,
    runs_java,
    try_engine,
)
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.cli.unreadable import damage_is_reported
from odfbuild.errors import ProjectError

if TYPE_CHECKING:
    from odfbuild.project.opened import Opened


def doctor(
    given: ProjectArguments,
    engine: Annotated[
        bool, typer.Option("--engine", help="Also start the engine and run a query.")
    ] = False,
    output: TextFormat = "text",
) -> int:
    """Check this machine and the workspace. Says how to fix each problem."""
    as_json = output == "json"
    found: list[Checkup] = []
    for each in _looks(given, engine=engine):
        found.append(each)
        if not as_json:
            sys.stdout.write(_line(each))
            sys.stdout.flush()
    damage_is_reported()
    bad = [each for each in found if each.health is Health.BAD]
    if as_json:
        sys.stdout.write(_document(found) + "\n")
    else:
        warned = sum(each.health is Health.WARN for each in found)
        parts = [count(len(found), "check"), f"{len(bad)} bad", count(warned, "warning")]
        sys.stdout.write(f"{', '.join(parts)}.\n")
    return exits.ERROR if bad else exits.DONE


def _looks(given: ProjectArguments, *, engine: bool) -> Iterator[Checkup]:
    project = _open_project(given)
    needed = isinstance(project, Checkup) or runs_java(project)
    yield from look_at_machine(runs_java=needed)
    if isinstance(project, Checkup):
        yield from look_at_clock()
        yield project
        return
    yield Checkup("project", Health.OK, f"{project.root}, target {project.target}")
    yield from look_at_project(project)
    if engine:
        yield from try_engine(project)


def _open_project(given: ProjectArguments) -> Opened | Checkup:
    try:
        return open_given(given)
    except ProjectError as error:
        here = given.directory or Path.cwd()
        is_none = given.directory is None and not any(
            (each / "odfbuild.yaml").exists() for each in (here, *here.parents)
        )
        if is_none:
            fix = "change to the folder of a project, or create one: odfbuild init"
            return Checkup("project", Health.WARN, f"there is none in {here}", fix)
        return Checkup("project", Health.BAD, error.what, f"{error.fix}; odfbuild check lists all")


def _line(each: Checkup) -> str:
    line = f"{each.health.value:<4}  {each.name:<10}  {each.what}"
    fix = f"\n      {'':<10}  fix: {each.fix}" if each.fix and each.health is not Health.OK else ""
    return "".join(f"{printable(part)}\n" for part in (line + fix).split("\n"))


def _document(found: list[Checkup]) -> str:
    body = {
        "format_version": "1.0",
        "healthy": not any(each.health is Health.BAD for each in found),
        "checks": [
            {
                "name": each.name,
                "health": each.health.value,
                "what": each.what,
                "fix": each.fix or None,
            }
            for each in found
        ],
    }
    return printable_json(json.dumps(body, indent=2, ensure_ascii=False))
