"""Commits of an ingest: engine, slice, events, commit.

preprocess and merge (the engine) -> seal -> commit.  All that comes before, fetching or being
given, ends in an `Intake`; from there on every kind of source is the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from odfbuild.errors import Diagnostic, EngineError, InvalidQueryError, Level
from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.retractions import check_retractions
from odfbuild.executors.data.seal import (
    NullValuesError,
    Sealed,
    SealedSlice,
    schema_events,
    seal,
    staged_files,
)
from odfbuild.executors.engine.context import Round, Site, gate_findings
from odfbuild.executors.engine.cut_times import (
    check_added_keys,
    check_read_keys,
    times_cut,
)
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.ingest.history import condense, history
from odfbuild.executors.ingest.read.bad_rows_report import reported_notes
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.executors.ingest.read.system_columns import renamed_columns
from odfbuild.executors.ingest.reports.event_times import TimelessRows
from odfbuild.executors.ingest.reports.merged import MergedRows, found_of
from odfbuild.executors.ingest.reports.recorded_keys import RecordedRows, recorded_keys
from odfbuild.executors.ingest.reports.repeated_keys import check_repeated_keys, keyless_rows
from odfbuild.odf.chain.partial_inputs import PUSH_ID, is_partial, partial_state
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    MetadataEvent,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.merge_strategies import key_of, only_adds, records_operations
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.columns import SchemaEvolutionError
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.ingest.fetch.late_files import ReadingNote

Source: TypeAlias = SetPollingSource | AddPushSource

_FIRST = Timestamp.parse("0001-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What one input brings: its name for people, its rows, and what to remember of it.

    `frame` is None if nothing in the input could be read as rows; `event_time` is for rows that
    have none; `state` is what the chain knows of the source from now on, None for no change.
    `goes_on` tells that another input follows without which this one does not count.
    `notes` is what the reader told beyond the rows, `found` are warnings of the file.  `noting`
    is stored with the state that has the rows before that becomes the head, or if there is none,
    with the head.  `place` is the engine that read and merged it, None if that was done here.
    """

    name: str
    frame: Frame | None
    event_time: Timestamp
    state: SourceState | None
    notes: ReadNotes | None = None
    found: tuple[Diagnostic, ...] = ()
    noting: "ReadingNote | None" = None
    goes_on: bool = False
    place: str | None = None


