"""Edited project: findings of a check and of the gate in a project that is open in an editor.

Nothing is written and no object store is accessed: the workspace is only read; one in an object
store is used as this machine saw it last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Protocol, TypeAlias

from odfbuild.app.load_project import granted_at, load
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.names import ReadDefinitions
from odfbuild.cli.editor.workspace import EditedWorkspace, KnownChains
from odfbuild.cli.formats.check import CheckReport
from odfbuild.errors import InternalError, OdfBuildError
from odfbuild.executors.engine.quick_columns import quick_asker, quick_engine_names
from odfbuild.host.files import MOST
from odfbuild.host.reading_session import ReadingSession, read_shown
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan.policy import GateFinding
from odfbuild.project import PROJECT_FILE
from odfbuild.project.config.project_file import parse_config
from odfbuild.project.opened import Opened, open_project
from odfbuild.project.yaml import decode
from odfbuild.project.yaml.edit import Change, edited_bytes
from odfbuild.values import dataclass


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


class AcceptingChanges(Protocol):
    """The edits of the project file that accept a finding, and the last day on which they do."""

    @property
    def changes(self) -> Sequence[Change]:
        """The edits; none if the finding is accepted."""

    @property
    def until(self) -> date:
        """The day."""


Accept: TypeAlias = Callable[[Opened, GateFinding], AcceptingChanges]
"""How a project accepts a finding."""


@dataclass(frozen=True, slots=True)
class EditorCommands:
    """The commands of which an editor shows the results: a check, a rename, an acceptance."""

    judge: Judge
    rename: Rename
    accept: Accept


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file before and after some edits."""

    path: Path
    before: bytes
    after: bytes


class EditedProject:
    """A project whose files may have other texts in an editor.

    `given` has its target and variables, `against` is a reviewed revision: the project can permit
    itself only what that revision permits, too.
    """

    def __init__(
        self,
        root: Path,
        given: ProjectArguments,
        commands: EditorCommands,
        against: str | None = None,
    ) -> None:
        self.root = root
        self._given = replace(given, directory=root)
        self._commands = commands
        self._against = against
        self._session = ReadingSession()
        self._chains: dict[Path, KnownChains] = {}  # of each workspace that was read
        self._packages: tuple[Path, ...] = ()  # folders of packages, as of the last reading

    def exists(self) -> bool:
        """Return whether the project exists now."""
        return _has_project(self.root)

    def may_read(self, path: Path) -> bool:
        """Return whether a file or folder is in the project, or in a package of it."""
        return any(path.is_relative_to(each) for each in (self.root, *self._packages))

    def report(self, unsaved: Mapping[str, bytes]) -> CheckReport:
        """Return what check and gate find, given the texts of an editor by absolute path."""
        return list(self.reports(unsaved))[-1]

    def reports(self, unsaved: Mapping[str, bytes]) -> Iterator[CheckReport]:
        """Yield what a check finds, and then what check and gate find.

        Errors of the check itself are findings as well.
        """
        report = CheckReport(datasets=None, found=())
        if not self.exists():
            yield report
            return
        with self._session.round(unsaved):
            try:
                report = self._commands.judge(self._given, self._open, against=self._against)
                if report.judged is not None:
                    yield report
                    report = report.judged()
            except OdfBuildError as error:
                report = replace(report, found=(*report.found, *error.diagnostics()))
            except Exception as error:  # no caller could report it
                found = InternalError(error, while_="checking the project").diagnostics()
                report = replace(report, found=(*report.found, *found))
        yield report

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

    def renamed(self, unsaved: Mapping[str, bytes], old: str, new: str) -> Sequence[FileEdit]:
        """Return the files that a new name of a dataset changes.

        Raises OdfBuildError, also for any error in the project.
        """
        with self._session.round(unsaved, whole=False):
            project = self._open(self._given)
            granted = None if self._against is None else granted_at(project, self._against)
            declared = load(project, granted=granted).declared
            changes = self._commands.rename(project, declared, old, new)
            return [self._edit(name, each) for name, each in changes.items()]

    def accepted(
        self, unsaved: Mapping[str, bytes], finding: GateFinding
    ) -> tuple[FileEdit, date] | None:
        """Return how the project file accepts a finding, and until when; None if it cannot."""
        with self._session.round(unsaved, whole=False):
            try:
                project = self._open(self._given)
                edit = self._commands.accept(project, finding)
                if not edit.changes:
                    return None
                found = self._edit(PROJECT_FILE, edit.changes)
                parse_config(decode(found.after, PROJECT_FILE), default_name=project.config.name)
            except OdfBuildError:  # which is a finding of its own
                return None
            return found, edit.until

    def _edit(self, name: str, changes: Sequence[Change]) -> FileEdit:
        path = self.root / name
        before = read_shown(path, MOST)
        return FileEdit(path, before, edited_bytes(before, name, changes))

    def _open(self, given: ProjectArguments) -> Opened:
        project = open_project(
            given.directory,
            target=given.target,
            variables=given.variables,
            vars_files=given.vars_files,
            offline=True,
        )
        paths = [each.path for each in project.config.packages if each.path is not None]
        self._packages = tuple(Path(os.path.normpath(self.root / each)) for each in paths)
        workspace = project.workspace.read_only()
        if workspace.url is None:
            known = self._chains.setdefault(workspace.root, KnownChains())
            workspace = EditedWorkspace(workspace.root, known)
        return replace(project, workspace=workspace)
