"""Load the definitions of an opened project, for commands that look at them."""

from typing import TYPE_CHECKING

from odfbuild import app

if TYPE_CHECKING:
    from odfbuild.project.load import Project

__all__ = ["load"]


def load(project: app.Opened) -> "Project":
    """Return the datasets of a project, or raise ProjectErrors with all that is wrong."""
    from odfbuild.project.load import load_project

    return load_project(project.root, known=project.workspace.names())
