"""The columns of an input without rows, as its definition tells them."""

import pytest

from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetVocab,
)
from odfbuild.odf.schema.types import is_optional
from odfbuild.planner.evolution.columns.inputs import input_schema
from odfbuild.planner.intervals import PendingInput, bind
from odfbuild.planner.staleness import InputNow
from tests.planner.builders import Chain, schema, sql

DDL = ("at TIMESTAMP NOT NULL", "k STRING NOT NULL", "v BIGINT")


def source(*ddl: str, query: str | None = None, name: str = "in") -> AddPushSource:
    return AddPushSource(
        source_name=name,
        read=ReadStepNdJson(ddl_schema=ddl or None),
        preprocess=None if query is None else sql(query),
        merge=MergeStrategyAppend(),
    )


def columns(*events: MetadataEvent) -> list[str] | None:
    """Return the data columns that a root without rows counts as having."""
    found = input_schema(Chain("in", DatasetKind.ROOT, list(events)).state)
    return None if found is None else [each.name for each in found.fields][3:]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([source(*DDL), SetVocab(event_time_column="at")], ["at", "k", "v"]),
        ([source(*DDL)], ["event_time", "at", "k", "v"]),
        ([source(*DDL, query="select at as event_time, upper(k) as k from input")],
         ["event_time", "k"]),
        ([source(*DDL, query="select at as event_time, own(k) as k from input")], None),
        ([source(*DDL, query="select at as event_time, k || v from input")], None),
        ([source()], None),
        ([], None),
        ([source(*DDL), source(*DDL, name="other")], None),
    ],
)  # fmt: skip
def test_a_definition_tells_columns_where_it_tells_all_and_their_types(
    events: list[MetadataEvent], expected: list[str] | None
) -> None:
    assert columns(*events) == expected


def test_the_columns_in_force_go_first() -> None:
    assert columns(source(*DDL), schema("z INT")) == ["event_time", "z", "at", "k", "v"]


def test_a_column_that_no_row_has_yet_may_be_null() -> None:
    events: list[MetadataEvent] = [schema("at TIMESTAMP NOT NULL", "v BIGINT"), source(*DDL)]
    found = input_schema(Chain("in", DatasetKind.ROOT, list(events)).state)
    assert found is not None
    assert {each.name: is_optional(each.type) for each in found.fields}["k"]


def test_an_input_without_rows_is_empty_in_a_step() -> None:
    quiet = Chain("quiet", DatasetKind.ROOT, [source(*DDL)])
    loud = Chain("loud", DatasetKind.ROOT, [schema("a BIGINT")]).rows(2)
    output = Chain("out", DatasetKind.DERIVATIVE)
    inputs = [
        PendingInput(InputNow("in", each.state), tuple(each.blocks)) for each in (quiet, loud)
    ]
    batch = bind(output.state, inputs)
    assert batch is not None
    assert [len(each.slices) for each in batch.inputs] == [0, 1]
    assert batch.query_inputs[0].new_offset is None
