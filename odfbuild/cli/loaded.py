"""Load the definitions of an opened project, for commands that look at them."""

from collections.abc import Mapping
from pathlib import Path
import os
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.odf.events import DataSchema
    from odfbuild.project.load import Project

__all__ = ["load", "load_folder", "locked_schemas"]


def load(project: app.Opened) -> "Project":
    """Return the datasets of a project, or raise ProjectErrors with all that is wrong."""
    return load_folder(project, project.root)


def load_folder(project: app.Opened, root: Path) -> "Project":
    """Return the datasets of a folder that holds the project as it was at another time."""
    from odfbuild.project.load import load_project

    return load_project(root, known=project.workspace.names())


def locked_schemas(root: Path) -> "Mapping[DatasetAlias, DataSchema]":
    """Return the data columns that the lock file of a project has, up to date or not."""
    from odfbuild.project.lockfile import read_lock

    lock = read_lock(root)
    entries = {} if lock is None else lock.schemas
    found = {DatasetAlias.parse(name): each.schema() for name, each in entries.items()}
    return {alias: schema for alias, schema in found.items() if schema is not None}
