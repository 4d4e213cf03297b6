"""odfbuild unlock: free a lease that somebody left behind."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.errors import UsageRefusedError


def unlock(
    given: ProjectArguments,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A dataset, or .gc for that of a collection.")
    ],
) -> int:
    """Free a lease of a workspace in an object store. It does not matter who has it.

    Who had it goes on, and commits unless another one does so before: heads decide, not leases.
    """
    from odfbuild.state.remote.workspace import BucketWorkspace

    workspace = open_given(given).workspace
    if not isinstance(workspace, BucketWorkspace):
        raise UsageRefusedError(
            what="a workspace in a folder has no leases that outlast their holders",
            why="the system frees them when a process ends",
            fix="end the process that odfbuild doctor names",
        )
    lease = name.lower().replace("/", "%2F")
    note = workspace.leases.note(lease)
    if note is None or not workspace.leases.free(lease):
        sys.stdout.write(f"Nobody has a lease on {name}.\n")
        return exits.DONE
    by = note.holder
    who = f"{by.get('user', 'somebody')} on {by.get('host', 'some machine')}"
    sys.stdout.write(f"Freed {name}, which {who} had; renewed {note.age:.0f} s ago.\n")
    return exits.DONE
