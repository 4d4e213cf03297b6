"""Ingest: poll a source, round by round, each round one commit of one slice.

fetch -> prepare -> read -> preprocess and merge (the engine) -> seal -> commit.  A round that fails
leaves the rounds before it, and the chain untouched by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine import IngestRequest
from odfbuild.executors.fetch import Fetched, UpToDate, fetch
from odfbuild.executors.frames import Frame
from odfbuild.executors.local import SOURCE_NAME
from odfbuild.executors.part import sweep
from odfbuild.executors.prepare import PipeError, Surroundings, prepare
from odfbuild.executors.readers import read
from odfbuild.executors.report import Round
from odfbuild.executors.settled import is_settled
from odfbuild.executors.site import Site
from odfbuild.executors.slices import Sealed, seal
from odfbuild.executors.staged import schema_events, staged_files
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import (
    AddData,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MetadataEvent,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.dataset import Dataset
from odfbuild.state.prepared import Prepared

__all__ = ["ingest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polling:
    """One round: the dataset as it stands, its source, the system time of the round."""

    site: Site
    dataset: Dataset
    state: ChainState
    source: SetPollingSource
    now: Timestamp


def ingest(site: Site, dataset: Dataset, done: Callable[[Round], None]) -> None:
    """Poll the dataset's source until it has nothing new; `done` hears of every commit.

    Raises UnsupportedVariantError for a source of a newer version of the format, and the errors of
    fetching, reading, the engine and the commit; earlier rounds stand.
    """
    more = True
    while more:
        state = dataset.state()
        if state is None or state.polling is None:
            return
        refuse_opaque(state.polling)
        now = max(site.clock(), state.system_time)
        polling = _Polling(site=site, dataset=dataset, state=state, source=state.polling, now=now)
        more = _round(polling, done)


def _round(polling: _Polling, done: Callable[[Round], None]) -> bool:
    """Do one round; say whether the source has more."""
    folder = polling.site.workspace.cache / "fetch" / polling.dataset.id.multibase
    if is_settled(polling.dataset, polling.source.fetch):
        return False
    fetched = _fetch(polling, folder)
    if isinstance(fetched, UpToDate):
        sweep(folder)
        return False
    try:
        _take_in(polling, fetched, done)
    except OdfBuildError as error:
        _keep(fetched, error, folder)
        raise
    sweep(folder)
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
    """Make a slice of what was fetched, and commit it."""
    with polling.site.workspace.staging() as staging:
        sealed = _slice(polling, fetched, staging)
        events = _events(polling.state, sealed, fetched.state)
        if events:
            prepared = Prepared(events, polling.now, staged_files(sealed))
            polling.dataset.commit(prepared, expected=polling.state.head)
            done(Round(fetched.name, len(events), 0 if sealed is None else sealed.records))


def _fetch(polling: _Polling, folder: Path) -> Fetched | UpToDate:
    return fetch(
        polling.source.fetch,
        polling.state.source_state.get(SOURCE_NAME),
        now=polling.now,
        project_dir=polling.site.project_dir,
        cache=folder,
        env=polling.site.env,
    )


def _slice(polling: _Polling, fetched: Fetched, staging: Path) -> Sealed | None:
    """Make the slice of one round; None if the source gave nothing that could be read."""
    source, state = polling.source, polling.state
    around = Surroundings(polling.site.project_dir, polling.site.env)
    path = prepare(source.prepare or (), fetched.path, staging, name=fetched.name, around=around)
    frame = read(source.read, path, staging=staging, name=fetched.name)
    if frame is None:
        return None
    return seal(
        polling.site.engine.ingest(_request(polling, frame, staging)),
        vocab=state.vocab,
        system_time=polling.now,
        event_time=fetched.event_time or polling.now,
        start=state.next_offset,
        in_force=schema_in_force(state),
        into=staging / "slice.parquet",
        retires=retires(source),
    )


def retires(source: SetPollingSource) -> bool:
    """Tell whether a column that a round lacks is one that the definition gave up.

    The columns of a source that declares none are those of its files.  Snapshot and UpsertStream
    compare rows with those of the history, and take them back as ChangelogStream does: whole, so
    these must have all columns.
    """
    declared = source.read.ddl_schema or source.read.schema or source.preprocess
    keeps_rows = isinstance(source.merge, MergeStrategyAppend | MergeStrategyLedger)
    return declared is not None and keeps_rows


def _request(polling: _Polling, frame: Frame, staging: Path) -> IngestRequest:
    source, state = polling.source, polling.state
    declared = source.read.ddl_schema or source.read.schema
    return IngestRequest(
        source=frame,
        preprocess=source.preprocess,
        merge=source.merge,
        vocab=state.vocab,
        history=tuple(path for _, path in polling.dataset.slices(upto=state.head)),
        in_force=schema_in_force(state),
        staging=staging,
        infer=declared is None and source.preprocess is None,
    )


def _events(
    state: ChainState, sealed: Sealed | None, fetched: SourceState | None
) -> tuple[MetadataEvent, ...]:
    """Return the blocks of a round; none if neither data, watermark nor source state moved."""
    known = state.source_state.get(SOURCE_NAME)
    source_state = fetched or known
    piece = None if sealed is None else sealed.slice
    watermark = _watermark(state, sealed)
    events = schema_events(state, sealed)
    if piece is None and watermark == state.watermark and source_state == known:
        return events
    added = AddData(
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_data=piece,
        new_watermark=watermark,
        new_source_state=source_state,
    )
    return (*events, added)


def _watermark(state: ChainState, sealed: Sealed | None) -> Timestamp | None:
    """Return the greatest event time so far: a watermark never goes back."""
    if sealed is None or sealed.watermark is None:
        return state.watermark
    return sealed.watermark if state.watermark is None else max(sealed.watermark, state.watermark)
