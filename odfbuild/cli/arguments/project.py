"""The project that the options of a command name, opened."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from odfbuild import app
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.unreadable import watch_damage
from odfbuild.state.chain.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.files.lock import LockedError

Result = TypeVar("Result")


def open_given(
    given: ProjectArguments, *, lock_timeout: float = DEFAULT_LOCK_TIMEOUT, offline: bool = False
) -> app.Opened:
    """Return the project; ProjectError when there is none, or its settings are wrong.

    With `offline` a workspace in an object store is as it was seen last, which is said.
    """
    project = app.open_project(
        given.directory,
        target=given.target,
        variables=given.variables,
        vars_files=given.vars_files,
        lock_timeout=lock_timeout,
        offline=offline,
    )
    if (seen := project.workspace.seen_at) is not None:
        at = datetime.fromtimestamp(seen, UTC)
        sys.stderr.write(  # also with --quiet: what is printed may be old
            f"{project.workspace.url} is not contacted: shown as seen at {at:%Y-%m-%d %H:%M} UTC. "
            "Who works there, and which sources are disabled, is not known.\n"
        )
    watch_damage(project.workspace)
    return project


def retry_if_changed(do: Callable[[], Result]) -> Result:
    """Open a project, plan and go on; once more if its files were changed before a block was
    written.
    """
    from odfbuild.app.plan.file_snapshot import ProjectChangedError
    from odfbuild.cli.files import editing

    try:
        return do()
    except ProjectChangedError as error:
        sys.stderr.write("The files of the project changed: planning again\n")
        sys.stderr.flush()
        with suppress(LockedError), editing(error.root):
            pass  # whoever edits them is done
    return do()
