"""Metadata as mappings and YAML: published texts, laws, and what every mistake is answered with."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from odfbuild.odf import events
from odfbuild.odf.events import (
    DataSchema,
    DatasetKind,
    DatasetSnapshot,
    DataTypeInt32,
    ExtraAttributes,
    MetadataBlock,
    ReadStepCsv,
    SetDataSchema,
    SetInfo,
    SourceOrdering,
)
from odfbuild.odf.manifest import from_manifest, from_mapping, to_manifest, to_yaml
from odfbuild.odf.manifest.errors import ManifestErrors, Problem, path_text
from odfbuild.odf.manifest.writer import InvalidAttributesError, to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.messages import RawQueryResponseRoot, RawQueryResponseSuccess
from odfbuild.odf.record import Record
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.odf.wire.layout import TABLES
from odfbuild.project.yaml import read_documents
from tests.support.cases import load
from tests.support.effort import examples
from tests.support.values.strategies import blocks, records, snapshots

SCHEMAS = Path(__file__).parents[3] / "schemas" / "json"
CLASSES = sorted(TABLES, key=lambda cls: cls.__name__)
CASES = load("yaml-serde")["vectors"]
PARTS: dict[str, Any] = {
    "FetchStep": events.FetchStep,
    "ReadStep": events.ReadStep,
    "Transform": events.Transform,
    "DataSchema": events.DataSchema,
}
SNAPSHOT = {
    "name": "a.b",
    "kind": "Root",
    "metadata": [
        {
            "kind": "SetPollingSource",
            "fetch": {"kind": "Url", "url": "https://example.org"},
            "read": {"kind": "Csv"},
            "merge": {"kind": "Append"},
        }
    ],
}


def loaded(text: str) -> Any:
    """Read YAML 1.2 as projects are read."""
    return read_documents(text, "test.yaml")[0].value


def read_case(case: dict[str, Any]) -> tuple[Any, str]:
    """Return the value of a case and the text that it is written as."""
    value = loaded(case["text"])
    if case["type"].endswith("manifest"):
        kind, version, found = from_manifest(value)
        return found, to_yaml(kind, found, version)
    if case["type"].startswith("SourceOrdering"):
        order = from_mapping(SourceOrdering, value)
        return order, yaml_text(order.value)
    if case["type"].startswith("date-time"):
        at = Timestamp.parse(value)
        return at, yaml_text(str(at))
    found = from_mapping(PARTS[case["type"]], value)
    return found, yaml_text(to_mapping(found))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vector_texts_are_written_back_as_published_or_refused(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if not expected["valid"]:
        with pytest.raises(ManifestErrors) as caught:
            read_case(case)
        assert len(caught.value.problems) == 1
        return
    found, text = read_case(case)
    assert text == expected.get("canonical_text", case["text"])
    for version, known in expected.get("flatbuffers_block_hash_derived", {}).items():
        assert str(block_hash(encode_block(found, int(version[-1])))) == known


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_reading_a_mapping_gives_the_value_it_was_made_of(cls: type[Record]) -> None:
    @settings(max_examples=examples(8, 500))
    @given(records(cls))
    def law(value: Record) -> None:
        mapping = to_mapping(value)
        again = from_mapping(cls, mapping)
        assert again == value
        assert repr(again) == repr(value)
        assert from_mapping(cls, json.loads(json.dumps(mapping))) == value

    law()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_reading_yaml_gives_the_value_it_was_made_of(cls: type[Record]) -> None:
    @settings(max_examples=examples(5, 200))
    @given(records(cls))
    def law(value: Record) -> None:
        assert from_mapping(cls, loaded(yaml_text(to_mapping(value)))) == value

    law()


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@settings(max_examples=examples(15, 500))
@given(snapshots, blocks)
def test_published_json_schemas_accept_what_is_written(
    snapshot: DatasetSnapshot, block: MetadataBlock
) -> None:
    validator("DatasetSnapshotManifest").validate(to_manifest("DatasetSnapshot", snapshot))
    validator("MetadataBlockManifest").validate(to_manifest("MetadataBlock", block))
    validator("MetadataEvent").validate(to_mapping(block.event))


@pytest.mark.parametrize("name", sorted(path.name[:-12] for path in SCHEMAS.glob("*.json")))
def test_published_json_schemas_refuse_unknown_fields(name: str) -> None:
    assert not validator(name).is_valid({"bogus": 1})


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the sample snapshot with one value put in."""
    copy: Any = json.loads(json.dumps(SNAPSHOT))
    *way, last = path.replace("source", "metadata.0").split(".")
    at = copy
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    return dict(copy)


