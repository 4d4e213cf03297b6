"""Load the definitions of an opened project, for commands that look at them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.odf.events import DataSchema
    from odfbuild.project.config import Config
    from odfbuild.project.load import Project

__all__ = ["load", "load_folder", "locked_schemas"]


def load(project: app.Opened) -> "Project":
    """Return the datasets of a project, or raise ProjectErrors with all that is wrong."""
    from odfbuild.project.load import load_project

    return load_project(
        project.root,
        known=project.workspace.names(),
        variables=project.variables,
        env=os.environ,
        config=project.config,
        packages=_packages(project.root, project.config),
    )


def load_folder(project: app.Opened, root: Path) -> "Project":
    """Return the datasets of a folder that holds the project as it was at another time."""
    from odfbuild.project.config import load_config
    from odfbuild.project.load import load_project
    from odfbuild.project.variables import resolve_variables

    config = load_config(root)
    return load_project(
        root,
        known=project.workspace.names(),
        variables=resolve_variables(config, project.given, project.vars_files),
        env=os.environ,
        config=config,
        packages=_packages(root, config),
    )


def _packages(root: Path, config: "Config") -> Mapping[str, Path]:
    """Return the folders of the packages that a project takes definitions from."""
    if not config.packages:
        return {}
    from odfbuild.project.lockfile import read_lock
    from odfbuild.project.packages import installed

    return installed(root, config, read_lock(root))


def locked_schemas(root: Path) -> "Mapping[DatasetAlias, DataSchema]":
    """Return the data columns that the lock file of a project has, up to date or not."""
    from odfbuild.project.lockfile import read_lock

    lock = read_lock(root)
    entries = {} if lock is None else lock.schemas
    found = {DatasetAlias.parse(name): each.schema() for name, each in entries.items()}
    return {alias: schema for alias, schema in found.items() if schema is not None}
