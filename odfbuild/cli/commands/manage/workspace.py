"""odfbuild workspace move: bring the workspace to a folder or an object store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Busy, OnBusy
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import bytes_text, count
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild.odf.identity import DatasetId
    from odfbuild.serve.access import PrivateMarks
    from odfbuild.state.remote.workspace import BucketWorkspace


def move(
    given: ProjectArguments,
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A folder, or s3://BUCKET/..., s3+https://HOST/BUCKET/..., az+https://..., gs://BUCKET/...",
        ),
    ],
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Copy the workspace to a folder or an object store, byte for byte. The old one stays.

    Nothing is taken from the old place, and odfbuild.yaml still names it: that is for you to
    change.  Cut off, it goes on when it is run again.  Datasets that were pushed as private to
    odfbuild serve stay private; its tokens are not copied.
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
    hidden = _private_datasets(here if isinstance(here, BucketWorkspace) else here.root)
    there: BucketWorkspace | Path
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
            fix="name a folder, s3://BUCKET/PREFIX, s3+https://HOST/BUCKET/PREFIX, "
            "az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX or gs://BUCKET/PREFIX",
        )
    else:
        there = project.root / place
        target = FolderTree(there)

    def hide() -> None:
        for id in hidden:
            _private_marks(there).add(id)

    names = set(here.names())
    with (
        reservation(project, names, command="workspace move", on_busy=on_busy),
        here.staging() as staging,
    ):
        found = relocate(source, target, staging, first=hide)
    stay = f"Private datasets stay private: {len(hidden):,}. " if hidden else ""
    known = f", {found.known:,} of them were there" if found.known else ""
    sys.stdout.write(
        f"{count(found.datasets, 'dataset')}: {count(found.files, 'file')}, "
        f"{bytes_text(found.bytes)}{known}.\n"
        f"To use it, set in odfbuild.yaml or profiles.yaml, for the target {project.target}: "
        f"workspace: {place}\n"
        f"{source.place} is unchanged; delete it once nobody uses it. Keys were not copied: use "
        "odfbuild key export and import.\n"
        f"{stay}Tokens of odfbuild serve were not copied, nor what is beside a file of --tokens.\n"
    )
    return exits.DONE


def _private_datasets(place: BucketWorkspace | Path) -> frozenset[DatasetId]:
    from odfbuild.serve.settings import NoStateFolderError

    try:
        return _private_marks(place).ids()
    except NoStateFolderError:
        return frozenset()  # no server of this machine has any


def _private_marks(place: BucketWorkspace | Path) -> PrivateMarks:
    """Return which datasets servers of a place show to nobody without a token."""
    from odfbuild.serve.access import private_datasets
    from odfbuild.serve.settings import token_file
    from odfbuild.state.remote.view.visibility import StoredVisibility

    if isinstance(place, Path):
        return private_datasets(token_file(place))
    return StoredVisibility(place.client, place.client)
