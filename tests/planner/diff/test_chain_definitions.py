"""The definition of a chain as it stands: read again, it asks for nothing."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest import from_manifest, to_yaml
from odfbuild.odf.opaque import Opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import normalize
from odfbuild.planner.diff import diff
from odfbuild.planner.diff.chain_definitions import UndeclarableError, inputs_of, snapshot_of
from odfbuild.project.yaml import read_documents
from odfbuild.project.yaml.format import UnformattableError, formatted
from tests.support.data.chains import (
    DERIVATIVE,
    INPUTS,
    NOON,
    POLLING,
    PUSH,
    ROOT,
    Link,
    chains,
    folded,
    grown,
    set_transform,
    some_hash,
)
from tests.support.values.strategies import records

HERE = DatasetAlias.parse("here")
NAMES = {id: DatasetAlias.parse(f"in{n}") for n, id in enumerate(INPUTS)}


def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
    return next((id for id, name in NAMES.items() if name == ref), ref)


def read_again(text: str) -> DatasetSnapshot:
    (document,) = read_documents(text, "a.yaml")
    _, _, snapshot = from_manifest(document.value)
    assert isinstance(snapshot, DatasetSnapshot)
    return snapshot


def asked(state: ChainState) -> tuple[object, ...]:
    """Return what the definition of a chain asks for, through its text."""
    text = to_yaml("DatasetSnapshot", snapshot_of(state, HERE, NAMES))
    snapshot = read_again(text)
    with suppress(UnformattableError):  # then the text stands as it is
        assert read_again(formatted(text, "a.yaml")) == snapshot
    return diff(normalize(snapshot), state, resolve, {"spark": "9.9"})


def state_after(kind: DatasetKind, events: tuple[MetadataEvent, ...]) -> ChainState:
    """Return the state of a chain that is taken as it is."""
    seed = Seed(dataset_id=INPUTS[0], dataset_kind=kind)
    state = None
    for number, event in enumerate((seed, *events)):
        block = MetadataBlock(system_time=NOON, sequence_number=number, event=event)
        state = fold(state, block, some_hash(str(number)))
    assert state is not None
    return state


@given(links=chains())
def test_of_a_chain_that_the_rules_allow_nothing_is_to_change(links: list[Link]) -> None:
    state = folded(links)
    assert state is not None
    assert asked(state) == ()


def _in_the_form_of_chains(event: MetadataEvent) -> MetadataEvent:
    if isinstance(event, SetTransform):
        inputs = tuple(
            TransformInput(INPUTS[n % 3], each.alias or f"a{n}")
            for n, each in enumerate(event.inputs)
        )
        event = replace(event, inputs=inputs)
    (normal,) = normalize(DatasetSnapshot(HERE, DatasetKind.ROOT, (event,))).metadata
    return normal


_of_roots = st.one_of(
    *map(records, (SetPollingSource, SetVocab, SetInfo, SetLicense, SetAttachments))
)
_pushed = st.one_of(*map(records, (AddPushSource, SetVocab, SetInfo)))
_of_derivatives = st.one_of(*map(records, (SetTransform, SetVocab, SetLicense, SetAttachments)))


@given(
    drawn=st.tuples(st.just(DatasetKind.ROOT), st.lists(_of_roots, max_size=4))
    | st.tuples(st.just(DatasetKind.ROOT), st.lists(_pushed, max_size=4))
    | st.tuples(st.just(DatasetKind.DERIVATIVE), st.lists(_of_derivatives, max_size=4))
)
def test_whatever_is_in_force_can_be_said(
    drawn: tuple[DatasetKind, list[MetadataEvent]],
) -> None:
    kind, events = drawn
    assert asked(state_after(kind, tuple(map(_in_the_form_of_chains, events)))) == ()


def test_inputs_are_called_by_their_names_and_by_ids_without_one() -> None:
    state = grown(DERIVATIVE, set_transform(INPUTS[1], INPUTS[0]))
    (event,) = snapshot_of(state, HERE, {INPUTS[0]: NAMES[INPUTS[0]]}).metadata
    assert isinstance(event, SetTransform)
    assert [str(each.dataset_ref) for each in event.inputs] == [str(INPUTS[1]), "in0"]
    assert [each.alias for each in event.inputs] == ["in0", "in1"]
    assert inputs_of(state) == (INPUTS[1], INPUTS[0])
    assert inputs_of(grown(ROOT)) == ()


def test_a_query_of_one_step_is_written_short_and_of_no_version() -> None:
    event = set_transform(INPUTS[0])
    made = replace(event, transform=replace(event.transform, version="4.0.1"))
    (written,) = snapshot_of(grown(DERIVATIVE, made), HERE, NAMES).metadata
    assert isinstance(written, SetTransform)
    assert written.transform == TransformSql(engine="spark", query="select 1")


def test_queries_of_several_steps_stay() -> None:
    steps = (SqlQueryStep(query="select 1", alias="a"), SqlQueryStep(query="select 2"))
    event = set_transform(INPUTS[0])
    made = replace(event, transform=replace(event.transform, queries=steps))
    (written,) = snapshot_of(grown(DERIVATIVE, made), HERE, NAMES).metadata
    assert isinstance(written, SetTransform)
    assert written.transform.queries == steps


def test_what_holds_by_itself_is_not_said() -> None:
    nothing = SetAttachments(AttachmentsEmbedded(()))
    usual = SetVocab(offset_column="offset", event_time_column="event_time")
    state = grown(ROOT, SetInfo(description="a"), SetInfo(), nothing, usual)
    assert snapshot_of(state, HERE, NAMES).metadata == ()


def test_sources_that_were_disabled_are_left_out() -> None:
    assert snapshot_of(grown(ROOT, POLLING, DisablePollingSource()), HERE, NAMES).metadata == ()
    pushed = grown(ROOT, PUSH, replace(PUSH, source_name="other"), DisablePushSource("devices"))
    (left,) = snapshot_of(pushed, HERE, NAMES).metadata
    assert isinstance(left, AddPushSource)
    assert left.source_name == "other"


@pytest.mark.parametrize("within", ["transform", "preprocess", "fetch"])
def test_words_of_a_newer_format_are_not_guessed(within: str) -> None:
    unknown: Any = Opaque("Transform", 9)
    state = grown(DERIVATIVE, set_transform(INPUTS[0]))
    if within == "transform":
        event = set_transform(INPUTS[0])
        state = replace(state, transform=replace(event, transform=unknown))
    else:
        state = replace(grown(ROOT, POLLING), polling=replace(POLLING, **{within: unknown}))
    with pytest.raises(UndeclarableError, match="number 9") as caught:
        snapshot_of(state, HERE, NAMES)
    assert "--no-definition" in caught.value.fix
