"""Snapshots of a project's files: what a plan was made of, and must still be at its end.

Settings are read when a project is opened, definitions when it is planned, one file after the
other, so a plan could be made of files of which another process had changed half (`mv` changes
several).  So files are fingerprinted before definitions are read, and compared afterwards, and once
more before the first block is written.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns

from odfbuild.app.plan.cache import context
from odfbuild.errors import OdfBuildError, ProjectErrors, StateError
from odfbuild.host.user_folders import config_folder
from odfbuild.project.config.project_file import load_config
from odfbuild.project.fingerprint import Fingerprint, fingerprint, is_unchanged
from odfbuild.project.opened import Opened
from odfbuild.state.files.lock import is_locked
from odfbuild.values import dataclass


class ProjectChangedError(StateError):
    """Files of a project changed after a plan was made of a part of them."""

    code = "project-changed"

    def __init__(self, root: Path) -> None:
        super().__init__(
            what="the files of the project changed meanwhile",
            why="a plan is for the files at one time, and is applied only while they are "
            "unchanged; nothing was written",
            fix="repeat the command when nobody edits them",
        )
        self.root = root


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """Files of a project before they were read; `context` is a digest of what the user gave."""

    context: str
    files: Fingerprint

    @classmethod
    def of(cls, project: Opened) -> "ProjectFiles":
        """Look at the files; take it before the first definition is read."""
        files = fingerprint(project.root, project.watched, now=time_ns())
        return cls(context(project), files)

    def check(self, project: Opened) -> None:
        """Raise ProjectChangedError unless files and settings are those that were read."""
        if not self.are_unchanged(project):
            raise ProjectChangedError(project.root)

    def are_unchanged(self, project: Opened) -> bool:
        """Tell whether files and settings are those that were read."""
        return (
            _has_settings(project)
            and is_unchanged(project.root, self.files)
            and context(project) == self.context
        )


@contextmanager
def read_at_once(project: Opened) -> Iterator[ProjectFiles]:
    """Have files not change while they are read here.

    Raises ProjectChangedError if they did, also in the place of ProjectErrors.
    """
    before = ProjectFiles.of(project)
    try:
        yield before
    except ProjectErrors:
        before.check(project)
        if is_locked(project.root):  # by a command that is not done with editing them
            raise ProjectChangedError(project.root) from None
        raise
    before.check(project)


def _has_settings(project: Opened) -> bool:
    """Tell whether the project file and the profiles say what they said when it was opened."""
    try:
        return load_config(project.root, user_folder=config_folder(os.environ)) == project.config
    except OdfBuildError:
        return False
