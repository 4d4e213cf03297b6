"""An object with a key twice is refused where a column would have to choose, in any format."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import (
    ReadStep,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from odfbuild.planner.plan.policy import IngestOptions
from tests.executors.ingest.read.reading import refusal_of, rows_of

Pairs: TypeAlias = list[tuple[str, Any]]
"""The members of an object; one within is a list of pairs too."""

COLUMNS = ("a BIGINT", "s STRUCT<x: BIGINT, y: BIGINT>", "l ARRAY<STRUCT<x: BIGINT>>")
NUMBERS = st.integers(0, 3) | st.none()
INNER = st.lists(st.tuples(st.sampled_from("xyz"), NUMBERS), max_size=3)
MEMBER = st.one_of(
    st.tuples(st.sampled_from(["a", "a", "other"]), NUMBERS),
    st.tuples(st.just("s"), INNER),
    st.tuples(st.just("l"), st.lists(INNER.map(lambda pairs: ("object", pairs)), max_size=2)),
)
RECORDS = st.lists(st.lists(MEMBER, max_size=4), min_size=1, max_size=4)


def text(value: Any) -> str:
    """Write a value in JSON; lists of pairs are objects."""
    if isinstance(value, tuple):
        return text(value[1])
    if isinstance(value, list) and (not value or isinstance(value[0][0], str)):
        if value and value[0][0] == "object":
            return "[" + ",".join(map(text, value)) + "]"
        return "{" + ",".join(f"{json.dumps(name)}:{text(each)}" for name, each in value) + "}"
    return json.dumps(value)


def member(name: str, value: Any) -> str:
    shown = "[]" if name == "l" and not value else text(value)
    return f"{json.dumps(name)}:{shown}"


def record_text(record: Pairs) -> str:
    return "{" + ",".join(member(name, value) for name, value in record) + "}"


def is_twice(pairs: Pairs, names: str) -> bool:
    found = [name for name, _ in pairs if name in names]
    return len(set(found)) < len(found)


def is_bad(record: Pairs) -> bool:
    """Tell whether a column would have to choose a value; what no column reads does not count."""
    if is_twice(record, "asl"):
        return True
    inner = [is_twice(value, "xy") for name, value in record if name == "s"]
    items = [is_twice(item, "x") for name, value in record if name == "l" for _, item in value]
    return any(inner) or any(items)


def feature(record: str) -> str:
    return f'{{"type":"Feature","properties":{record},"geometry":null}}'


def forms(records: list[Pairs]) -> list[tuple[ReadStep, str]]:
    each = [record_text(record) for record in records]
    features = [feature(record) for record in each]
    collection = '{"type":"FeatureCollection","features":[' + ",\n".join(features) + "]}"
    return [
        (ReadStepJson(ddl_schema=COLUMNS), "[" + ",\n".join(each) + "]"),
        (ReadStepJson(ddl_schema=COLUMNS, sub_path="k"), '{"k":[' + ",\n".join(each) + "]}"),
        (ReadStepNdJson(ddl_schema=COLUMNS), "\n".join(each)),
        (ReadStepGeoJson(ddl_schema=COLUMNS), collection),
        (ReadStepNdGeoJson(ddl_schema=COLUMNS), "\n".join(features)),
    ]


@given(RECORDS)
def test_every_format_refuses_the_same_records_and_reads_the_others_alike(
    records: list[Pairs],
) -> None:
    bad = [at for at, record in enumerate(records) if is_bad(record)]
    read_as = []
    for step, data in forms(records):
        if bad:
            error = refusal_of(step, data)
            assert f"in:{bad[0] + 1}: " in error.what
            assert "occurs twice in one object" in error.what
        else:
            read_as.append(rows_of(step, data))
    assert all(rows == read_as[0] for rows in read_as)


@given(RECORDS)
def test_such_records_are_bad_rows(records: list[Pairs]) -> None:
    good = [record for record in records if not is_bad(record)]
    for (step, data), (_, rest) in zip(forms(records), forms(good), strict=True):
        with TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "in").write_text(data, encoding="utf-8")
            aside = BadRowFile(folder / "aside", "in", IngestOptions())
            if not good:
                with pytest.raises(InvalidSourceError):
                    read(step, folder / "in", staging=folder, name="in", notes=ReadNotes(aside))
                continue
            found = read(step, folder / "in", staging=folder, name="in", notes=ReadNotes(aside))
            assert found is not None
            assert found.table is not None
            assert [tuple(row.values()) for row in found.table.to_pylist()] == rows_of(step, rest)
            assert aside.rows == len(records) - len(good)


@pytest.mark.parametrize(
    ("step", "data", "what"),
    [
        (ReadStepJson(sub_path="k"), '{"k":[{"a":1}],"k":[{"a":2}]}', "in:1: k occurs twice"),
        (ReadStepNdJson(ddl_schema=("m MAP<STRING, INT>",)), '{"m":{"p":1,"p":2}}', "the key 'p'"),
        (ReadStepNdJson(), '{"a":1,"a":2}', "column a: the key 'a' occurs twice"),
        (
            ReadStepNdGeoJson(),
            '{"type":"Feature","properties":{},"properties":{},"geometry":null}',
            "`properties` occurs twice",
        ),
        (
            ReadStepNdGeoJson(),
            '{"type":"Feature","properties":{"a":1},'
            '"geometry":{"type":"Point","coordinates":[1,2],"coordinates":[3,4]}}',
            "in `geometry` the key 'coordinates' occurs twice",
        ),
        (
            ReadStepGeoJson(),
            '{"type":"FeatureCollection","features":[],"features":[]}',
            "`features` occurs twice",
        ),
    ],
)
def test_what_stands_around_records_is_there_once(step: ReadStep, data: str, what: str) -> None:
    assert what in refusal_of(step, data).what
