"""Whether a definition may follow a chain state: sources, transforms and schemas."""

from odfbuild.odf.chain_errors import invalid, no_op
from odfbuild.odf.chain_profile import Profile
from odfbuild.odf.chain_schema import check_schema
from odfbuild.odf.chain_state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    FetchStepEthereumLogs,
    MetadataEvent,
    ReadStep,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Transform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque, opaque_parts

__all__ = [
    "check_disable",
    "check_polling_source",
    "check_push_source",
    "check_set_data_schema",
    "check_set_transform",
    "check_set_vocab",
]


def check_polling_source(state: ChainState, event: SetPollingSource, profile: Profile) -> None:
    _check_reading(event, event.read, event.preprocess, profile)
    if isinstance(event.fetch, FetchStepEthereumLogs) and (
        event.fetch.chain_id is None and event.fetch.node_url is None
    ):
        raise invalid(
            event,
            "the source names neither chainId nor nodeUrl",
            "logs are read from one chain, so it has to be known",
            "give chainId or nodeUrl",
        )
    if state.push:
        raise invalid(
            event,
            f"the dataset has push sources: {', '.join(sorted(state.push))}",
            "a dataset is either polled or pushed to",
            "disable the push sources first",
        )


def check_push_source(state: ChainState, event: AddPushSource, profile: Profile) -> None:
    _check_reading(event, event.read, event.preprocess, profile)
    if profile is Profile.REFERENCE_2024 and _lacks_ddl(event.read):
        raise invalid(
            event,
            "the read step has no schema",
            "the reference of 2024 did not infer schemas of pushed data",
            "give read.schema",
        )
    if state.polling is not None:
        raise invalid(
            event,
            "the dataset has a polling source",
            "a dataset is either polled or pushed to",
            "disable the polling source first",
        )
    if profile is not Profile.REFERENCE_2024 and _is_same(state.push.get(event.source_name), event):
        raise no_op(event, f"the source {event.source_name!r} is already so")


def check_set_vocab(state: ChainState, event: SetVocab) -> None:
    """Refuse other names of system columns once there are columns ("SetVocab")."""
    if state.schema is not None and vocabulary(event) != state.vocab:
        raise invalid(
            event,
            "the dataset has a schema, whose system columns have other names",
            "every slice has to be read with one vocabulary",
            "set the vocabulary before the first data, or start a new dataset",
        )


def _lacks_ddl(read: ReadStep) -> bool:
    return not is_opaque(read) and read.ddl_schema is None


def _is_same(known: AddPushSource | None, new: AddPushSource) -> bool:
    """Say whether sources are equal; of parts that we do not know, only the kind is compared."""
    return known == new and not any(opaque_parts(new))


def _check_reading(
    event: SetPollingSource | AddPushSource,
    read: ReadStep,
    preprocess: Transform | None,
    profile: Profile,
) -> None:
    if preprocess is not None and not is_opaque(preprocess):
        _check_normal_form(event, preprocess)
    if is_opaque(read):
        return
    both = read.ddl_schema is not None and read.schema is not None
    if both and profile is not Profile.REFERENCE_2024:
        raise invalid(
            event,
            "the read step has both a DDL and an ODF schema",
            "two schemas may contradict each other",
            "keep one of them",
        )


def check_disable(
    state: ChainState, event: DisablePollingSource | DisablePushSource, profile: Profile
) -> None:
    if profile is not Profile.SPEC:
        raise invalid(
            event,
            "the reference cannot append it",
            "it does not implement the end of a source",
            "use the rules of the specification",
        )
    known = (
        state.polling is not None
        if isinstance(event, DisablePollingSource)
        else event.source_name in state.push
    )
    if not known:
        raise invalid(
            event,
            "there is no such source",
            f'it ends a source that is in force (ODF 0.34.1, "{type(event).__name__}")',
            "leave the event out, or check the name of the source",
        )


def check_set_transform(event: SetTransform, profile: Profile) -> None:
    if not event.inputs:
        raise invalid(
            event,
            "has no inputs",
            "a derivative dataset is made from others",
            "name at least one input",
        )
    ids = [each.dataset_ref for each in event.inputs]
    if len(set(ids)) < len(ids) and profile is not Profile.REFERENCE_2024:
        raise invalid(
            event,
            "names an input twice",
            "progress is kept for each input by its id",
            "name the input once and use it twice in the query",
        )
    for each in event.inputs:
        if not isinstance(each.dataset_ref, DatasetId) or each.alias is None:
            raise invalid(
                event,
                f"input {each.dataset_ref} is not resolved",
                "names can change their meaning, so blocks keep the id and an alias"
                ' (ODF 0.34.1, "TransformInput")',
                "give the id of the input and the name that the query uses",
            )
    if not is_opaque(event.transform):
        _check_normal_form(event, event.transform)


def _check_normal_form(event: MetadataEvent, transform: Transform) -> None:
    steps = transform.queries or ()
    why = 'blocks keep queries as a list of steps (ODF 0.34.1, "Transform::Sql")'
    if transform.query is not None:
        raise invalid(event, "`query` is a short form", why, "put the query into `queries`")
    if not steps:
        raise invalid(event, "has no query", why, "give at least one query")
    if steps[-1].alias is not None:
        raise invalid(event, "the last query has an alias", why, "leave the last alias out")
    if any(each.alias is None for each in steps[:-1]):
        raise invalid(event, "a query before the last has no alias", why, "give it an alias")


def check_set_data_schema(state: ChainState, event: SetDataSchema, profile: Profile) -> None:
    if event.raw_arrow_schema is None and event.schema is None:
        raise invalid(event, "has no schema", "it sets one", "give a schema")
    if profile is Profile.REFERENCE_2024 or state.schema is None:
        return
    if event.schema is None and profile is Profile.REFERENCE_HEAD:
        return
    check_schema(state.schema, event)
