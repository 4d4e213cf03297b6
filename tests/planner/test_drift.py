"""Drift as a judgement: what others changed is told from what is still to be applied."""

from collections.abc import Sequence

import pytest

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetInfo,
    SetLicense,
    SetVocab,
    SourceState,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.drift import ChainDrift, DriftKind, drift_of_blocks, drift_of_definition
from tests.planner.builders import Chain, derivative, polling, root, schema

NOON = Timestamp.parse("2024-01-01T12:00:00Z")
INFO = SetInfo(description="rates")
OTHER = SetInfo(description="of others")
LICENSE = SetLicense(short_name="CC0", name="CC0", website_url="https://x")


def push(name: str) -> AddPushSource:
    return AddPushSource(source_name=name, read=ReadStepNdJson(), merge=MergeStrategyAppend())


def same(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
    return ref


def judged(declared: Declared, state: ChainState, base: ChainState | None) -> list[ChainDrift]:
    return list(drift_of_definition(declared, state, base, same, {}))


def told(found: Sequence[ChainDrift]) -> list[tuple[str, str]]:
    return [(each.kind.value, each.what) for each in found]


def chain(*events: MetadataEvent) -> Chain:
    return Chain("a", DatasetKind.ROOT, events)


def test_a_chain_that_is_as_declared_has_not_drifted() -> None:
    made = chain(polling(), INFO)
    for base in (None, made.state, made.states[0]):
        assert judged(root("a", polling(), INFO), made.state, base) == []


def test_an_edit_that_was_not_applied_yet_is_no_drift() -> None:
    made = chain(polling(), INFO)
    edited = root("a", polling("other/*.csv"), SetInfo(description="new"))
    assert judged(edited, made.state, base=made.state) == []


def test_without_a_record_of_an_apply_every_difference_counts() -> None:
    made = chain(polling(), INFO)
    edited = root("a", polling("other/*.csv"), INFO)
    assert told(judged(edited, made.state, base=None)) == [
        ("definition", "SetPollingSource in force is not the one declared")
    ]


def test_what_others_put_in_the_place_of_what_is_declared_is_drift() -> None:
    made = chain(polling(), INFO)
    left = made.state
    made.add(OTHER)
    (found,) = judged(root("a", polling(), INFO), made.state, left)
    assert found.kind is DriftKind.DEFINITION
    assert found.what == "SetInfo in force is not the one declared"
    assert (found.declared, found.in_force) == (INFO, OTHER)
    assert found.span == SourceSpan(file="d.yaml", line=3)


def test_an_edit_here_does_not_hide_what_others_did_to_the_same_event() -> None:
    made = chain(polling(), INFO)
    left = made.state
    made.add(OTHER)
    edited = root("a", polling(), SetInfo(description="new"))
    assert told(judged(edited, made.state, left)) == [
        ("definition", "SetInfo in force is not the one declared")
    ]


def test_what_others_changed_and_changed_back_is_no_drift() -> None:
    made = chain(polling(), INFO)
    left = made.state
    made.add(OTHER).add(INFO)
    assert judged(root("a", polling(), INFO), made.state, left) == []


def test_what_others_added_is_drift() -> None:
    made = chain(polling())
    left = made.state
    made.add(OTHER)
    assert told(judged(root("a", polling()), made.state, left)) == [
        ("definition", "SetInfo is in force and not declared")
    ]


def test_what_others_ended_is_drift() -> None:
    made = chain(polling())
    left = made.state
    made.add(DisablePollingSource())
    (found,) = judged(root("a", polling()), made.state, left)
    assert found.what == "SetPollingSource is declared and no longer in force"
    assert found.in_force is None


def test_a_push_source_added_by_hand_has_a_kind_of_its_own() -> None:
    made = chain(push("declared"))
    left = made.state
    made.add(push("by-hand"))
    assert told(judged(root("a", push("declared")), made.state, left)) == [
        ("push-source", "the push source 'by-hand' is in force and not declared")
    ]


def test_a_chain_of_another_kind_is_not_the_one_that_is_declared() -> None:
    (found,) = judged(derivative("a", "b"), chain(polling()).state, None)
    assert found.kind is DriftKind.IDENTITY


def test_other_names_of_system_columns_are_told_by_their_place() -> None:
    made = chain(polling(), SetVocab(event_time_column="t"), schema("a BIGINT"))
    (found,) = judged(root("a", polling(), SetVocab(event_time_column="u")), made.state, None)
    assert found.kind is DriftKind.IDENTITY


def test_a_license_that_the_project_does_not_speak_of_is_left_alone() -> None:
    made = chain(polling(), LICENSE)
    assert judged(root("a", polling()), made.state, None) == []


# blocks


def test_records_of_a_declared_source_are_explained_whoever_ingested_them() -> None:
    made = chain(polling(), schema("a BIGINT")).rows(3)
    assert list(drift_of_blocks(root("a", polling()), made.blocks)) == []
    assert list(drift_of_blocks(root("a", push("p")), made.blocks)) == []


def test_records_that_no_source_explains_are_drift_with_their_block() -> None:
    made = chain(INFO, schema("a BIGINT")).rows(1_000)
    (found,) = drift_of_blocks(root("a", INFO), made.blocks)
    assert told([found]) == [("data", "1,000 records were added, and no source is declared")]
    assert found.block == made.blocks[-1][0]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_watermark_without_word_from_a_source_was_set_by_hand(by_hand: bool) -> None:
    made = chain(polling(), schema("a BIGINT"))
    state = None if by_hand else SourceState("default", "odf/etag", "x")
    made.add(AddData(new_watermark=NOON, new_source_state=state))
    found = told(list(drift_of_blocks(root("a", polling()), made.blocks)))
    expected = ("watermark", "the watermark was set to 2024-01-01T12:00:00Z by hand")
    assert found == ([expected] if by_hand else [])