def problems(value: Any, cls: Any = DatasetSnapshot) -> tuple[Problem, ...]:
    with pytest.raises(ManifestErrors) as caught:
        from_mapping(cls, value)
    return caught.value.problems


@pytest.mark.parametrize(
    ("path", "value", "code", "place", "fix"),
    [
        ("bogus", 1, "unknown-field", "bogus", "name, kind, metadata"),
        ("nmae", 1, "unknown-field", "nmae", "'name'"),
        ("source.read.infer_schema", True, "unknown-field", "metadata[0].read", "'inferSchema'"),
        ("source.fetch.cahce", {}, "unknown-field", "metadata[0].fetch.cahce", "'cache'"),
        ("kind", "Rooot", "unknown-value", "kind", "'Root'"),
        ("kind", 1, "unknown-value", "kind", "Root, Derivative"),
        ("source.read.kind", "Cvs", "unknown-kind", "metadata[0].read.kind", "'Csv'"),
        ("source.read.kind", ["Csv"], "unknown-kind", "metadata[0].read.kind", "Csv"),
        ("source.fetch.url", 5, "wrong-type", "metadata[0].fetch.url", 'quotes: "5"'),
        ("source.fetch.url", True, "wrong-type", "metadata[0].fetch.url", 'quotes: "true"'),
        ("source.fetch.url", None, "missing-field", "metadata[0]", "`url:`"),
        ("source.read.header", "yes", "wrong-type", "metadata[0].read.header", "true or false"),
        ("source.read.schema", "a INT", "wrong-type", "metadata[0].read.schema", "[a INT]"),
        ("source.read.schema", ["a INT", 1], "wrong-type", "metadata[0].read.schema[1]", '"1"'),
        ("source.merge", "Append", "wrong-type", "metadata[0].merge", "mapping with a kind"),
        ("source.merge", {}, "missing-field", "metadata[0].merge", "Ledger"),
        ("name", "a_b", "invalid-name", "name", "letters"),
        ("metadata", {}, "wrong-type", "metadata", "a list"),
        ("metadata", [3], "wrong-type", "metadata[0]", "mapping"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place_and_a_way_out(
    path: str, value: Any, code: str, place: str, fix: str
) -> None:
    (problem,) = problems(changed(path, value))[:1]
    assert problem.code == code
    assert path_text(problem.path).startswith(place)
    assert fix in problem.fix
    assert problem.why


def test_all_mistakes_are_reported_at_once() -> None:
    wrong = changed("source.fetch", {"kind": "Url", "url": 1, "cache": {"kind": "Never"}})
    del wrong["name"]
    found = problems(wrong | {"extra": 1, "kind": "x"})
    assert [path_text(problem.path) for problem in found] == [
        "kind",
        "metadata[0].fetch.url",
        "metadata[0].fetch.cache.kind",
        "extra",
        "",
    ]
    assert found[-1].what == "DatasetSnapshot lacks 'name'"


def test_errors_become_diagnostics_with_their_paths() -> None:
    expected = r"^name: expected text, found the number 1 \(and 1 more\)$"
    with pytest.raises(ManifestErrors, match=expected) as caught:
        from_mapping(DatasetSnapshot, changed("kind", "x") | {"name": 1})
    first, second = caught.value.diagnostics()
    assert first.what == "name: expected text, found the number 1"
    assert (second.code, second.what) == ("unknown-value", "kind: 'x' is no DatasetKind")


def test_a_path_to_begin_with_goes_before_every_place() -> None:
    with pytest.raises(ManifestErrors) as caught:
        from_mapping(DatasetSnapshot, changed("kind", "x"), path=("plan", 3))
    assert path_text(caught.value.problems[0].path) == "plan[3].kind"


@pytest.mark.parametrize("value", [None, 1, "x", [], [1]])
@pytest.mark.parametrize("cls", [DatasetSnapshot, events.FetchStep, DataSchema, ExtraAttributes])
def test_what_is_no_mapping_is_refused(cls: Any, value: Any) -> None:
    assert problems(value, cls)[0].code == "wrong-type"


@pytest.mark.parametrize("spelling", ["FilesGlob", "filesGlob", "filesglob"])
def test_kinds_and_values_may_begin_with_or_be_in_lower_case(spelling: str) -> None:
    value = {
        "kind": spelling,
        "path": "x",
        "order": f"b{'yName' if spelling[0] == 'f' else 'yname'}",
    }
    assert from_mapping(events.FetchStep, value).order is SourceOrdering.BY_NAME


@pytest.mark.parametrize("spelling", ["filesGLOB", "FILESGLOB", "FilesGlob "])
def test_other_spellings_of_a_kind_are_refused(spelling: str) -> None:
    assert problems({"kind": spelling, "path": "x"}, events.FetchStep)[0].code == "unknown-kind"


def test_a_class_may_be_read_with_or_without_its_kind() -> None:
    assert from_mapping(ReadStepCsv, {"header": True}) == ReadStepCsv(header=True)
    assert from_mapping(ReadStepCsv, {"kind": "csv"}) == ReadStepCsv()
    assert problems({"kind": "Json"}, ReadStepCsv)[0].fix == "write `kind: Csv`"


def test_null_is_the_same_as_absent() -> None:
    assert from_mapping(SetInfo, {"keywords": None, "description": "x"}) == SetInfo("x")


NEW = {"fields": [{"name": "a", "type": "Int32"}]}


@pytest.mark.parametrize(
    ("value", "old", "new"),
    [
        ({"schema": ["a INT"]}, ("a INT",), False),
        ({"ddlSchema": ["a INT"]}, ("a INT",), False),
        ({"schema": []}, (), False),
        ({"schema": NEW}, None, True),
        ({}, None, False),
    ],
)
def test_a_read_schema_is_told_by_its_type(
    value: dict[str, Any], old: tuple[str, ...] | None, new: bool
) -> None:
    step = from_mapping(ReadStepCsv, value)
    assert step.ddl_schema == old
    assert (step.schema is not None) is new


def test_two_read_schemas_are_refused() -> None:
    found = problems({"kind": "Csv", "ddlSchema": ["a INT"], "schema": NEW}, events.ReadStep)
    assert [problem.code for problem in found] == ["two-schemas"]
    twice = problems({"kind": "Csv", "ddlSchema": ["a INT"], "schema": ["a INT"]}, events.ReadStep)
    assert [problem.code for problem in twice] == ["given-twice"]


def test_a_value_with_both_schemas_is_still_shown_whole() -> None:
    field = events.DataField(name="a", type=DataTypeInt32())
    both = ReadStepCsv(ddl_schema=("a INT",), schema=DataSchema((field,)))
    assert to_mapping(both) == {
        "kind": "Csv",
        "ddlSchema": ["a INT"],
        "schema": {"fields": [{"name": "a", "type": {"kind": "Int32"}}]},
    }


def test_the_schema_of_a_dataset_is_bytes_or_fields_and_not_absent() -> None:
    arrow = SetDataSchema(raw_arrow_schema=b"\0\1")
    assert from_mapping(SetDataSchema, {"schema": "AAE="}) == arrow
    assert from_mapping(SetDataSchema, {"rawArrowSchema": "AAE="}) == arrow
    assert from_mapping(SetDataSchema, {"schema": NEW}).schema is not None
    assert problems({"kind": "SetDataSchema"}, SetDataSchema)[0].code == "missing-field"
    assert problems({"schema": "A A="}, SetDataSchema)[0].code == "invalid-base64"
    assert problems({"schema": 1}, SetDataSchema)[0].code == "wrong-type"


@pytest.mark.parametrize(
    ("version", "key"), [(2, "schema"), (3, "rawArrowSchema"), (None, "schema")]
)
def test_the_bytes_of_a_schema_are_called_as_the_version_of_the_block_has_it(
    version: int | None, key: str
) -> None:
    time = Timestamp.parse("2024-01-01T00:00:00Z")
    event = SetDataSchema(raw_arrow_schema=b"\0\1")
    block = events.MetadataBlock(system_time=time, sequence_number=1, event=event)
    manifest = to_manifest("MetadataBlock", block, version)
    assert manifest["content"]["event"] == {"kind": "SetDataSchema", key: "AAE="}
    assert from_manifest(manifest)[2] == block
    fields = SetDataSchema(schema=from_mapping(DataSchema, NEW))
    other = events.MetadataBlock(system_time=time, sequence_number=1, event=fields)
    assert set(to_manifest("MetadataBlock", other, version)["content"]["event"]) == {
        "kind",
        "schema",
    }


def test_a_type_may_be_its_name_only_if_nothing_more_is_needed() -> None:
    short = {"fields": [{"name": "a", "type": "uInt8"}]}
    assert isinstance(from_mapping(DataSchema, short).fields[0].type, events.DataTypeUInt8)
    decimal = problems({"fields": [{"name": "a", "type": "Decimal"}]}, DataSchema)
    assert [problem.what for problem in decimal] == [
        "DataTypeDecimal lacks 'precision'",
        "DataTypeDecimal lacks 'scale'",
    ]
    assert problems({"fields": [{"name": "a", "type": "Int33"}]}, DataSchema)[0].fix.startswith(
        "did"
    )


@pytest.mark.parametrize("size", [-1, 2**64])
def test_numbers_out_of_range_are_refused(size: int) -> None:
    value = {"physicalHash": f"f1620{'00' * 32}", "size": size}
    assert problems(value, events.Checkpoint)[0].code == "out-of-range"


@pytest.mark.parametrize("size", [1.0, "1", True, [1]])
def test_only_whole_numbers_are_numbers(size: Any) -> None:
    value = {"physicalHash": f"f1620{'00' * 32}", "size": size}
    assert problems(value, events.Checkpoint)[0].code == "wrong-type"


def test_extra_attributes_are_kept_compact_and_sorted() -> None:
    found = from_mapping(ExtraAttributes, {"b/x": [1, None, "ü"], "a/y": {"d": 1, "c": True}})
    assert found.entries == '{"a/y":{"c":true,"d":1},"b/x":[1,null,"ü"]}'


@pytest.mark.parametrize("value", [{1: 2}, {"a": {2: 3}}, {"a": float("nan")}, {"a": "\ud800"}])
def test_attributes_that_are_not_json_are_refused(value: Any) -> None:
    assert problems(value, ExtraAttributes)[0].code == "invalid-attributes"


@pytest.mark.parametrize("text", ["", "[]", "{", "1"])
def test_stored_attributes_that_are_no_object_cannot_be_shown(text: str) -> None:
    with pytest.raises(InvalidAttributesError):
        to_mapping(ExtraAttributes(text))


def test_answers_of_engines_stand_for_themselves() -> None:
    root = RawQueryResponseRoot(RawQueryResponseSuccess(num_records=3))
    assert to_mapping(root) == {"kind": "Success", "numRecords": 3}


def test_endless_nesting_is_refused() -> None:
    inner: dict[str, Any] = {"kind": "Int32"}
    for _ in range(5_000):
        inner = {"kind": "Option", "inner": inner}
    assert problems({"fields": [{"name": "a", "type": inner}]}, DataSchema)[-1].code == "too-deep"
    attributes: dict[str, Any] = {}
    for _ in range(5_000):
        attributes = {"a": attributes}
    assert problems(attributes, ExtraAttributes)[-1].code == "too-deep"


@pytest.mark.parametrize(
    ("manifest", "place", "code"),
    [
        (None, "", "wrong-type"),
        ([], "", "wrong-type"),
        ({}, "kind", "unknown-kind"),
        ({"kind": "datasetSnapshot"}, "kind", "unknown-kind"),
        ({"kind": ["x"]}, "kind", "unknown-kind"),
        ({"kind": "DatasetSnapshot", "content": SNAPSHOT}, "version", "unsupported-version"),
        ({"kind": "DatasetSnapshot", "version": 2}, "version", "unsupported-version"),
        ({"kind": "DatasetSnapshot", "version": True}, "version", "unsupported-version"),
        ({"kind": "DatasetSnapshot", "version": 1, "contents": 1}, "contents", "unknown-field"),
        ({"kind": "DatasetSnapshot", "version": 1}, "content", "wrong-type"),
        ({"kind": "DatasetSnapshot", "version": 1, "content": {}}, "content", "missing-field"),
    ],
)
def test_a_manifest_is_a_known_kind_in_a_known_version(
    manifest: Any, place: str, code: str
) -> None:
    with pytest.raises(ManifestErrors) as caught:
        from_manifest(manifest)
    assert (path_text(caught.value.problems[0].path), caught.value.problems[0].code) == (
        place,
        code,
    )


def test_a_snapshot_is_read_from_its_manifest() -> None:
    kind, version, found = from_manifest(
        {"kind": "DatasetSnapshot", "version": 1, "content": SNAPSHOT}
    )
    assert (kind, version, found.kind) == ("DatasetSnapshot", 1, DatasetKind.ROOT)
    assert to_manifest(kind, found)["content"] == SNAPSHOT


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_keys = st.sampled_from(["kind", "name", "metadata", "fetch", "read", "schema", "fields", "type"])
_kinds = st.sampled_from(["Root", "SetPollingSource", "Url", "Csv", "Option", "SetDataSchema"])
_trees = st.recursive(
    _scalars | _kinds,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_keys | st.integers(0, 2), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(max_examples=examples(100, 2_000))
@given(_trees, st.sampled_from([DatasetSnapshot, events.MetadataEvent, DataSchema]))
def test_any_value_is_read_or_refused(tree: Any, cls: Any) -> None:
    try:
        value = from_mapping(cls, tree)
    except ManifestErrors as errors:
        assert all(problem.what and problem.why and problem.fix for problem in errors.problems)
    else:
        assert from_mapping(cls, to_mapping(value)) == value
