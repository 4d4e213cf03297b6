"""Ask the engine about a definition before it is written: would its rows fit the dataset?

A chain cannot unsay a definition, so one that can only fail is refused first.  What cannot be known
yet is left to the first run: inputs that had no schema when the plan was made, or whose own
definition changes in the same run, and sources that declare no schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.executors.adding import retires
from odfbuild.executors.engine import IngestRequest, TransformInputFrame, TransformWork
from odfbuild.executors.frames import Frame
from odfbuild.executors.site import Site
from odfbuild.odf.chain import ChainState, vocabulary
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MetadataEvent,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Stood", "check_definition"]

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
    from odfbuild.executors.slice_schema import slice_schema

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
    frames = []
    for source in event.inputs:
        state = _input_state(site, source.dataset_ref, stood)
        schema = None if state is None else schema_in_force(state)
        if state is None or schema is None:
            return None
        alias = source.alias or str(source.dataset_ref)
        frames.append(
            TransformInputFrame(
                alias=alias, paths=(), interval=None, schema=schema, vocab=state.vocab
            )
        )
    with site.workspace.staging() as staging:
        return site.engine.validate(
            TransformWork(
                inputs=tuple(frames), transform=event.transform, vocab=vocab, staging=staging
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
    from odfbuild.executors.readers.options import declared_schema

    known, readable = state.polling, ReadStepCsv | ReadStepJson | ReadStepNdJson | ReadStepParquet
    if not isinstance(event.read, readable) or (known and _columns(event) == _columns(known)):
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
