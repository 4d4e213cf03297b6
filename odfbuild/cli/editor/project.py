"""Edited project: findings of `odfbuild check` in a project whose files are open in an editor.

Nothing is written and no object store is accessed: the workspace is only read; one in an object
store is used as this machine saw it last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

from odfbuild.app.load_project import granted_at, load
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.names import ReadDefinitions
from odfbuild.cli.formats.check import CheckReport
from odfbuild.errors import Diagnostic, InternalError, OdfBuildError
from odfbuild.executors.engine.quick_columns import quick_asker, quick_engine_names
from odfbuild.host.files import MOST
from odfbuild.host.reading_session import ReadingSession, read_shown
from odfbuild.planner.declared import Declared
from odfbuild.project import PROJECT_FILE
from odfbuild.project.opened import Opened, open_project
from odfbuild.project.yaml.edit import Change, edited_bytes
from odfbuild.state.chain.index import Index


class Judge(Protocol):
    """A check."""

    def __call__(
        self,
        given: ProjectArguments,
        opened: Callable[[ProjectArguments], Opened],
        *,
        against: str | None,
    ) -> CheckReport:
        """Return the findings in the project of some arguments, opened by a function."""


def project_above(path: Path) -> Path | None:
    """Return the nearest folder at or above a path with a project, None if there is none."""
    return next((each for each in (path, *path.parents) if _has_project(each)), None)


def _has_project(folder: Path) -> bool:
    try:
        return (folder / PROJECT_FILE).is_file()
    except OSError:  # a name that is too long, or a folder that may not be entered
        return False


Rename: TypeAlias = Callable[[Opened, Sequence[Declared], str, str], Mapping[str, Sequence[Change]]]
"""The edits that give a dataset of a project another name, by file."""


class EditedProject:
    """A project whose files may have other texts in an editor.

    `given` has its target and variables, `judge` is the check, `against` a reviewed revision: the
    project can permit itself only what that revision permits, too.
    """

    def __init__(
        self, root: Path, given: ProjectArguments, judge: Judge, against: str | None = None
    ) -> None:
        self.root = root
        self._given = replace(given, directory=root)
        self._judge = judge
        self._against = against
        self._session = ReadingSession()
        self._states: dict[Path, Index] = {}  # in memory, of each workspace that was read

    def exists(self) -> bool:
        """Return whether the project exists now."""
        return _has_project(self.root)

    def findings(self, unsaved: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
        """Return the findings of a check, given the texts of an editor by absolute path.

        Errors of the check itself are findings as well.
        """
        if not self.exists():
            return ()
        with self._session.round(unsaved):
            try:
                return self._judge(self._given, self._open, against=self._against).found
            except OdfBuildError as error:
                return error.diagnostics()
            except Exception as error:  # no caller could report it
                return InternalError(error, while_="checking the project").diagnostics()

    @contextmanager
    def definitions(self, unsaved: Mapping[str, bytes]) -> Iterator[ReadDefinitions | None]:
        """Yield the definitions, to answer a question about them; None if none can be read.

        Their positions are valid within the context.
        """
        with self._session.round(unsaved, whole=False):
            try:
                project = self._open(self._given)
                granted = None if self._against is None else granted_at(project, self._against)
                loaded = load(project, granted=granted, partly=True)
            except OdfBuildError:
                yield None
            else:
                with quick_asker(project, quick_engine_names()) as asker:
                    yield ReadDefinitions(loaded.declared, project.workspace.states(), asker)

    def renamed(
        self, unsaved: Mapping[str, bytes], rename: Rename, old: str, new: str
    ) -> dict[Path, tuple[bytes, bytes]]:
        """Return the files that a new name of a dataset changes: their texts before and after.

        Raises OdfBuildError, also for any error in the project.
        """
        with self._session.round(unsaved, whole=False):
            project = self._open(self._given)
            granted = None if self._against is None else granted_at(project, self._against)
            changes = rename(project, load(project, granted=granted).declared, old, new)
            found = {}
            for name, each in changes.items():
                path = self.root / name
                before = read_shown(path, MOST)
                found[path] = before, edited_bytes(before, name, each)
            return found

    def _open(self, given: ProjectArguments) -> Opened:
        project = open_project(
            given.directory,
            target=given.target,
            variables=given.variables,
            vars_files=given.vars_files,
            offline=True,
        )
        workspace = project.workspace.read_only()
        if workspace.url is None:
            workspace.index = self._states.setdefault(workspace.root, workspace.index)
        return replace(project, workspace=workspace)
