"""Definitions written to chains: the blocks of a new dataset, or those that change one.

A chain cannot unsay a definition, so one that can only fail is refused first.  What cannot be known
yet is left to the first run: inputs that had no schema when the plan was made, or whose own
definition changes in the same run, and sources that declare no schema.

What a plan found is where it starts from: rows that came since do no harm, another definition does.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.errors import StateError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.engine.protocol import (
    IngestRequest,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.executors.ingest.commit import retires
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, fold, input_name, vocabulary
from odfbuild.odf.events import (
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.read_options import declares_columns
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, BaseHead
from odfbuild.sql.text.steps import is_foreign, steps_of
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError, until_committed
from odfbuild.state.workspace import AliasTakenError

if TYPE_CHECKING:
    import pyarrow as pa


Stood: TypeAlias = Mapping[DatasetId, Multihash | None]
"""The heads that a plan saw; None for a dataset whose own definition it changes."""


def check_definition(
    site: Site,
    state: ChainState | None,
    events: Sequence[MetadataEvent],
    stood: Stood,
) -> None:
    """Refuse events whose rows could not follow those of the dataset (None: a new one).

    Inputs that are created in this run stand as aliases in the events.  Raises what a run would:
    InvalidQueryError, BadInputSchemaError, SchemaEvolutionError and the engine's.
    """
    from odfbuild.executors.data.slice_schema import slice_schema

    vocab = _vocabulary(state, events)
    in_force = None if state is None else schema_in_force(state)
    for event in events:
        found, given_up = None, True
        if isinstance(event, SetTransform):
            found = _of_transform(site, event, vocab, stood)
        elif isinstance(event, SetPollingSource) and state is not None and in_force is not None:
            found, given_up = _of_source(site, event, state, in_force), retires(event)
        if found is not None:
            slice_schema(found, vocab, in_force, retires=given_up)


def _vocabulary(state: ChainState | None, events: Sequence[MetadataEvent]) -> DatasetVocabulary:
    declared = next((event for event in events if isinstance(event, SetVocab)), None)
    if declared is not None or state is None:
        return vocabulary(declared or SetVocab())
    return state.vocab


def _of_transform(
    site: Site,
    event: SetTransform,
    vocab: DatasetVocabulary,
    stood: Stood,
) -> "pa.Schema | None":
    if isinstance(event.transform, TransformSql) and is_foreign(steps_of(event.transform)):
        return None  # columns are known when the query ran
    frames = []
    for source in event.inputs:
        state = _input_state(site, source.dataset_ref, stood)
        schema = None if state is None else schema_in_force(state)
        if state is None or schema is None:
            return None
        alias = input_name(source)
        frames.append(
            TransformInputFrame(
                alias=alias, paths=(), interval=None, schema=schema, vocab=state.vocab
            )
        )
    with site.workspace.staging() as staging:
        return site.engine.validate(
            TransformWork(
                inputs=tuple(frames),
                query=query_over(event.transform, frames, vocab),
                vocab=vocab,
                staging=staging,
            )
        )


def _input_state(site: Site, ref: DatasetAlias | DatasetId, stood: Stood) -> ChainState | None:
    """Return where an input stood when the plan was made, None if its columns may change."""
    if isinstance(ref, DatasetAlias):
        return None
    dataset = site.workspace.dataset(ref)
    head = stood.get(ref, dataset.head())
    return None if head is None else dataset.state(head)


def _of_source(
    site: Site, event: SetPollingSource, state: ChainState, in_force: DataSchema
) -> "pa.Schema | None":
    """Merge no rows: what comes out has the columns that a file would give."""
    from odfbuild.odf.schema.arrow import declared_schema

    known = state.polling
    if not declares_columns(event.read) or (known and _columns(event) == _columns(known)):
        return None
    declared = declared_schema(event.read)
    if declared is None:
        return None
    with site.workspace.staging() as staging:
        merged = site.engine.ingest(
            IngestRequest(
                source=Frame.of(declared.empty_table()),
                preprocess=event.preprocess,
                merge=event.merge,
                vocab=state.vocab,
                history=(),
                in_force=in_force,
                staging=staging,
                infer=False,
            )
        )
    return merged.schema


def _columns(source: SetPollingSource) -> tuple[object, ...]:
    """Return what the columns of a source depend on."""
    if any(opaque_parts(source)):
        return (source,)
    query = source.preprocess and replace(source.preprocess, version=None)
    return source.read.ddl_schema, source.read.schema, query, source.merge


class StalePlanError(StateError):
    """A dataset, or what steps use outside of the project, changed after the plan was made."""

    code = "stale-plan"


def write_definition(
    site: Site,
    target: DatasetAlias,
    work: Append,
    based: BaseHead | None,
    stood: Stood,
    done: Callable[[Round], None],
) -> None:
    """Make a dataset by its definition, or change that of the planned one.

    A dataset that another run made meanwhile by the same definition is gone on with.  Raises
    StalePlanError, HeadMovedError, and what `check_definition` and the commit raise.
    """
    events = tuple(_with_ids(site, event) for event in work.events)
    if work.creates is not None:
        check_definition(site, None, work.events, stood)
        head = _create(site, target, work.creates, events)
        done(Round("definition", 0 if head is None else len(events) + 1, 0, head=head))
        return
    dataset = existing(site, target) if based is None else site.workspace.dataset(based.id)

    def attempt() -> Multihash:
        state = _as_planned(dataset, based)
        check_definition(site, state, work.events, stood)
        now = max(site.clock(), state.system_time)
        return dataset.commit(CommitRequest(events, now), on=state).head

    head = until_committed(attempt)
    done(Round("definition", len(events), 0, head=head))


def _create(
    site: Site, target: DatasetAlias, kind: DatasetKind, events: tuple[MetadataEvent, ...]
) -> Multihash | None:
    """Make a dataset; None if another run made it meanwhile, by the same definition."""
    try:
        return site.workspace.make(target, kind, CommitRequest(events, site.clock())).head
    except AliasTakenError as error:
        dataset = site.workspace.open(target)
        state = None if dataset is None else dataset.state()
        if state is None or state.kind is not kind or not _is_defined_by(state, events):
            raise StalePlanError(
                what=f"another run made {target} meanwhile",
                why="its definition is not the one of this plan",
                fix="plan again",
            ) from error
        return None


def _is_defined_by(state: ChainState, events: tuple[MetadataEvent, ...]) -> bool:
    """Tell whether the definition in force is what events would make of a new dataset."""
    seed = Seed(dataset_id=state.dataset, dataset_kind=state.kind)
    wanted: ChainState | None = None
    for event in (seed, *events):
        block = MetadataBlock(system_time=state.system_time, sequence_number=0, event=event)
        wanted = fold(wanted, block, state.head)
    declared = ("vocab", "transform", "polling", "push", "info", "license", "attachments")
    return all(getattr(state, name) == getattr(wanted, name) for name in declared)


_DEFINITION = operator.attrgetter(
    "vocab",
    "schema",
    "transform",
    "transform_is_new",
    "polling",
    "push",
    "info",
    "license",
    "attachments",
    "has_data",
)


def _as_planned(dataset: Dataset, planned: BaseHead | None) -> ChainState:
    """Return the state of a dataset now, if events that were planned before still fit it.

    They do where only data came or went.  Raises HeadMovedError.
    """
    state = dataset.state()
    expected = None if planned is None else planned.head
    if state is None or (
        expected is not None
        and state.head != expected
        and _DEFINITION(state) != _DEFINITION(dataset.state(expected))
    ):
        raise HeadMovedError(expected, None if state is None else state.head)
    return state


def _with_ids(site: Site, event: MetadataEvent) -> MetadataEvent:
    """Put ids in the place of the aliases of datasets that this run created."""
    if not isinstance(event, SetTransform):
        return event
    inputs = tuple(_resolved_input(site, each) for each in event.inputs)
    return replace(event, inputs=inputs)


def _resolved_input(site: Site, source: TransformInput) -> TransformInput:
    if not isinstance(source.dataset_ref, DatasetAlias):
        return source
    return replace(source, dataset_ref=existing(site, source.dataset_ref).id)


def existing(site: Site, alias: DatasetAlias) -> Dataset:
    """Return a dataset of the workspace by its name, or raise StateError."""
    dataset = site.workspace.open(alias)
    if dataset is None:
        raise StateError(
            what=f"{alias} is not in the workspace",
            why="an earlier step was to create it",
            fix="plan and apply again",
        )
    return dataset
