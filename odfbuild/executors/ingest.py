"""Ingest: poll a source, round by round, each round one commit of one slice.

fetch -> prepare -> read -> add.  A round that fails leaves the rounds before it, and the chain
untouched by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.executors.adding import Intake, Receiver, add
from odfbuild.executors.besides import besides_of
from odfbuild.executors.fetch import Fetched, UpToDate, fetch
from odfbuild.executors.local import SOURCE_NAME
from odfbuild.executors.part import sweep
from odfbuild.executors.prepare import PipeError, Surroundings, prepare
from odfbuild.executors.readers import read
from odfbuild.executors.report import Round
from odfbuild.executors.settled import is_settled
from odfbuild.executors.site import Site
from odfbuild.odf.events import SetPollingSource
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.planner.policy import AS_USUAL, IngestOptions
from odfbuild.state.dataset import Dataset

__all__ = ["ingest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polling:
    """One round: who receives, from which source, and where its downloads are kept."""

    receiver: Receiver
    source: SetPollingSource
    folder: Path


def ingest(
    site: Site,
    dataset: Dataset,
    done: Callable[[Round], None],
    options: IngestOptions = AS_USUAL,
) -> None:
    """Poll the dataset's source until it has nothing new; `done` hears of every commit.

    Raises UnsupportedVariantError for a source of a newer version of the format, and the errors of
    fetching, reading, the engine and the commit; earlier rounds stand.
    """
    folder = site.workspace.cache / "fetch" / dataset.id.multibase
    more = True
    while more:
        state = dataset.state()
        if state is None or state.polling is None:
            return
        refuse_opaque(state.polling)
        receiver = Receiver(
            site=site,
            dataset=dataset,
            state=state,
            source=state.polling,
            source_name=SOURCE_NAME,
            now=max(site.clock(), state.system_time),
            options=options,
        )
        more = _round(_Polling(receiver=receiver, source=state.polling, folder=folder), done)


def _round(polling: _Polling, done: Callable[[Round], None]) -> bool:
    """Do one round; say whether the source has more."""
    if is_settled(polling.receiver.dataset, polling.source.fetch):
        return False
    fetched = _fetch(polling)
    if isinstance(fetched, UpToDate):
        sweep(polling.folder)
        return False
    try:
        _take_in(polling, fetched, done)
    except OdfBuildError as error:
        _keep(fetched, error, polling.folder)
        raise
    sweep(polling.folder)
    return fetched.has_more


def _keep(fetched: Fetched, error: OdfBuildError, folder: Path) -> None:
    """Say where the cache has what the user may want to look at; the next success sweeps it."""
    kept = [fetched.path] if fetched.temporary else []
    if isinstance(error, PipeError) and error.said:
        folder.mkdir(parents=True, exist_ok=True)
        kept.append(folder / "stderr.txt")
        kept[-1].write_bytes(error.said)
    if kept:
        error.fix += f"; kept for a look: {' and '.join(map(str, kept))}"


def _take_in(polling: _Polling, fetched: Fetched, done: Callable[[Round], None]) -> None:
    """Read what was fetched, and add it."""
    receiver = polling.receiver
    with receiver.site.workspace.staging() as staging:
        added = add(receiver, _intake(polling, fetched, staging), staging)
    if added is not None:
        done(added)


def _intake(polling: _Polling, fetched: Fetched, staging: Path) -> Intake:
    source, receiver = polling.source, polling.receiver
    if fetched.is_empty:
        return Intake(name=fetched.name, frame=None, event_time=receiver.now, state=fetched.state)
    around = Surroundings(receiver.site.project_dir, receiver.site.env)
    path = prepare(source.prepare or (), fetched.path, staging, name=fetched.name, around=around)
    besides = besides_of(receiver.options, fetched.name, staging)
    return Intake(
        name=fetched.name,
        frame=read(source.read, path, staging=staging, name=fetched.name, besides=besides),
        event_time=fetched.event_time or receiver.now,
        state=fetched.state,
        besides=besides,
    )


def _fetch(polling: _Polling) -> Fetched | UpToDate:
    receiver = polling.receiver
    return fetch(
        polling.source.fetch,
        receiver.state.source_state.get(SOURCE_NAME),
        now=receiver.now,
        project_dir=receiver.site.project_dir,
        cache=polling.folder,
        env=receiver.site.env,
    )
