"""One step of a derivative dataset: bind the inputs, run the query, seal the result, commit.

The step reads what the inputs gained since the recorded blocks, and no more.  Inputs that brought
nothing cut it off before any engine starts (ODF 0.34.1, "ExecuteTransform").
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from odfbuild.errors import Diagnostic, StateError
from odfbuild.executors.data.checks.verified_files import ITSELF, data_files, slices_upto
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.retractions import check_retractions
from odfbuild.executors.data.seal import Sealed, schema_events, seal, staged_files
from odfbuild.executors.engine.context import InputNotes, Round, Site, StepEngine, gate_findings
from odfbuild.executors.engine.cut_times import times_cut
from odfbuild.executors.engine.protocol import (
    EngineVersionError,
    TransformInputFrame,
    TransformWork,
    engine_version,
    query_input,
)
from odfbuild.executors.transform.checkpoint import (
    NEW,
    PreviousCheckpoint,
    checkpoint_of_step,
    previous,
    staged_checkpoint,
)
from odfbuild.executors.transform.continuity import check_earlier_rows, unbroken
from odfbuild.executors.transform.input_columns import accepted_schemas, check_inputs
from odfbuild.executors.transform.stored_files import StoredStepFiles
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import (
    Checkpoint,
    DataSchema,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.query_change import is_other_version
from odfbuild.planner.diff.restate import restated, restates
from odfbuild.planner.evolution.columns.inputs import input_schema
from odfbuild.planner.intervals import BoundInput, PendingInput, TransformBatch, bind
from odfbuild.planner.staleness import InputNow, diverged, why_stale
from odfbuild.sql.query import Query, QueryInput
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.heads import until_committed
from odfbuild.state.memory.empty_steps import keep_empty_step
from odfbuild.values import dataclass

FilesOf = Callable[[Dataset, Sequence[DataSlice], str], tuple[Path, ...]]
SlicesUpto = Callable[[Dataset, Multihash | None], Sequence[DataSlice]]


@dataclass(frozen=True, slots=True)
class StepSource:
    """An input of a step, and where its chain stood when the step read it."""

    dataset: Dataset
    state: ChainState


def transform(site: Site, dataset: Dataset, done: Callable[[Round], None]) -> ChainState | None:
    """Run the dataset's transform over what its inputs gained; commit at most one slice.

    A step that loses the race for the head is run again on the new one.  Returns the state that the
    commit left, None without a commit.  Raises DivergedInputError when an input was rewritten, and
    the engine's and commit's errors.
    """
    return until_committed(lambda: _attempt(site, dataset, done))


def _attempt(site: Site, dataset: Dataset, done: Callable[[Round], None]) -> ChainState | None:
    state = dataset.state()
    if state is None or state.transform is None:
        return None
    refuse_opaque(state.transform)
    opened = _open_inputs(site, state.transform)
    name = partial(_name, site, dataset)
    pending = [_pending(state, alias, each, name) for alias, each in opened]
    batch = bind(state, pending)
    if batch is None:
        _keep_empty(site, state, pending)
        return None
    _refuse_version(name, state.transform.transform)
    now = _system_time(site, state, pending)
    with site.workspace.staging() as staging:
        sealed, work, place = None, None, None
        inputs = [each for _, each in opened]
        query = step_query(state, batch, inputs)
        if needs_engine(state, batch, query):
            make = partial(step_work, query, dataset, state, batch, inputs, staging, name=name)
            place, engine, work = _engine_of_step(site, dataset, make)
            sealed = execute(engine, state, work, now)
            check_earlier_rows(dataset, state, work, sealed, name)
            if work.query.facts.names_op:  # then nothing else proves its operations right
                check_retractions(dataset, state, sealed)
        checkpoint = checkpoint_of_step(state, work)
        events = _events(state, batch, sealed, checkpoint)
        if not events:
            _keep_empty(site, state, pending)
            return None
        names = ", ".join(each.alias for each in batch.inputs if each.slices)
        cut = () if sealed is None else _cut(sealed, name)
        notes = InputNotes(checks=(*cut, *gate_findings(site, dataset.id, state, sealed, names)))
        files = (*staged_files(sealed), *staged_checkpoint(work, checkpoint))
        left = dataset.commit(CommitRequest(events, now, files), on=state)
        records, read = (0, None) if sealed is None else (sealed.records, sealed.read)
        done(Round(names, len(events), records, notes, read, left.head, place))
        return left


def _cut(sealed: Sealed, name: Callable[[], str]) -> tuple[Diagnostic, ...]:
    return times_cut(f"the result of {name()}", sealed.cut) if sealed.cut else ()


def _engine_of_step(
    site: Site, dataset: Dataset, make: Callable[..., TransformWork]
) -> tuple[str | None, StepEngine, TransformWork]:
    """Return what carries out a step, with its name if that is elsewhere, and the work that `make`
    makes: with its files here, unless they are in a store and read there.
    """
    target = None if site.placement is None else _alias(site, dataset)
    if site.placement is None or target is None:
        return None, site.engine, make()
    named = StoredStepFiles()
    work = make(files=named.of, checkpoint=named.checkpoint)
    placed = site.placement.place(target, replace(work, stored=named.stored))
    if placed is None:
        return None, site.engine, make() if named.stored else work
    name, engine = placed
    if engine.reads_store:
        return name, engine, replace(work, stored=named.stored)
    return name, engine, make() if named.stored else work


def _system_time(site: Site, state: ChainState, inputs: Sequence[PendingInput]) -> Timestamp:
    """Return the time of a step: never before the block it follows, nor before those it reads.

    Inputs may have been written by machines whose clocks are ahead of this one.  System times are
    ordered within a dataset, and between it and what it is made of (ODF 0.34.1, "System Time").
    """
    return max(site.clock(), state.system_time, *(each.now.state.system_time for each in inputs))


def _keep_empty(site: Site, state: ChainState, inputs: Sequence[PendingInput]) -> None:
    """Remember that a step changes nothing while its inputs are where they are, if one is due."""
    if state.transform is not None and why_stale(state, [each.now for each in inputs]):
        heads = {each.now.state.dataset: each.now.state.head for each in inputs}
        engine = engine_version(state.transform.transform.engine) or ""
        root = site.workspace.root
        keep_empty_step(root, state.dataset, {state.dataset: state.head, **heads}, engine)


def step_query(state: ChainState, batch: TransformBatch, inputs: Sequence[StepSource]) -> Query:
    """Return the query of a step, whose inputs have no columns yet.

    `state` is that before the step.
    """
    if state.transform is None:
        raise ValueError("a step without a transform")
    named = (
        QueryInput(bound.alias, None, source.state.vocab)
        for bound, source in zip(batch.inputs, inputs, strict=True)
    )
    return Query.of(state.transform.transform, named, state.vocab)


def needs_engine(state: ChainState, batch: TransformBatch, query: Query) -> bool:
    """Tell whether a step may bring rows, or the first schema; `state` is that before the step.

    A watermark that moved brings rows by itself if they waited for it.
    """
    expected = batch.has_records or state.schema is None or restates(state)
    return expected or query.waits


def execute(engine: StepEngine, state: ChainState, work: TransformWork, now: Timestamp) -> Sealed:
    """Run one step and seal its result; `state` is the output as it was before the step.

    Raises LostDataError before anything runs, and the engine's errors.
    """
    check_inputs(work)
    return seal(
        _bound_columns(engine.transform(work), state),
        vocab=state.vocab,
        system_time=now,
        event_time=now,
        start=state.next_offset,
        in_force=schema_in_force(state),
        into=work.staging / "slice.parquet",
        retires=True,
    )


def step_work(
    query: Query,
    output: Dataset,
    state: ChainState,
    batch: TransformBatch,
    inputs: Sequence[StepSource],
    staging: Path,
    slices: SlicesUpto = slices_upto,
    files: FilesOf = data_files,
    name: Callable[[], str] = lambda: "NAME",
    checkpoint: PreviousCheckpoint = previous,
) -> TransformWork:
    """Return what the engine works on; all that was before only for a query that looks at it.

    `query` is that of the step, `state` the output as it was before it, `slices` gives the slices
    of a dataset up to a block, `files` their files, `name` that of the output, `checkpoint` that
    of the step before.  Raises DivergedInputError for an input without a schema,
    LostCheckpointError, LostDataError, DamagedDataError.
    """
    sources = [(each.dataset, each.state) for each in inputs]
    known = accepted_schemas(query, output, state, sources)
    schemas = [
        known.get(source.dataset.id) or _schema(bound, source)
        for bound, source in zip(batch.inputs, inputs, strict=True)
    ]
    query = query.over(
        query_input(bound.alias, schema, source.state.vocab)
        for bound, source, schema in zip(batch.inputs, inputs, schemas, strict=True)
    )
    in_full = restates(state)
    looks_back = in_full or not query.facts.is_linear
    frames = tuple(
        _frame(
            bound,
            source,
            _read_slices(source, recorded, slices) if looks_back else (),
            schema,
            files,
        )
        for bound, source, recorded, schema in zip(
            batch.inputs, inputs, batch.query_inputs, schemas, strict=True
        )
    )
    work = TransformWork(inputs=frames, query=query, vocab=state.vocab, staging=staging)
    if not looks_back:
        return work
    kept = query.accumulators is not None
    work = replace(
        work,
        checkpoint=checkpoint(output, state, name) if kept else None,
        new_checkpoint=staging / NEW if kept else None,
        output=files(output, slices(output, state.head), ITSELF),
        in_force=schema_in_force(state),
        watermark=batch.watermark,
        watermark_before=state.watermark,
        in_full=in_full,
    )
    return replace(work, unbroken=unbroken(work, output, state))


def _bound_columns(frame: Frame, state: ChainState) -> Frame:
    """Leave out columns that inputs gained after the query in force was accepted (`select *`)."""
    schema = schema_in_force(state)
    if schema is None or state.transform_is_new:
        return frame
    known = {field.name for field in schema.fields}
    return frame.select([name for name in frame.schema.names if name in known])


def _name(site: Site, dataset: Dataset) -> str:
    found = _alias(site, dataset)
    return "NAME" if found is None else str(found)


def _alias(site: Site, dataset: Dataset) -> DatasetAlias | None:
    named = (name for name, id in site.workspace.names().items() if id == dataset.id)
    return next(named, None)


def _refuse_version(name: Callable[[], str], sql: TransformSql) -> None:
    installed = engine_version(sql.engine)
    if installed is None or not is_other_version(sql, installed):
        return
    raise EngineVersionError(
        what=f"the query is for {sql.engine} {sql.version}, and {installed} is installed",
        why=(
            "another version may give other rows, and verification could not explain the difference"
        ),
        fix=f"odfbuild engine upgrade {name()} checks whether it gives the same rows, and "
        f"continues with it if so; odfbuild rebuild {name()} makes all rows with it; or install "
        "the other version",
    )


def _open_inputs(site: Site, transform: SetTransform) -> list[tuple[str, StepSource]]:
    opened = []
    for source in transform.inputs:
        dataset = site.workspace.find(source.dataset_ref)
        state = None if dataset is None else dataset.state()
        if dataset is None or state is None:
            raise StateError(
                what=f"the input {source.dataset_ref} is not in the workspace",
                why="a transform reads the chains of its inputs",
                fix="declare the input in the project and apply again",
            )
        opened.append((input_name(source), StepSource(dataset, state)))
    return opened


def _pending(
    output: ChainState, alias: str, source: StepSource, name: Callable[[], str]
) -> PendingInput:
    state = source.state
    before = output.progress.get(state.dataset)
    after = None if before is None else before.new_block_hash
    try:
        blocks = tuple(source.dataset.blocks(after=after, upto=state.head))
    except NotInChainError:
        raise diverged(alias, "no longer holds the block that was read last", name()) from None
    return PendingInput(InputNow(alias, state), blocks)


def _schema(bound: BoundInput, source: StepSource) -> DataSchema:
    schema = input_schema(source.state)
    if schema is None:
        raise diverged(bound.alias, "has lost its schema")
    return schema


def _frame(
    bound: BoundInput,
    source: StepSource,
    past: Sequence[DataSlice],
    schema: DataSchema,
    files: FilesOf,
) -> TransformInputFrame:
    owner = f"the input {bound.alias}"
    return TransformInputFrame(
        alias=bound.alias,
        paths=files(source.dataset, bound.slices, owner),
        interval=bound.interval,
        schema=schema,
        vocab=source.state.vocab,
        past=files(source.dataset, past, owner),
    )


def _read_slices(
    source: StepSource, recorded: ExecuteTransformInput, slices: SlicesUpto
) -> Sequence[DataSlice]:
    """Return the slices of an input that earlier steps have read."""
    return () if recorded.prev_offset is None else slices(source.dataset, recorded.prev_block_hash)


def _events(
    state: ChainState, batch: TransformBatch, sealed: Sealed | None, checkpoint: Checkpoint | None
) -> tuple[MetadataEvent, ...]:
    """Return the blocks of the step.

    A step without rows records how far it read only with a watermark that moved, or when it counted
    what no row shows: other such blocks change nothing by the chain rules, so the interval stays
    open and the next step takes it again.  A query that found nothing to restate, in inputs that
    brought nothing either, is recorded as one like any other: only it may look at an interval that
    takes back what the dataset never held.
    """
    events = schema_events(state, sealed)
    piece = None if sealed is None else sealed.slice
    left = None if checkpoint is None else checkpoint.physical_hash
    counted = batch.has_records and left is not None and left != state.checkpoint
    if piece is None and batch.watermark == state.watermark and not counted:
        done = restates(state) and not batch.has_records
        return (*events, restated(state)) if done else events
    executed = ExecuteTransform(
        query_inputs=batch.query_inputs,
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_data=piece,
        new_checkpoint=checkpoint,
        new_watermark=batch.watermark,
    )
    return (*events, executed)
