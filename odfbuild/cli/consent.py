"""Consent of a person before anything is changed, and targets that are protected."""

import select
import sys

from odfbuild import app
from odfbuild.cli.arguments.context import Given
from odfbuild.cli.exits import UsageRefusedError
from odfbuild.errors import PlanError


def confirm(command: str) -> None:
    """Ask on a terminal; refuse where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageRefusedError(
            what=f"{command} asks before it changes anything, and nobody can answer here",
            why="standard input is not a terminal",
            fix=f"look at the plan, then run: odfbuild {command} --yes",
        )
    asked = "Apply this plan?" if command == "apply" else "Do this?"
    sys.stderr.write(f'{asked} Only "yes" does it: ')
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


def refuse_unnamed(project: app.Opened, given: Given, command: str) -> None:
    """Raise UsageRefusedError for a protected target that was not named."""
    target = project.config.target(project.target)
    if target.protect and given.target != target.name:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is protected, and was not named",
            why="odfbuild.yaml says protect: it is never changed by default",
            fix=f"name it: odfbuild {command} --target {target.name} ...",
        )


class UnfitPlanError(PlanError):
    """A saved plan is not for this project, target or workspace, or for none at all."""

    code = "unfit-plan"


def refuse_unplanned(project: app.Opened, given: Given, command: str = "plan") -> None:
    """Keep to what the target asks for before anything is planned and applied in one go."""
    target = project.config.target(project.target)
    if target.require_plan_file:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is changed by saved plans only",
            why="odfbuild.yaml says require_plan_file: what is applied was reviewed before",
            fix=f"odfbuild {command}{'' if command == 'plan' else ' ...'} --out plan.json, then: "
            "odfbuild apply plan.json",
        )
    refuse_unnamed(project, given, "apply" if command == "plan" else command)


def refuse_unfit(place: tuple[str, str, str], project: app.Opened) -> None:
    """Refuse what was planned for another project, target or workspace."""
    here = (project.config.name, project.target, _workspace_of(project))
    for word, planned, found in zip(("project", "target", "workspace"), place, here, strict=True):
        if planned != found:
            raise UnfitPlanError(
                what=f"the plan is for the {word} '{planned}', and this is '{found}'",
                why="a saved plan is carried out where it was made for, or not at all",
                fix="apply it there, or plan again here",
            )


def _workspace_of(project: app.Opened) -> str:
    return project.config.target(project.target).workspace
