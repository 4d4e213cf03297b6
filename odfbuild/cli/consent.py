"""Consent: confirmation before a change, and protected targets."""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app


def confirm(command: str) -> None:
    """Ask on a terminal; refuse where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageRefusedError(
            what=f"{command} asks for confirmation, and nobody can answer here",
            why="standard input is not a terminal",
            fix="review the plan, then repeat the command with --yes",
        )
    asked = "Apply this plan?" if command == "apply" else "Do this?"
    sys.stderr.write(f'{asked} Only "yes" is accepted: ')
    sys.stderr.flush()
    if _answer() != "yes":
        raise UsageRefusedError(
            what="not applied" if command == "apply" else "not done",
            why='the answer was not "yes"',
            fix="nothing was changed",
        )


def _answer() -> str:
    """Return the next line; an interrupt that comes just before the wait ends it soon, too."""
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    return sys.stdin.readline().strip()


def refuse_unnamed(project: app.Opened, given: ProjectArguments, command: str) -> None:
    """Raise UsageRefusedError for a protected target that was not named."""
    target = project.config.target(project.target)
    if target.protect and given.target != target.name:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is protected, and was not named",
            why="odfbuild.yaml says protect: it is never changed by default",
            fix=f"name it: odfbuild {command} --target {target.name} ...",
        )


def refuse_unplanned(project: app.Opened, given: ProjectArguments, command: str = "plan") -> None:
    """Keep to what the target asks for before anything is planned and applied in one go."""
    target = project.config.target(project.target)
    if target.require_plan_file:
        raise UsageRefusedError(
            what=f"the target '{target.name}' accepts only saved plans",
            why="odfbuild.yaml says require_plan_file: plans are reviewed before they are applied",
            fix=f"odfbuild {command}{'' if command == 'plan' else ' ...'} --out plan.json, then: "
            "odfbuild apply plan.json",
        )
    refuse_unnamed(project, given, "apply" if command == "plan" else command)
