"""odfbuild workspace move: bring the workspace to a folder or an object store."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Busy, OnBusy
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import bytes_text, count
from odfbuild.errors import UsageRefusedError


def move(
    given: ProjectArguments,
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A folder, or s3://BUCKET/..., s3+https://HOST/BUCKET/..., az+https://...",
        ),
    ],
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Copy the workspace to a folder or an object store, byte for byte. The old one stays.

    Nothing is taken from the old place, and odfbuild.yaml still names it: that is for you to
    change.  Cut off, it goes on when it is run again.
    """
    from odfbuild.cli.reservation import reservation
    from odfbuild.project.config.repositories import is_store
    from odfbuild.state.relocation import FolderTree, StoreTree, Tree, relocate
    from odfbuild.state.remote.workspace import BucketWorkspace

    project = open_given(given)
    here = project.workspace
    source: Tree = FolderTree(here.root)
    if isinstance(here, BucketWorkspace):
        source = StoreTree(here.client)
    target: Tree
    if is_store(place):
        project.permissions.check_store(place)
        there = BucketWorkspace(place, is_named=project.permissions.names_store(place))
        there.check()
        target = StoreTree(there.client)
    elif "://" in place:
        raise UsageRefusedError(
            what=f"{place} is neither a folder nor in a supported object store",
            why="a workspace is in one of the two",
            fix="name a folder, s3://BUCKET/PREFIX, s3+https://HOST/BUCKET/PREFIX or "
            "az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX",
        )
    else:
        target = FolderTree(project.root / place)
    names = set(here.names())
    with (
        reservation(project, names, command="workspace move", on_busy=on_busy),
        here.staging() as staging,
    ):
        found = relocate(source, target, staging)
    known = f", {found.known:,} of them were there" if found.known else ""
    sys.stdout.write(
        f"{count(found.datasets, 'dataset')}: {count(found.files, 'file')}, "
        f"{bytes_text(found.bytes)}{known}.\n"
        f"To use it, set in odfbuild.yaml or profiles.yaml, for the target {project.target}: "
        f"workspace: {place}\n"
        f"{source.place} is unchanged; delete it once nobody uses it. Keys were not copied: use "
        "odfbuild key export and import.\n"
    )
    return exits.DONE
