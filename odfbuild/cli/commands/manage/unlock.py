"""odfbuild unlock: free a lease that somebody left behind."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import UsageRefusedError


def unlock(
    given: ProjectArguments,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A dataset, or .gc for the lease of gc.")
    ],
) -> int:
    """Release a lease in an object store. It does not matter who holds it.

    Who had it goes on, and commits unless another one does so before: heads decide, not leases.
    """
    from odfbuild.state.remote.workspace import BucketWorkspace

    workspace = open_given(given).workspace
    if not isinstance(workspace, BucketWorkspace):
        raise UsageRefusedError(
            what="leases of a workspace in a folder end with their process",
            why="the operating system releases them",
            fix="end the process that odfbuild doctor names",
        )
    lease = name.lower().replace("/", "%2F")
    note = workspace.leases.note(lease)
    if note is None or not workspace.leases.free(lease):
        sys.stdout.write(f"Nobody holds a lease on {name}.\n")
        return exits.DONE
    by = note.holder
    who = f"{by.get('user', 'somebody')} on {by.get('host', 'some machine')}"
    said = f"Released {name}, held by {who}; renewed {note.renewed}."
    sys.stdout.write(f"{printable(said)}\n")
    return exits.DONE