_OF_ROWS: Final = frozenset({"merge-input", NullValuesError.code, InvalidChangelogError.code})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The dataset, the state that it is merged into, its source, the system time of the commit.

    `source_name` is the source's name in the chain's source states.
    """

    site: Site
    dataset: Dataset
    state: ChainState
    source: Source
    source_name: str
    now: Timestamp
    options: IngestOptions = AS_USUAL


@dataclass(frozen=True, slots=True)
class InputCommit:
    """The state that an input left, and what was done; None if nothing moved."""

    state: ChainState
    round: Round | None


def add(receiver: Receiver, intake: Intake, staging: Path) -> InputCommit:
    """Commit an input to the receiver's state.

    It is one AddData, or several if its rows are many: `Site.slice_rows`.  `staging` is a folder
    in the workspace for files on their way.  Raises the errors of the engine,
    of sealing and of the commit; the chain is untouched then.
    """
    if intake.frame is None:
        return _store(receiver, intake, None, staging)
    _check_as_read(receiver, intake)
    request = _request(receiver, intake.frame, staging)
    try:
        merged = receiver.site.engine.ingest(request)
        done = _store(receiver, intake, _found(receiver, intake, merged), staging)
    except EngineError as error:
        say_where(error, intake.name)
        raise
    condense(receiver.site, receiver.dataset, done.state, request)
    return done


def add_merged(
    receiver: Receiver, intake: Intake, merged: MergedRows, staging: Path
) -> InputCommit:
    """Commit an input that was read and merged elsewhere, as `add` does."""
    try:
        return _store(receiver, intake, merged, staging)
    except EngineError as error:
        say_where(error, intake.name)
        raise


def _found(receiver: Receiver, intake: Intake, merged: Frame) -> MergedRows:
    """Return the rows that a merge made of an input, with what is found of them."""
    assert intake.frame is not None  # noqa: S101 - it was merged
    source = receiver.source
    return found_of(
        intake.frame,
        merged,
        merge=source.merge,
        preprocess=source.preprocess,
        event_time=receiver.state.vocab.event_time_column,
        name=intake.name,
    )


def say_where(error: EngineError, name: str) -> None:
    """Name the input with whose rows something is wrong; a query has its own place in `what`."""
    if error.code in _OF_ROWS:
        error.what = f"{error.what}, in {name}"
    elif isinstance(error, InvalidQueryError):
        error.why = f"{error.why}; the input is {name}"


def add_together(
    receiver: Receiver, intakes: Sequence[Intake], staging: Path
) -> Iterator[InputCommit]:
    """Commit inputs in order, each as `add` would, after one call of the engine for all of them.

    They have rows that may go together (`ingest.poll`).  What the engine raises comes before
    the first commit.  Each commit is one to the state that the commit before it left: the merge
    counts on that, so a chain that anybody else changed in between is refused.
    """
    frames = [intake.frame for intake in intakes if intake.frame is not None]
    request = _request(receiver, frames[0], staging)
    merged = receiver.site.engine.ingest_together(request, frames)
    for intake, rows in zip(intakes, merged, strict=True):
        _check_as_read(receiver, intake)
        added = _store(receiver, intake, _found(receiver, intake, rows), staging)
        receiver = replace(receiver, state=added.state)
        yield added
    condense(receiver.site, receiver.dataset, receiver.state, request)


def _store(
    receiver: Receiver, intake: Intake, merged: MergedRows | None, staging: Path
) -> InputCommit:
    """Commit what the engine made of an input."""
    state = receiver.state
    repeated = () if merged is None else _repeated_key_notes(receiver, merged)
    sealed = None if merged is None else _slice(receiver, intake, merged.rows, staging)
    cut = () if sealed is None else sealed.cut
    check_added_keys(receiver.source.merge, cut, intake.name)
    # of what was merged here, all other strategies take back what is there
    is_unproven = records_operations(receiver.source.merge) or intake.place is not None
    if sealed is not None and is_unproven:
        check_retractions(receiver.dataset, receiver.state, sealed)
    events = _events(receiver, sealed, intake)
    recorded = () if merged is None else _recorded_key_notes(receiver, intake, merged)
    recorded = tuple(each for each in recorded if events or each.level is Level.WARNING)
    keyless = () if merged is None else _keyless(receiver, intake, merged)
    timeless = () if merged is None else _timeless(receiver, intake, merged, events)
    renamed = _renamed_column_notes(receiver, intake, merged) if events else ()
    found = gate_findings(receiver.site, receiver.dataset.id, receiver.state, sealed, intake.name)
    with reported_notes(
        intake.notes,
        workspace=receiver.site.workspace,
        dataset=receiver.dataset.id,
        source=receiver.source,
        name=intake.name,
        now=receiver.now,
    ) as noted:
        head = None
        if events:
            prepared = CommitRequest(events, receiver.now, staged_files(sealed))
            noting = None if intake.noting is None else intake.noting.of_rows
            state = receiver.dataset.commit(prepared, on=receiver.state, noting=noting)
            head = state.head
        elif intake.noting is not None:
            intake.noting.of_nothing(state)
    found = (
        *intake.found,
        *times_cut(intake.name, cut),
        *timeless,
        *renamed,
        *repeated,
        *recorded,
        *keyless,
        *found,
    )
    noted = replace(noted, checks=(*noted.checks, *found)) if found else noted
    if not events and not noted:
        return InputCommit(state, None)
    rows = 0 if sealed is None else sealed.records
    done = Round(intake.name, len(events), rows, noted, head=head, place=intake.place)
    return InputCommit(state, done)


def _check_as_read(receiver: Receiver, intake: Intake) -> None:
    """Check that no key was cut as the input was read.  Raises FineKeyError."""
    if intake.frame is None or intake.notes is None:
        return
    source, cut = receiver.source, tuple(intake.notes.fine_times.first.values())
    check_read_keys(source.merge, source.preprocess, intake.frame.schema, cut, intake.name)


def _repeated_key_notes(receiver: Receiver, merged: MergedRows) -> tuple[Diagnostic, ...]:
    """Return what to tell of keys that an input holds several times.  Raises RepeatedKeyError."""
    return check_repeated_keys(merged.findings.repeated, receiver.options.repeated_keys)


def _keyless(receiver: Receiver, intake: Intake, merged: MergedRows) -> tuple[Diagnostic, ...]:
    return keyless_rows(receiver.source.merge, merged.rows, intake.name)


def _recorded_key_notes(
    receiver: Receiver, intake: Intake, merged: MergedRows
) -> tuple[Diagnostic, ...]:
    """Return what to report of rows that were left out, as their keys are recorded."""
    merge, found = receiver.source.merge, merged.findings.left_out
    in_force = schema_in_force(receiver.state)
    if found is None:
        return ()

    dataset, head = receiver.dataset, receiver.state.head
    past = None
    if in_force is not None:
        dated = receiver.state.vocab.event_time_column
        past = RecordedRows(dataset, head, to_arrow(in_force), dated)
    return (recorded_keys(found, key_of(merge), past, intake.name),)


def _timeless(
    receiver: Receiver, intake: Intake, merged: MergedRows, events: Sequence[MetadataEvent]
) -> tuple[Diagnostic, ...]:
    """Return what to report of rows without an event time, where the input has a column of it."""
    column = receiver.state.vocab.event_time_column
    found = TimelessRows.among(merged.rows, column) if merged.findings.gives_time else None
    if found is None:
        return ()
    marks = [each.new_watermark for each in events if isinstance(each, AddData)]
    whose = "this run" if intake.event_time == receiver.now else "the source"
    number = merged.findings.timeless_row
    time = f"{intake.event_time}, the time of {whose}"
    return (found.report(intake.name, number, time, marks[-1] if marks else None),)


def _renamed_column_notes(
    receiver: Receiver, intake: Intake, merged: MergedRows | None
) -> tuple[Diagnostic, ...]:
    """Return what to report of columns that are called as system columns are."""
    if merged is None or _declares(receiver.source):
        return ()
    state, merge = receiver.state, receiver.source.merge
    known, names = schema_in_force(state), merged.findings.columns
    return tuple(renamed_columns(names, state.vocab, merge, known, intake.name))


def retires(source: Source) -> bool:
    """Tell whether a column that a round lacks is one that the definition gave up.

    The columns of a source that declares none are those of its files.  A merge that
    compares rows with those of the history, or takes them back, needs all their columns.
    """
    return _declares(source) and only_adds(source.merge)


def _declares(source: Source) -> bool:
    """Tell whether the columns are those of a definition, and not those of the data."""
    declared = source.read.ddl_schema or source.read.schema or source.preprocess
    return declared is not None


def _slice(receiver: Receiver, intake: Intake, merged: Frame, staging: Path) -> Sealed:
    try:
        return _seal_rows(receiver, intake, merged, staging)
    except SchemaEvolutionError as error:
        if _declares(receiver.source):
            raise
        raise error.of_data(intake.name) from None
    except InvalidChangelogError as error:
        if not records_operations(receiver.source.merge):
            raise
        raise error.of_source(key_of(receiver.source.merge)) from None


def _seal_rows(receiver: Receiver, intake: Intake, merged: Frame, staging: Path) -> Sealed:
    state = receiver.state
    return seal(
        merged,
        vocab=state.vocab,
        system_time=receiver.now,
        event_time=intake.event_time,
        start=state.next_offset,
        in_force=schema_in_force(state),
        into=staging / "slice.parquet",
        retires=retires(receiver.source),
        slice_rows=receiver.site.slice_rows,
        spread=None if intake.place is not None else receiver.site.engine.spread,
    )


def _request(receiver: Receiver, frame: Frame, staging: Path) -> IngestRequest:
    source, state = receiver.source, receiver.state
    declared = source.read.ddl_schema or source.read.schema
    return IngestRequest(
        source=frame,
        preprocess=source.preprocess,
        merge=source.merge,
        vocab=state.vocab,
        history=history(receiver.site, receiver.dataset, state, source.merge),
        in_force=schema_in_force(state),
        staging=staging,
        infer=declared is None and source.preprocess is None,
    )


def _events(receiver: Receiver, sealed: Sealed | None, intake: Intake) -> tuple[MetadataEvent, ...]:
    """Return the blocks of an input; none if neither data, watermark nor source state moved."""
    state = receiver.state
    known = state.source_state.get(receiver.source_name)
    if known is not None and known.kind == PUSH_ID:
        known = None  # it is of the push that had it, and of no other
    partial = partial_state(receiver.source_name)
    left = partial if intake.goes_on else intake.state or known
    slices = () if sealed is None else sealed.slices
    events = schema_events(state, sealed)
    is_left = left == known and not is_partial(state.last_add_data)
    if not slices and (intake.goes_on or is_left):
        return events
    lag = receiver.options.watermark_lag
    return (*events, *_data_blocks(state, slices, partial, left, lag))


def _data_blocks(
    state: ChainState,
    slices: Sequence[SealedSlice],
    partial: SourceState,
    left: SourceState | None,
    lag: int,
) -> Iterator[AddData]:
    """Yield a block for each slice, or one without; only the last has the state that is left."""
    offset, watermark = state.last_offset, state.watermark
    for each in slices or (None,):
        watermark = watermark if each is None else _later(watermark, each.watermark, lag)
        yield AddData(
            prev_checkpoint=state.checkpoint,
            prev_offset=offset,
            new_data=None if each is None else each.data,
            new_watermark=watermark,
            new_source_state=left if each is None or each is slices[-1] else partial,
        )
        offset = offset if each is None else each.data.offset_interval.end


def _later(known: Timestamp | None, latest: Timestamp, lag: int) -> Timestamp:
    """Return the watermark after rows up to `latest`, from which it stays `lag` milliseconds away.

    It never goes back, also where the lag grew, and not beyond the first instant that there is.
    """
    behind = max(Timestamp(latest.nanos - lag * 1_000_000), _FIRST)
    return behind if known is None else max(known, behind)
