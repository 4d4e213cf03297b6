"""Pulls: datasets of repositories brought into the workspace of a project."""

from dataclasses import replace

from odfbuild.app.sharing.judging import RepositoryJudge
from odfbuild.app.sharing.references import PullRequest
from odfbuild.app.sharing.verification import VerifyLevel, verify_arrival
from odfbuild.project.opened import Opened
from odfbuild.repositories.intake import Arrival
from odfbuild.repositories.transfer import (
    TransferListener,
    TransferMode,
    TransferNames,
    Transferred,
    pull,
)
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.disabled import mark_of
from odfbuild.state.memory.origins import note_pull
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMode:
    """How datasets are pulled; `verify` says what is looked at beyond rules and hashes."""

    transfer: TransferMode
    verify: VerifyLevel = "hashes"


def pull_dataset(
    project: Opened,
    request: PullRequest,
    mode: PullMode,
    listener: TransferListener | None = None,
) -> Transferred:
    """Pull a dataset, and remember where it came from.

    A source that came along is not used until the user says so, unless the dataset's key is here.
    Raises what `pull` of `repositories.transfer` raises, and what `verify_arrival` does.
    """
    workspace, remote = project.workspace, request.remote
    judge = RepositoryJudge(remote.settings, forced=mode.transfer.force)
    known = workspace.open(request.alias)
    state = None if known is None else known.state()
    before = None if state is None or state.polling is None else mark_of(state.polling)

    def check(arrival: Arrival, here: Dataset | None) -> None:
        verify_arrival(project, arrival, here, str(remote), mode.verify)
        bar_source(project, arrival, before)

    with remote.reading() as source:
        found = pull(
            workspace,
            source,
            request.alias,
            judge=judge,
            expected=remote.expected,
            mode=mode.transfer,
            listener=listener,
            check=check,
            is_named=request.is_named,
            names=TransferNames(str(request.alias), str(remote)),
        )
    if not mode.transfer.dry_run:
        note_pull(workspace, found.dataset, request.text)
    return replace(found, notes=tuple(judge.notes))


def bar_source(project: Opened, arrival: Arrival, before: str | None) -> None:
    """Have a source that is new not used: it would run programs, and fetch from servers."""
    source, id = arrival.state.polling, arrival.dataset
    if source is None or mark_of(source) == before or project.workspace.keys.has(id):
        return
    project.workspace.disable(id, source)
