"""All problems of a project, where a command met the first of them."""

import os
from collections.abc import Mapping
from pathlib import Path

from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias

__all__ = ["all_problems", "whole"]


def whole(given: Given, met: OdfBuildError) -> OdfBuildError:
    """Return an error with all other problems of the project, if it is about the project's files.

    What is wrong with selectors or the workspace stays as it is.
    """
    if type(met) is not ProjectErrors:
        return met
    return ProjectErrors(all_problems(given, met))


def all_problems(given: Given, met: ProjectErrors) -> tuple[Diagnostic, ...]:
    """Return the problems that a command met, and all others that the project's files show."""
    from odfbuild.project.config import find_project
    from odfbuild.project.profiles import user_folder
    from odfbuild.project.survey import survey

    return survey(
        find_project(Path.cwd(), given.directory).absolute(),
        known=_known(given),
        given=given.variables,
        vars_files=given.vars_files,
        env=os.environ,
        user_folder=user_folder(os.environ),
        besides=met.found,
    )


def _known(given: Given) -> Mapping[DatasetAlias, DatasetId]:
    try:
        return open_given(given).workspace.names()
    except ProjectErrors:
        return {}
