"""All problems of a project, collected when a command met the first of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors

if TYPE_CHECKING:
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.project.config.project_file import Config
    from odfbuild.project.opened import Opened


def with_all_problems(
    given: ProjectArguments, met: OdfBuildError, against: str | None = None
) -> OdfBuildError:
    """Return an error with all other problems of the project, if it is about the project's files.

    What is wrong with selectors or the workspace stays as it is.  `against` is a revision of git:
    only what it switches on is on.
    """
    if type(met) is not ProjectErrors:
        return met
    return ProjectErrors(all_problems(given, met, against))


def all_problems(
    given: ProjectArguments,
    met: ProjectErrors,
    against: str | None = None,
    opened: Callable[[ProjectArguments], Opened] = open_given,
) -> tuple[Diagnostic, ...]:
    """Return the problems that a command met, and all others that the project's files show.

    `opened` gives the project of the arguments.
    """
    from odfbuild.host.user_folders import config_folder
    from odfbuild.project.config.permissions import permissions_of
    from odfbuild.project.config.project_file import find_project
    from odfbuild.project.survey import survey

    root = find_project(Path.cwd(), given.directory).absolute()
    return survey(
        root,
        known=_workspace_names(given, opened),
        given=given.variables,
        vars_files=given.vars_files,
        env=os.environ,
        user_folder=config_folder(os.environ),
        permissions=permissions_of(os.environ, root),
        granted=None if against is None else _granted_config(given, against, opened),
        notes=met.found,
    )


def _granted_config(
    given: ProjectArguments, against: str, opened: Callable[[ProjectArguments], Opened]
) -> Config:
    """Return what a revision switches on; nothing, where that is unknown."""
    from odfbuild.app.load_project import granted_at
    from odfbuild.project.config.project_file import Config

    try:
        return granted_at(opened(given), against)
    except OdfBuildError:
        return Config(name="")


def _workspace_names(
    given: ProjectArguments, opened: Callable[[ProjectArguments], Opened]
) -> Mapping[DatasetAlias, DatasetId]:
    try:
        return opened(given).workspace.names()
    except ProjectErrors:
        return {}
