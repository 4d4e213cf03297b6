"""Definitions and datasets that a command could not read, reported while it handles the others."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.cli import exits
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import Diagnostic, StateError
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.project.load import Project
    from odfbuild.project.opened import Opened
    from odfbuild.state.workspace import Workspace

_WATCHED: list[Workspace] = []
_OPENED: list[Workspace] = []


class WrongDefinitionError(StateError):
    """The definition of a dataset that a command needs is invalid."""

    code = "wrong-definition"


def load_readable(project: Opened) -> Project:
    """Load the definitions of a project; those that are wrong are reported as by `plan`.

    Raises ProjectErrors where no definition can be read, or the settings are wrong.
    """
    from odfbuild.app.load_project import load

    loaded = load(project, partly=True)
    report_wrong(loaded)
    return loaded


def report_wrong(loaded: Project) -> None:
    """Write to stderr what is wrong with definitions of a project that was loaded partly."""
    if loaded.wrong or loaded.unread:
        from odfbuild.cli.render.diagnostics import render_diagnostics
        from odfbuild.planner.exclusion import problems, reasons

        found = reasons(problems(loaded.declared, loaded.wrong, loaded.unread))
        sys.stderr.write(render_diagnostics(found) + "\n")
        sys.stderr.flush()


def read_code(loaded: Project | None, code: int = exits.DONE) -> int:
    """Return the exit code of a command that showed what it could read."""
    whole = loaded is None or not (loaded.wrong or loaded.unread)
    return code if whole else exits.ERROR


def refuse_wrong(loaded: Project, alias: DatasetAlias) -> None:
    """Raise WrongDefinitionError if a dataset that a command was asked for is not sound."""
    if alias in loaded.wrong:
        raise WrongDefinitionError(
            what=f"the definition of {alias} is wrong, as reported above",
            why="the answer would depend on it",
            fix=f"correct the definition of {alias} first",
        )


def watch_damage(workspace: Workspace) -> None:
    """Report damage that is found in a workspace at the end, if nothing did before."""
    _WATCHED[:] = _OPENED[:] = [workspace]


def is_damaged(workspace: Workspace, chosen: Collection[DatasetAlias], *, all_of: bool) -> bool:
    """Tell whether any of the chosen datasets was found damaged, with `all_of` anything at all."""
    found = workspace.damage().keys()
    return bool(found) if all_of else any(each in chosen for each in found)


def damage_is_reported() -> None:
    """Note that the command itself reports what is damaged."""
    _WATCHED.clear()


def report_damage(said: str | None = None) -> None:
    """Print what was found to be damaged; `said` is the error that the command ended with.

    Nothing is printed if a store, which has the names of datasets, cannot be reached any more: what
    could not be read of it seems damaged, too.
    """
    for workspace in _WATCHED:
        found: list[Diagnostic] = []
        with suppress(StateError):
            found = [
                replace(
                    each,
                    what=f"{name}: {each.what}" if isinstance(name, DatasetAlias) else each.what,
                )
                for name, error in workspace.damage().items()
                if error.what != said
                for each in error.diagnostics()
            ]
        if found:
            from odfbuild.cli.render.diagnostics import render_diagnostics

            sys.stderr.write(render_diagnostics(found) + "\n")
    _WATCHED.clear()
    for workspace in _OPENED:
        if (damage := workspace.seen.damage) is not None:
            hint(f"{damage.what}; nothing was repaired: odfbuild verify reports it\n")
    _OPENED.clear()
