"""Targets that are protected are changed on purpose only."""

from odfbuild import app
from odfbuild.cli.options import Given
from odfbuild.cli.usage import UsageRefusedError

__all__ = ["refuse_unnamed"]


def refuse_unnamed(project: app.Opened, given: Given, command: str) -> None:
    """Raise UsageRefusedError for a protected target that was not named."""
    target = project.config.target(project.target)
    if target.protect and given.target != target.name:
        raise UsageRefusedError(
            what=f"the target '{target.name}' is protected, and was not named",
            why="odfbuild.yaml says protect: it is never changed by default",
            fix=f"name it: odfbuild {command} --target {target.name} ...",
        )
