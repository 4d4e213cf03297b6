"""Open the project that the options of a command name."""

from odfbuild import app
from odfbuild.cli.damage import watch_damage
from odfbuild.cli.options import Given
from odfbuild.state.heads import DEFAULT_LOCK_TIMEOUT

__all__ = ["open_given"]


def open_given(given: Given, *, lock_timeout: float = DEFAULT_LOCK_TIMEOUT) -> app.Opened:
    """Return the project; ProjectError when there is none, or its settings are wrong."""
    project = app.open_project(
        given.directory,
        target=given.target,
        variables=given.variables,
        vars_files=given.vars_files,
        lock_timeout=lock_timeout,
    )
    watch_damage(project.workspace)
    return project
