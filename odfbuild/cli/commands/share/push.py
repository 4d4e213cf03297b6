"""odfbuild push: datasets of the workspace go to a repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import DryRun, Exclude, NoProgress, RunOutput, Selection, Yes
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen_existing
from odfbuild.cli.commands.share.transfers import (
    Force,
    NamedTransfer,
    Parallel,
    TransferOptions,
    transfer_all,
)
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.cli.commands.share.report import TransferProgress
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.repositories.transfer import TransferMode, Transferred


def push(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="A repository, repo/name, repo/account/name, or a URL. Default: where the "
            "dataset was last pushed to, else pulled from, else the only repository that can "
            "be written to.",
        ),
    ] = None,
    force: Force = False,
    dry_run: DryRun = False,
    jobs: Parallel = 8,
    output: RunOutput = "text",
    yes: Yes = False,
    no_progress: NoProgress = False,
) -> int:
    """Send blocks that a repository lacks. The head is signed, and written last.

    Datasets that were pulled from elsewhere are left out unless they are named.
    """
    from odfbuild.repositories.transfer import TransferMode

    project = open_given(given)
    names = sorted(chosen_existing(project, selection or [], exclude or []))
    if not selection:
        names = _without_pulled(project, names)
    if to is not None and len(names) > 1 and ("/" in to):
        raise UsageRefusedError(
            what=f"--to {to}: {len(names)} datasets would be pushed to one location",
            why="a location in a repository holds one dataset",
            fix="name only the repository, or push one dataset",
        )
    mode = TransferMode(force=force, dry_run=dry_run, parallel=jobs)
    words = ["push", *map(str, names), *(() if to is None else ("--to", to))]
    options = TransferOptions(
        command="push",
        words=" ".join(words),
        mode=mode,
        output=output,
        yes=yes,
        live=not no_progress,
    )
    return transfer_all(project, [_transfer_of(project, each, to) for each in names], options)


def _without_pulled(project: app.Opened, names: Sequence[DatasetAlias]) -> list[DatasetAlias]:
    """Leave out datasets of others, and say so."""
    from odfbuild.app.sharing.references import is_from_elsewhere

    own = [each for each in names if not is_from_elsewhere(project, each)]
    if left := len(names) - len(own):
        hint(f"{count(left, 'dataset')} left out, as they were pulled: name them to push them\n")
    return own


def _transfer_of(project: app.Opened, alias: DatasetAlias, to: str | None) -> NamedTransfer:
    from odfbuild.app.sharing.references import push_target_of

    text, remote = push_target_of(project, alias, to)

    def move(mode: TransferMode, progress: TransferProgress | None) -> Transferred:
        from odfbuild.app.sharing.pushing import push_dataset

        return push_dataset(
            project, alias, remote, text, mode, passphrase=_passphrase, listener=progress
        )

    return NamedTransfer(str(alias), str(remote), move)


def _passphrase(key: DatasetId) -> str | None:  # noqa: ARG001 - one for all
    """Return the passphrase of sealed keys, if it is at hand: a push is no reason to ask for it."""
    from odfbuild.cli.commands.manage.key import VARIABLE

    return os.environ.get(VARIABLE)
