"""GeoJSON: what of a feature becomes a column, in any layout of the text, and what is refused."""

import json
import tracemalloc
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read import read, text
from odfbuild.executors.ingest.read.geo import features as collection
from odfbuild.executors.ingest.read.geo import geojson
from odfbuild.executors.ingest.read.geo.features import JsonStream, NotJsonError
from odfbuild.executors.ingest.read.geo.geometry import geometry_text
from odfbuild.odf.events import ReadStepGeoJson, ReadStepNdGeoJson
from tests.executors.ingest.read.reading import frame_of, refusal_of, rows_of, table_of

DOC, ND = ReadStepGeoJson(), ReadStepNdGeoJson()
POINT = {"type": "Point", "coordinates": [1.0, 2.5]}
POINT_TEXT = '{"coordinates":[1.0,2.5],"type":"Point"}'


def feature(properties: Any = None, geometry: Any = None, **members: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": geometry, **members}


def document(*features: Any, **members: Any) -> str:
    return json.dumps({"type": "FeatureCollection", "features": features, **members})


def lines(*features: Any) -> str:
    return "".join(json.dumps(each) + "\n" for each in features)


# what a feature becomes


def test_properties_and_the_geometry_are_the_columns() -> None:
    table = table_of(DOC, document(feature({"b": 1, "a": "x"}, POINT)))
    assert table.column_names == ["a", "b", "geometry"]
    assert table.to_pylist() == [{"a": "x", "b": 1, "geometry": POINT_TEXT}]


def test_columns_that_are_declared_come_in_their_order_and_types() -> None:
    step = ReadStepGeoJson(ddl_schema=("geometry STRING", "day DATE", "price DECIMAL(5,2)"))
    rows = rows_of(step, document(feature({"price": 1.25, "day": "2024-02-29", "z": 1}, POINT)))
    assert rows == [(POINT_TEXT, date(2024, 2, 29), Decimal("1.25"))]


def test_null_properties_and_null_geometries_are_nulls() -> None:
    table = table_of(DOC, document(feature({"a": 1}), feature(None, POINT)))
    assert table.to_pylist() == [{"a": 1, "geometry": None}, {"a": None, "geometry": POINT_TEXT}]


@pytest.mark.parametrize("kind", [ReadStepGeoJson, ReadStepNdGeoJson])
@pytest.mark.parametrize(("type", "id"), [("STRING", "n1"), ("BIGINT", 7)])
def test_the_id_of_a_feature_is_a_column_where_that_is_declared(
    kind: Any, type: str, id: str | int
) -> None:
    step = kind(ddl_schema=(f"id {type}", "a BIGINT", "geometry STRING"))
    write = document if kind is ReadStepGeoJson else lines
    text = write(feature({"a": 1}, id=id), feature({"a": 2}))
    assert rows_of(step, text) == [(id, 1, None), (None, 2, None)]
    inferred = table_of(kind(), write(feature({"a": 1}, id=id)))
    assert inferred.column_names == ["a", "geometry"]


def test_a_property_called_id_comes_before_the_id_of_the_feature() -> None:
    step = ReadStepGeoJson(ddl_schema=("id STRING",))
    assert rows_of(step, document(feature({"id": "mine"}, id="theirs"))) == [("mine",)]


def test_a_property_called_geometry_gives_way_to_the_geometry() -> None:
    assert rows_of(DOC, document(feature({"geometry": "flat"}, POINT))) == [(POINT_TEXT,)]


def test_identifiers_boxes_and_foreign_members_are_left_out() -> None:
    rows = rows_of(
        DOC, document(feature({"a": 1}, None, id=7, bbox=[0, 0, 1, 1], style={}), crs={})
    )
    assert rows == [(1, None)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1", "1"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("-0.0", "-0.0"),
        ("1e2", "100.0"),
        ("12345678.125", "12345678.125"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("0.0001", "0.0001"),
        ("0.00001", "0.00001"),
        ("-1.25e-5", "-0.0000125"),
        ("1e-6", "1e-6"),
        ("1.5e-7", "1.5e-7"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("-1.5e300", "-1.5e300"),
    ],
)
def test_numbers_of_a_geometry_are_written_as_the_reference_writes_them(
    written: str, expected: str
) -> None:
    data = document(feature({}, {"coordinates": ["@"]})).replace('"@"', written)
    assert rows_of(DOC, data) == [(f'{{"coordinates":[{expected}]}}',)]


def test_letters_and_exponents_inside_texts_of_a_geometry_stay() -> None:
    made = geometry_text({"coordinates": [1e-6], "né": 'a"1e-05', "x": "1e+16"})
    assert made == '{"coordinates":[1e-6],"né":"a\\"1e-05","x":"1e+16"}'


@given(st.recursive(st.floats(allow_nan=False, allow_infinity=False) | st.integers(), st.lists))
def test_a_geometry_is_the_same_value_when_it_is_read_again(coordinates: Any) -> None:
    assert json.loads(geometry_text({"coordinates": coordinates})) == {"coordinates": coordinates}


# layouts of the text


def test_members_may_come_in_any_order() -> None:
    backwards = {"geometry": None, "properties": {"a": 1}, "type": "Feature"}
    data = json.dumps({"features": [backwards], "x": [1], "type": "FeatureCollection"})
    assert rows_of(DOC, data) == [(1, None)]


def test_a_text_with_indents_and_a_byte_order_mark_is_read() -> None:
    whole = json.loads(document(feature({"a": "é"}, POINT), feature({"a": "ö"}, POINT)))
    data = b"\xef\xbb\xbf" + json.dumps(whole, indent=4, ensure_ascii=False).encode()
    assert rows_of(DOC, data) == [("é", POINT_TEXT), ("ö", POINT_TEXT)]


@pytest.mark.parametrize("data", ["", " \n\t", document(), "\ufeff"])
def test_nothing_is_no_rows_where_columns_are_declared_and_else_no_table(data: str) -> None:
    assert frame_of(DOC, data) is None
    assert rows_of(ReadStepGeoJson(ddl_schema=("a INT",)), data) == []


def test_a_file_of_blank_lines_has_no_features() -> None:
    assert frame_of(ND, " \n\r\n") is None
    assert rows_of(ReadStepNdGeoJson(ddl_schema=("a INT",)), "\n\n") == []


def test_the_last_line_may_lack_its_end_and_lines_may_end_with_a_return() -> None:
    data = lines(feature({"a": 1}), feature({"a": 2})).replace("\n", "\r\n").removesuffix("\r\n")
    assert rows_of(ND, data) == [(1, None), (2, None)]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
FEATURES = st.lists(
    st.builds(
        feature,
        st.none() | st.dictionaries(st.sampled_from("ab"), st.text(max_size=9)),
        st.none() | st.builds(dict, coordinates=st.lists(st.floats(-1e20, 1e20))),
        extra=st.lists(SCALARS.filter(lambda value: value not in (float("inf"), float("-inf")))),
    ),
    min_size=1,
    max_size=5,
)
COLUMNS = ("a STRING", "b STRING", "geometry STRING")


def seen(each: dict[str, Any]) -> tuple[Any, ...]:
    properties, geometry = each["properties"] or {}, each["geometry"]
    shape = None if geometry is None else geometry_text(geometry)
    return properties.get("a"), properties.get("b"), shape


@given(FEATURES, st.integers(1, 50), st.booleans(), st.sampled_from([None, 1]))
def test_features_come_back_over_any_seam(
    features: list[dict[str, Any]], block: int, is_ascii: bool, indent: int | None
) -> None:
    whole = json.loads(document(*features))
    data = json.dumps(whole, ensure_ascii=is_ascii, indent=indent)
    by_line = "\n".join(json.dumps(each, ensure_ascii=is_ascii) for each in features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", block)
        patch.setattr(geojson, "LARGE", 0)
        patch.setattr(geojson, "_PIECE", block)
        expected = [seen(each) for each in features]
        assert rows_of(ReadStepGeoJson(ddl_schema=COLUMNS), data) == expected
        assert rows_of(ReadStepNdGeoJson(ddl_schema=COLUMNS), by_line) == expected


def test_only_a_part_of_a_large_file_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geojson, "LARGE", 0)
    monkeypatch.setattr(geojson, "_PIECE", 1 << 16)
    monkeypatch.setattr(text, "BLOCK", 1 << 16)
    path = tmp_path / "large.geojson"
    path.write_text(document(*[feature({"a": "x" * 2_000}, POINT)] * 2_000))
    tracemalloc.start()
    step = ReadStepGeoJson(ddl_schema=("a STRING", "geometry STRING"))
    found = read(step, path, staging=tmp_path, name="large")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.rows == 2_000
    assert found.parts
    assert peak < path.stat().st_size / 2


# what is refused

NO = ", not 'FeatureCollection'"
NONE = " is not a feature"
HUGE = "`geometry` has a number beyond the range of numbers"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("[]", "in:1: an array is not an object"),
        ("7", "in:1: the number 7 is not an object"),
        ("{}", "in: the document has no `type`"),
        ('{"type": "FeatureCollection"}', "in: the document has no `features`"),
        ('{"features": []}', "in: the document has no `type`"),
        ('{"type": "Topology", "arcs": []}', f"in:1: `type` is the text 'Topology'{NO}"),
        ('{"features": [],\n"type": null}', f"in:2: `type` is null{NO}"),
        ('{"type": "FeatureCollection",\n\n"features": {}}', "in:3: `features` is not an array"),
        (document(1), "in:1: the number 1 is not a feature"),
        (document({}), "in:1: `type` is missing, not 'Feature'"),
        (document({"type": "Point"}), "in:1: `type` is the text 'Point', not 'Feature'"),
        (document({"type": "Feature", "properties": {}}), "in:1: the feature has no `geometry`"),
        (document({"type": "Feature", "geometry": None}), "in:1: the feature has no `properties`"),
        (document(feature([1])), "in:1: `properties` is not an object"),
        (document(feature({}, "POINT (1 2)")), "in:1: `geometry` is not an object"),
        (document() + "\n{}", "in:2: not JSON at character 1"),
        (document(feature({"a": 1})).removesuffix("}]}"), "in:1: not JSON at character 104"),
        ('{"type": "FeatureCollection", "features": [\n{},]}', "in:2: not JSON at character 4"),
        ('{"type": "FeatureCollection", 1: 2}', "in:1: not JSON at character 31"),
        ('{"type" "FeatureCollection"}', "in:1: not JSON at character 9"),
        (document(feature({}, {"c": [float("nan")]})), "in:1: not JSON at character 94"),
        (document(feature({}, {"c": ["@"]})).replace('"@"', "1e999"), f"in:1: {HUGE}"),
        (b'{"type":\n"\xff"}', "in: after line 1 there are bytes that are not UTF-8"),
        ("{}".encode("utf-16"), "in is UTF-16, not UTF-8"),
        (b"PK\x03\x04", "in is a zip file, not text"),
        ("<!DOCTYPE html><html>", "in is an HTML page, not data"),
    ],
)  # fmt: skip
def test_a_bad_document_is_refused_in_these_words(data: str | bytes, what: str) -> None:
    assert refusal_of(DOC, data).what == what


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("\n\n{", "in:3: not JSON at character 2: the document ends too early"),
        (lines(feature()) + "x", "in:2: not JSON at character 1: Expecting value"),
        (lines(feature()) + "{}", "in:2: `type` is missing, not 'Feature'"),
        ("{} {}", "in:1: not JSON at character 4: text after the end of the document"),
        (document(feature()), "in:1: `type` is the text 'FeatureCollection', not 'Feature'"),
        (b"\n\xff", "in:2: byte 1 is not UTF-8"),
        ("1\n\n[]\n", f"in has 2 problems:\n  in:1: the number 1{NONE}\n  in:3: an array{NONE}"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_in_these_words(data: str | bytes, what: str) -> None:
    assert refusal_of(ND, data).what == what


def test_a_value_that_does_not_fit_is_refused_with_its_line() -> None:
    data = json.dumps(json.loads(document(feature({"a": 1}), feature({"a": "x"}))), indent=1)
    error = refusal_of(ReadStepGeoJson(ddl_schema=("a INT",)), data)
    assert error.what.startswith("in:11: column a: the text 'x' is not an integer from")
    error = refusal_of(ReadStepNdGeoJson(ddl_schema=("b INT NOT NULL",)), lines(feature({"a": 1})))
    assert error.what == "in:1: column b: no value, but the column is required"


def test_a_geometry_cannot_be_read_as_a_number() -> None:
    error = refusal_of(
        ReadStepGeoJson(ddl_schema=("geometry DOUBLE",)), document(feature({}, POINT))
    )
    assert "column geometry" in error.what
    assert "is not a number" in error.what


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert "not JSON" in refusal_of(DOC, f'{{"x": {deep}}}').what
    row = json.dumps(feature({}, {"c": 0})).replace("0", deep)
    assert "nested too deeply" in refusal_of(ND, row).what


def test_a_line_that_is_endless_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_LONGEST_LINE", 10)
    monkeypatch.setattr(text, "BLOCK", 4)
    assert refusal_of(ND, "\n" + " " * 20).what == "in:2: a line of more than 0 MiB"


@given(st.text(alphabet='[]{}:,"\\ \n1eE.-+anulltrfs', max_size=40), st.integers(1, 5))
def test_a_stream_takes_and_refuses_what_the_decoder_does(data: str, size: int) -> None:
    pieces = iter([data[at : at + size] for at in range(0, len(data), size)])
    stream = JsonStream(pieces)
    try:
        expected = json.loads(data, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        with pytest.raises(NotJsonError):
            stream.value()
            stream.finish()
    else:
        assert stream.value() == expected
        stream.finish()
