"""What a declared snapshot asks to append to a chain."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import RESTATE, image_digest
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, normalize
from odfbuild.planner.diff import EventChange, KindChangedError, VocabChangedError, diff
from tests.planner.builders import (
    Chain,
    dataset_id,
    declare,
    derivative,
    polling,
    root,
    schema,
    sql,
)

ENGINES = {"spark": "4.3.0+odfbuild.1"}
PUSH = AddPushSource(source_name="p", read=ReadStepNdJson(), merge=MergeStrategyAppend())
INFO = SetInfo(description="what it is", keywords=("a", "b"))
LICENSE = SetLicense(short_name="CC0", name="CC0 1.0", website_url="https://example.org/")
NOTES = SetAttachments(AttachmentsEmbedded((AttachmentEmbedded("README.md", "text"),)))


def changes(
    declared: Declared, chain: Chain | None, engines: Mapping[str, str] = ENGINES
) -> list[MetadataEvent]:
    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return dataset_id(str(ref))

    state = None if chain is None else chain.state
    return [each.event for each in diff(declared.snapshot, state, resolve, engines)]


def test_a_new_dataset_gets_all_its_events_in_their_order() -> None:
    events = (INFO, polling(), LICENSE)
    assert changes(root("a", *events), None) == list(events)


@pytest.mark.parametrize(
    "event", [INFO, LICENSE, NOTES, polling(), PUSH, SetVocab(offset_column="o")]
)
def test_what_is_in_force_already_is_not_appended_again(event: MetadataEvent) -> None:
    declared = declare("a", DatasetKind.ROOT, [event])
    assert changes(declared, Chain("a", DatasetKind.ROOT, [event])) == []


def test_a_changed_event_is_appended_and_the_others_are_left_alone() -> None:
    chain = Chain("a", DatasetKind.ROOT, [INFO, polling("old/*.csv")])
    assert changes(root("a", INFO, polling("new/*.csv")), chain) == [polling("new/*.csv")]


def test_a_transform_is_appended_with_the_ids_of_its_inputs_and_the_engine_version() -> None:
    (event,) = changes(derivative("b", "a"), None)
    assert isinstance(event, SetTransform)
    assert event.inputs == (TransformInput(dataset_id("a"), "a"),)
    assert event.transform.version == "4.3.0+odfbuild.1"


def test_a_transform_that_leaves_the_version_out_is_not_changed_by_another_engine() -> None:
    (event,) = changes(derivative("b", "a"), None)
    assert isinstance(event, SetTransform)
    older = replace(event, transform=replace(event.transform, version="4.0.0+odfbuild.1"))
    assert changes(derivative("b", "a"), Chain("b", DatasetKind.DERIVATIVE, [older])) == []


def by_other(version: str | None) -> Declared:
    """Return a definition whose query is for an engine that is not one of ours."""
    made = SetTransform(
        (TransformInput(DatasetAlias.parse("a"), "a"),),
        replace(sql("select 1"), engine="flink", version=version),
    )
    return declare("b", DatasetKind.DERIVATIVE, [made])


VERSIONS = st.sampled_from([None, "1.16", "1.17", f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"])
MARKS = st.sampled_from(["", RESTATE])


@given(VERSIONS, VERSIONS, MARKS, VERSIONS)
def test_a_transform_records_the_image_of_its_engine_and_each_other_one(
    declared: str | None, recorded: str | None, mark: str, image: str | None
) -> None:
    """An engine without an image has no version to record, and a declared version counts first."""
    engines = ENGINES if image_digest(image) is None else {**ENGINES, "flink": str(image)}
    (event,) = changes(by_other(declared), None, engines)
    assert isinstance(event, SetTransform)
    wanted = declared or engines.get("flink")
    assert event.transform.version == wanted
    version = None if recorded is None else f"{recorded}{mark}"
    known = replace(event, transform=replace(event.transform, version=version))
    found = changes(by_other(declared), Chain("b", DatasetKind.DERIVATIVE, [known]), engines)
    stays = wanted == recorded or (wanted is None and image_digest(recorded) is None)
    assert found == ([] if stays else [event])


def test_a_preprocess_records_no_image() -> None:
    """Its version is no change of the source, so that of another image would not be seen."""
    source = replace(polling(), preprocess=replace(sql("select 1"), engine="flink"))
    engines = {**ENGINES, "flink": f"sha256:{'0' * 64}"}
    assert changes(root("a", source), None, engines) == [source]


def test_another_query_is_a_change() -> None:
    (event,) = changes(derivative("b", "a"), None)
    chain = Chain("b", DatasetKind.DERIVATIVE, [event])
    (changed,) = changes(derivative("b", "a", query="select a from a"), chain)
    assert isinstance(changed, SetTransform)
    assert changed.transform == replace(sql("select a from a"), version="4.3.0+odfbuild.1")


def test_a_polling_source_that_is_gone_is_disabled_before_a_push_source_is_added() -> None:
    chain = Chain("a", DatasetKind.ROOT, [polling()])
    declared = declare("a", DatasetKind.ROOT, [PUSH])
    assert changes(declared, chain) == [DisablePollingSource(), PUSH]


def test_a_push_source_that_is_gone_is_disabled_by_its_name() -> None:
    chain = Chain("a", DatasetKind.ROOT, [PUSH])
    assert changes(declare("a", DatasetKind.ROOT, []), chain) == [DisablePushSource("p")]


def normal(name: str, events: list[MetadataEvent]) -> Declared:
    declared = declare(name, DatasetKind.ROOT, events)
    return replace(declared, snapshot=normalize(declared.snapshot))


ENDS: dict[str, list[MetadataEvent]] = {
    "polling": [polling(), DisablePollingSource()],
    "polling, left out": [DisablePollingSource()],
    "push": [PUSH, DisablePushSource("p")],
    "push, left out": [DisablePushSource("p")],
}


@pytest.mark.parametrize("ends", ENDS)
def test_a_source_that_is_declared_as_disabled_is_ended_once(ends: str) -> None:
    *_, end = events = ENDS[ends]
    declared = normal("a", events)
    source = PUSH if isinstance(end, DisablePushSource) else polling()
    chain = Chain("a", DatasetKind.ROOT, [source])
    (found,) = diff(declared.snapshot, chain.state, lambda ref: ref, {})
    assert found == EventChange(end, len(events) - 1)
    ended = Chain("a", DatasetKind.ROOT, [source, end])
    assert changes(declared, ended) == []
    assert changes(declared, Chain("a", DatasetKind.ROOT, [])) == []
    assert changes(declared, None) == []


def test_a_source_that_is_declared_after_an_end_is_in_force() -> None:
    events: list[MetadataEvent] = [
        PUSH,
        DisablePushSource("p"),
        DisablePollingSource(),
        polling(),
    ]
    declared = normal("a", events)
    assert changes(declared, Chain("a", DatasetKind.ROOT, [PUSH])) == [
        DisablePushSource("p"),
        polling(),
    ]


def test_info_and_attachments_that_are_gone_are_emptied_and_a_licence_stays() -> None:
    chain = Chain("a", DatasetKind.ROOT, [INFO, LICENSE, NOTES])
    assert changes(declare("a", DatasetKind.ROOT, []), chain) == [
        SetInfo(),
        SetAttachments(AttachmentsEmbedded(())),
    ]


def test_emptied_info_is_not_emptied_again() -> None:
    chain = Chain("a", DatasetKind.ROOT, [INFO, SetInfo()])
    assert changes(declare("a", DatasetKind.ROOT, []), chain) == []


def test_a_dataset_cannot_change_its_kind() -> None:
    with pytest.raises(KindChangedError, match="is a Root, and is declared as a Derivative"):
        changes(derivative("a", "b"), Chain("a", DatasetKind.ROOT))


def test_the_system_columns_can_be_renamed_before_there_is_a_schema() -> None:
    chain = Chain("a", DatasetKind.ROOT, [SetVocab(offset_column="o")])
    declared = declare("a", DatasetKind.ROOT, [SetVocab(event_time_column="date")])
    assert changes(declared, chain) == [SetVocab(event_time_column="date")]


def test_the_system_columns_cannot_be_renamed_after_that() -> None:
    chain = Chain("a", DatasetKind.ROOT, [schema("a BIGINT")])
    with pytest.raises(VocabChangedError, match="differ from those in force"):
        changes(declare("a", DatasetKind.ROOT, [SetVocab(offset_column="o")]), chain)


def test_a_declared_source_keeps_its_place_among_the_changes() -> None:
    found = diff(root("a", INFO, polling()).snapshot, None, lambda ref: ref, ENGINES)
    assert [each.index for each in found] == [0, 1]
    assert isinstance(found[1].event, SetPollingSource)
