"""odfbuild pull and clone: datasets of repositories come into the workspace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    DryRun,
    LockTimeout,
    NoProgress,
    OnBusy,
    RunOutput,
    Yes,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen_existing
from odfbuild.cli.commands.share.transfers import (
    Force,
    NamedTransfer,
    Parallel,
    TransferOptions,
    transfer_all,
)
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.cli.reservation import reservation
from odfbuild.errors import StateError, UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.app.sharing.references import PullRequest
    from odfbuild.cli.commands.share.report import TransferProgress
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.repositories.transfer import TransferMode, Transferred

VerifyOption = Annotated[
    Literal["hashes", "data", "replay"],
    typer.Option(
        "--verify",
        help="What is checked before anything is visible. hashes: rules of chains and the hash of "
        "every file; data: also rows and logical hashes; replay: also rerun new steps, whose "
        "inputs must be in the workspace.",
    ),
]
RemoteName = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Its name here. Default: its name there."),
]


class ClonedAlreadyError(StateError):
    """The dataset to clone is in the workspace already."""

    code = "cloned-already"


def pull(
    given: ProjectArguments,
    selection: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REF|SEL]...",
            help="Remote datasets: repo/name, repo/account/name, a URL or an id; or datasets of "
            "the workspace that were pulled earlier. Default: all of the latter.",
        ),
    ] = None,
    name: RemoteName = None,
    force: Force = False,
    dry_run: DryRun = False,
    verify: VerifyOption = "hashes",
    jobs: Parallel = 8,
    output: RunOutput = "text",
    yes: Yes = False,
    no_progress: NoProgress = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Fetch new blocks of remote datasets. All are checked before any is visible.

    Files that are lost here come back.
    """
    from odfbuild.repositories.transfer import TransferMode

    project = open_given(given, lock_timeout=lock_timeout)
    refuse_unnamed(project, given, "pull")
    requests = _requests(project, selection or [], name)
    mode = TransferMode(force=force, restore=True, dry_run=dry_run, parallel=jobs)
    options = TransferOptions(
        command="pull",
        words=" ".join(["pull", *(str(each.alias) for each in requests)]),
        mode=mode,
        output=output,
        yes=yes,
        live=not no_progress,
    )
    return _pull_all(project, requests, options, verify, on_busy)


def clone(
    given: ProjectArguments,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="A remote dataset: repo/name, repo/account/name, a URL or an id.",
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Its name here.")] = None,
    dry_run: DryRun = False,
    verify: VerifyOption = "hashes",
    jobs: Parallel = 8,
    output: RunOutput = "text",
    no_progress: NoProgress = False,
) -> int:
    """Copy a dataset of a repository into the workspace."""
    from odfbuild.repositories.transfer import TransferMode

    project = open_given(given)
    refuse_unnamed(project, given, "clone")
    (request,) = _requests(project, [reference], name)
    request = replace(request, is_named=True)
    if request.alias in project.workspace.names():
        raise ClonedAlreadyError(
            what=f"the workspace has a dataset {request.alias}",
            why="a clone creates a new dataset",
            fix=f"odfbuild pull {reference} fetches what is new; or give it another name: "
            f"odfbuild clone {reference} NAME",
        )
    mode = TransferMode(dry_run=dry_run, parallel=jobs)
    words = f"clone {reference}"
    options = TransferOptions(
        command="clone", words=words, mode=mode, output=output, live=not no_progress
    )
    return _pull_all(project, [request], options, verify, OnBusy.WAIT)


def _pull_all(
    project: app.Opened,
    requests: Sequence[PullRequest],
    options: TransferOptions,
    verify: Literal["hashes", "data", "replay"],
    on_busy: OnBusy,
) -> int:
    names = [each.alias for each in requests]
    if options.mode.dry_run:
        wanted = [_transfer_of(project, each, verify) for each in requests]
        return transfer_all(project, wanted, options)
    with reservation(project, names, command=options.command, on_busy=on_busy) as mine:
        left = [each for each in requests if each.alias not in mine.busy]
        code = transfer_all(
            project, [_transfer_of(project, each, verify) for each in left], options
        )
        _warn_of_readers(project, [each.alias for each in left])
        return code


def _warn_of_readers(project: app.Opened, pulled: Sequence[DatasetAlias]) -> None:
    """Say what the queries that read datasets lose by what was pulled."""
    from odfbuild.app.plan.changed_inputs import changed_inputs
    from odfbuild.cli.render.diagnostics import render_diagnostics

    states = project.workspace.states()
    names = {alias: state.dataset for alias, state in states.items()}
    found = changed_inputs(project, states, {names[each] for each in pulled if each in names})
    if found:
        every = [problem for each in found.values() for problem in each]
        sys.stderr.write(render_diagnostics(every) + "\n")


def _transfer_of(
    project: app.Opened, request: PullRequest, verify: Literal["hashes", "data", "replay"]
) -> NamedTransfer:
    def move(mode: TransferMode, progress: TransferProgress | None) -> Transferred:
        from odfbuild.app.sharing.pulling import PullMode, pull_dataset

        return pull_dataset(project, request, PullMode(transfer=mode, verify=verify), progress)

    return NamedTransfer(str(request.alias), str(request.remote), move)


def _requests(project: app.Opened, texts: Sequence[str], name: str | None) -> list[PullRequest]:
    """Return what texts mean: datasets elsewhere, and those of the workspace that came from there.

    Raises UsageRefusedError, NoOriginError, NameNeededError.
    """
    from odfbuild.app.sharing.references import known_as, pull_of, pull_of_known, remote_of
    from odfbuild.state.memory.origins import origins

    if not texts:
        known = origins(project.workspace)
        aliases = project.workspace.aliases()
        return [
            pull_of_known(project, aliases[id])
            for id in sorted(known, key=lambda each: aliases[each])
            if known[id].pull is not None
        ]
    found: list[PullRequest] = []
    selectors: list[str] = []
    for text in texts:
        if (alias := known_as(project, text)) is not None:
            found.append(pull_of_known(project, alias))
            continue
        remote = remote_of(project, text)
        if remote is None:
            selectors.append(text)
        else:
            found.append(pull_of(project, text, remote, name))
    if name is not None and (len(texts) != 1 or selectors):
        raise UsageRefusedError(
            what="--as: there are several datasets, or the dataset has a name already",
            why="--as names a single dataset that is new here",
            fix="name one remote dataset: odfbuild pull REPOSITORY/NAME --as NAME; odfbuild mv "
            "renames existing ones",
        )
    if selectors:
        chosen = chosen_existing(project, selectors)
        found += [pull_of_known(project, alias) for alias in sorted(chosen)]
    return found
