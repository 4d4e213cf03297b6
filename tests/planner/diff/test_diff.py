"""What a declared snapshot asks to append to a chain."""

from dataclasses import replace

import pytest

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


def changes(declared: Declared, chain: Chain | None) -> list[MetadataEvent]:
    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return dataset_id(str(ref))

    state = None if chain is None else chain.state
    return [each.event for each in diff(declared.snapshot, state, resolve, ENGINES)]


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
