"""Events of runs: valid by the published schemas whatever is in them, and what they say."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError

from odfbuild.executors.runs.openlineage.model import (
    EventType,
    Job,
    LineageColumn,
    LineageDataset,
    LineageField,
    Moment,
    NamespacedName,
    Run,
    WrittenAmount,
    run_event,
)
from odfbuild.odf.events import (
    DataField,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from tests.support.openlineage import check_event, facets_of

NOW = Timestamp.parse("2024-05-06T07:08:09.123Z")
HEAD = Multihash.parse("f1620" + "ab" * 32)
APPLY = Run(UUID(int=1), NamespacedName("odf://shop/dev", "apply"))
JOB = Job(
    named=NamespacedName("odf://shop/dev", "transform:out"), kind="TRANSFORM", query="select 1"
)
STEP = Run(UUID(int=2), JOB.named)
ORDERS, OUT = NamespacedName("odf://shop/dev", "orders"), NamespacedName("elsewhere", "out")

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
named = st.builds(NamespacedName, words, words)
refs = st.builds(LineageColumn, named, words)
fields = st.builds(DataField, words, st.just(DataTypeOption(DataTypeInt64())))
subjects = st.builds(
    LineageDataset,
    named=named,
    source=st.none() | st.just("did:odf:fed01"),
    block=st.none() | st.just(HEAD),
    columns=st.none() | st.lists(fields, max_size=3).map(tuple),
    made=st.none()
    | st.lists(
        st.builds(
            LineageField,
            words,
            st.lists(refs, max_size=3).map(tuple),
            st.lists(refs, max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    written=st.none() | st.builds(WrittenAmount, st.integers(0, 2**60), st.integers(0, 2**60)),
)
moments = st.builds(
    Moment,
    st.sampled_from(EventType),
    st.integers(0, 2**60).map(Timestamp),
    st.none() | words,
)


def event_of(*outputs: LineageDataset, type: EventType = EventType.COMPLETE) -> dict[str, Any]:
    return run_event(
        Moment(type, NOW),
        STEP,
        JOB,
        parent=APPLY,
        inputs=(LineageDataset(named=ORDERS),),
        outputs=outputs,
    )


def facet(event: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (facet for known, facet in facets_of(event) if known == name)
    return {key: value for key, value in found.items() if not key.startswith("_")}


@given(
    moments,
    st.lists(subjects, max_size=3),
    st.lists(subjects, max_size=3),
    st.none() | st.just(APPLY),
    st.none() | words,
)
def test_every_event_is_valid(
    moment: Moment,
    inputs: list[LineageDataset],
    outputs: list[LineageDataset],
    parent: Run | None,
    query: str | None,
) -> None:
    job = Job(named=JOB.named, kind="TRANSFORM", query=query)
    check_event(run_event(moment, STEP, job, parent=parent, inputs=inputs, outputs=outputs))


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e.pop("eventTime"),
        lambda e: e.update(eventTime="yesterday"),
        lambda e: e["run"].update(runId="2"),
        lambda e: e["job"]["facets"]["sql"].pop("query"),
        lambda e: e["run"]["facets"]["parent"].pop("job"),
        lambda e: e["outputs"][0]["facets"]["columnLineage"].pop("fields"),
        lambda e: e["outputs"][0]["facets"]["dataSource"].update(uri="no uri"),
        lambda e: e["outputs"][0]["facets"]["version"].pop("_producer"),
    ],
)
def test_the_schemas_would_tell_what_is_wrong(damage: Any) -> None:
    subject = LineageDataset(
        named=OUT, source="did:odf:fed01", block=HEAD, made=(LineageField("a"),)
    )
    event = event_of(subject)
    check_event(event)
    damage(event)
    with pytest.raises((ValidationError, KeyError)):
        check_event(event)


def test_an_event_tells_run_job_and_the_run_above() -> None:
    event = event_of(type=EventType.START)
    assert (event["eventType"], event["eventTime"]) == ("START", "2024-05-06T07:08:09.123Z")
    assert event["run"]["runId"] == "00000000-0000-0000-0000-000000000002"
    assert (event["job"]["namespace"], event["job"]["name"]) == ("odf://shop/dev", "transform:out")
    assert facet(event, "sql") == {"query": "select 1"}
    assert facet(event, "parent") == {
        "run": {"runId": "00000000-0000-0000-0000-000000000001"},
        "job": {"namespace": "odf://shop/dev", "name": "apply"},
    }
    assert [each["name"] for each in event["inputs"]] == ["orders"]


def test_columns_are_told_with_their_members() -> None:
    items = DataTypeList(DataTypeStruct((DataField("sku", DataTypeString()),)))
    columns = (DataField("id", DataTypeInt64()), DataField("items", DataTypeOption(items)))
    found = facet(event_of(LineageDataset(named=OUT, columns=columns)), "schema")["fields"]
    assert [(each["name"], each["type"], each["ordinal_position"]) for each in found] == [
        ("id", "Int64", 1),
        ("items", "Option<List<Struct<sku: String>>>", 2),
    ]
    assert found[1]["fields"] == [{"name": "sku", "type": "String", "ordinal_position": 1}]


def test_a_column_is_told_once_for_values_and_for_rows() -> None:
    price, state = LineageColumn(ORDERS, "price"), LineageColumn(ORDERS, "state")
    made = (LineageField("total", (price,), (price, state)), LineageField("n", (), (state,)))
    found = facet(event_of(LineageDataset(named=OUT, made=made)), "columnLineage")["fields"]
    told = {
        name: [
            (each["name"], each["field"], [how["type"] for how in each["transformations"]])
            for each in column["inputFields"]
        ]
        for name, column in found.items()
    }
    assert told == {
        "total": [("orders", "price", ["DIRECT", "INDIRECT"]), ("orders", "state", ["INDIRECT"])],
        "n": [("orders", "state", ["INDIRECT"])],
    }


def test_zero_rows_are_told_as_zero() -> None:
    event = event_of(LineageDataset(named=OUT, written=WrittenAmount(0, 0)))
    assert facet(event, "outputStatistics") == {"rowCount": 0, "size": 0}
