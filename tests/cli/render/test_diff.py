"""Differences of events, line by line."""

import pytest

from odfbuild.cli.render.diff import event_difference
from odfbuild.odf.events import (
    AddPushSource,
    FetchStepUrl,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from tests.planner.builders import dataset_id, schema

A = DatasetAlias.parse("a")


def names(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
    return A if ref == dataset_id("a") else ref


def sql(query: str, version: str | None) -> TransformSql:
    return TransformSql(engine="spark", version=version, queries=(SqlQueryStep(query=query),))


def transform(query: str, version: str | None, ref: DatasetAlias | DatasetId = A) -> SetTransform:
    return SetTransform(inputs=(TransformInput(ref, "a"),), transform=sql(query, version))


def poll(query: str, version: str | None) -> SetPollingSource:
    return SetPollingSource(
        fetch=FetchStepUrl(url="https://x.invalid"),
        read=ReadStepNdJson(),
        preprocess=sql(query, version),
        merge=MergeStrategyAppend(),
    )


def push(query: str, version: str | None) -> AddPushSource:
    return AddPushSource(
        source_name="p",
        read=ReadStepNdJson(),
        preprocess=sql(query, version),
        merge=MergeStrategyAppend(),
    )


@pytest.mark.parametrize("event", [transform, poll, push])
def test_a_version_counts_if_both_sides_name_one(event: type) -> None:
    assert event_difference(event("q", None), event("q", "1"), names) == ()
    assert event_difference(event("q", "1"), event("q", "1"), names) == ()
    lines = event_difference(event("q", "1"), event("q", "2"), names)
    assert [line.replace(" ", "") for line in lines if line[0] in "+-"] == [
        "-version:'1'",
        "+version:'2'",
    ]
    changed = event_difference(event("q", None), event("r", "1"), names)
    assert [line[0] for line in changed if line[0] in "+-"] == ["-", "+"]


def test_an_input_is_the_same_by_its_name_and_by_its_id() -> None:
    assert event_difference(transform("q", "1"), transform("q", "1", dataset_id("a")), names) == ()
    assert event_difference(transform("q", "1"), transform("q", "1", dataset_id("b")), names) != ()


def test_a_schema_is_shown_as_its_columns() -> None:
    old, new = schema("a BIGINT"), schema("a BIGINT", "b STRING")
    assert event_difference(old, new, names)[-1] == "+- b STRING"
    assert all("rawArrow" not in line for line in event_difference(None, new, names))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, None, ()),
        (SetInfo(), None, ()),
        (None, SetInfo(description="x"), ("+description: x",)),
        (SetInfo(description="x"), None, ("-description: x",)),
        (SetInfo(description="x"), SetInfo(description="y\x1b"), ("-description: x",)),
    ],
)
def test_nothing_is_shown_as_nothing(
    before: MetadataEvent | None, after: MetadataEvent | None, lines: tuple[str, ...]
) -> None:
    found = event_difference(before, after, names)
    assert tuple(line for line in found if line.startswith("-") or not before) == lines
    assert all(line.isprintable() for line in found)


def test_only_what_stands_near_a_difference_is_shown() -> None:
    keywords = tuple(f"word{number}" for number in range(40))
    other = (*keywords[:20], "new", *keywords[20:])
    lines = event_difference(SetInfo(keywords=keywords), SetInfo(keywords=other), names)
    assert lines == (
        "...",
        " - word18",
        " - word19",
        "+- new",
        " - word20",
        " - word21",
    )


def test_a_schema_in_the_words_of_odf_is_shown_in_ddl_too() -> None:
    event = schema("a BIGINT")
    assert isinstance(event, SetDataSchema)
    assert "+- a BIGINT" in event_difference(None, event, names)
