"""Say what is in force in a chain as the definition that asks for no change of it.  Pure.

The inverse of `diff`: what a chain took from its engine (the schema of its data, the version that
made it) is left out, and so is what holds by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from odfbuild.errors import PlanError
from odfbuild.odf.chain import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DatasetSnapshot,
    MetadataEvent,
    SetAttachments,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque, opaque_parts
from odfbuild.odf.refs import DatasetAlias

__all__ = ["UndeclarableError", "inputs_of", "snapshot_of"]

_NOTHING = SetAttachments(AttachmentsEmbedded(()))


class UndeclarableError(PlanError):
    """What is in force in a chain cannot be said in a definition."""

    code = "undeclarable"


def inputs_of(state: ChainState) -> tuple[DatasetId, ...]:
    """Return the datasets that the transform in force reads, each once, in its order."""
    given = () if state.transform is None else state.transform.inputs
    ids = (each.dataset_ref for each in given)
    return tuple(dict.fromkeys(each for each in ids if isinstance(each, DatasetId)))


def snapshot_of(
    state: ChainState, name: DatasetAlias, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetSnapshot:
    """Return the definition of a chain as it stands, under a name.

    Inputs are called by their `names`, by their ids where they have none.  Raises UndeclarableError
    when the chain says something that only a newer version understands.
    """
    snapshot = DatasetSnapshot(name, state.kind, tuple(_events(state, names)))
    for each in opaque_parts(snapshot):
        raise UndeclarableError(
            what=f"{name} has a {each.union} of a kind that is not known (number {each.tag})",
            why="a newer version of the format has it, and a definition must say what it is",
            fix="update odfbuild; with --no-definition the chain is taken in to be read",
        )
    return snapshot


def _events(state: ChainState, names: Mapping[DatasetId, DatasetAlias]) -> Iterator[MetadataEvent]:
    if state.polling is not None:
        yield _written_source(state.polling)
    yield from (_written_source(each) for each in state.push.values())
    if state.transform is not None:
        yield _written_transform(state.transform, names)
    if (vocab := _written_vocab(state)) != SetVocab():
        yield vocab
    if state.info not in (None, SetInfo()):
        yield state.info
    if state.license is not None:
        yield state.license
    if state.attachments not in (None, _NOTHING):
        yield state.attachments


def _written_source(event: SetPollingSource | AddPushSource) -> SetPollingSource | AddPushSource:
    if event.preprocess is None or is_opaque(event.preprocess):
        return event
    return replace(event, preprocess=_written_query(event.preprocess))


def _written_transform(
    event: SetTransform, names: Mapping[DatasetId, DatasetAlias]
) -> SetTransform:
    inputs = tuple(
        TransformInput(_named(each.dataset_ref, names), each.alias) for each in event.inputs
    )
    if is_opaque(event.transform):
        return replace(event, inputs=inputs)
    return replace(event, inputs=inputs, transform=_written_query(event.transform))


def _named(
    ref: DatasetAlias | DatasetId, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetAlias | DatasetId:
    return names.get(ref, ref) if isinstance(ref, DatasetId) else ref


def _written_query(transform: TransformSql) -> TransformSql:
    """Return a query as people write it: one step in the short form, without a version."""
    plain = replace(transform, version=None)
    steps = plain.queries or ()
    if plain.query is None and len(steps) == 1 and steps[0].alias is None:
        return replace(plain, query=steps[0].query, queries=None)
    return plain


def _written_vocab(state: ChainState) -> SetVocab:
    """Return the names of system columns that are not the usual ones."""
    usual, vocab = vocabulary(SetVocab()), state.vocab
    return SetVocab(
        offset_column=_unless(vocab.offset_column, usual.offset_column),
        operation_type_column=_unless(vocab.operation_type_column, usual.operation_type_column),
        system_time_column=_unless(vocab.system_time_column, usual.system_time_column),
        event_time_column=_unless(vocab.event_time_column, usual.event_time_column),
    )


def _unless(name: str | None, usual: str | None) -> str | None:
    return None if name == usual else name
