"""Shapefiles: archives, encodings, types and shapes, read from what GDAL wrote."""

import datetime
import json
import struct
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.prepare import DamagedArchiveError
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.geo import shapefile
from odfbuild.executors.ingest.read.geo.geometry import geojson_of
from odfbuild.executors.ingest.read.geo.shapefile import encoding_by_language, encoding_by_name
from odfbuild.executors.ingest.read.problems import UnsupportedReadError
from odfbuild.odf.events import ReadStepEsriShapefile
from tests.executors.ingest.read.reading import frame_of, refusal_of, rows_of, table_of
from tests.executors.ingest.read.shapefiles import pack, parts, point, polygon, repacked, zipped
from tests.support.cases import load

SHP = ReadStepEsriShapefile()
HERE = '{"coordinates":[1.0,2.5],"type":"Point"}'
NAMES = {"name": pa.array(["a", "b", None])}
POINTS = (point(1, 2.5), None, point(1e-6, -1e16))


@pytest.fixture
def made(tmp_path: Path) -> dict[str, bytes]:
    return parts(tmp_path / "made", NAMES, POINTS)


# columns and types


def test_fields_and_shapes_are_columns(made: dict[str, bytes]) -> None:
    there = '{"coordinates":[1e-6,-1e16],"type":"Point"}'
    expected = [(HERE, "a"), (None, "b"), (there, None)]
    assert rows_of(SHP, pack(made)) == expected


def test_types_are_those_of_the_table_and_all_numbers_floats(tmp_path: Path) -> None:
    columns = {
        "X": pa.array([1.5, None]),
        "small": pa.array([1, None], pa.int32()),
        "big": pa.array([2**40, None]),
        "day": pa.array([datetime.date(2024, 2, 9), None]),
        "ok": pa.array([True, None]),
        "empty": pa.array([None, None], pa.string()),
    }
    table = table_of(SHP, pack(parts(tmp_path / "made", columns, (None, None))))
    assert {field.name: str(field.type) for field in table.schema} == {
        "X": "double",
        "big": "double",
        "day": "date32[day]",
        "empty": "string",
        "geometry": "string",
        "ok": "bool",
        "small": "double",
    }
    assert table.column_names == sorted(table.column_names)
    assert table.to_pylist() == [
        {
            "X": 1.5,
            "big": float(2**40),
            "day": datetime.date(2024, 2, 9),
            "empty": None,
            "geometry": None,
            "ok": True,
            "small": 1.0,
        },
        dict.fromkeys(table.column_names),
    ]


def test_declared_columns_have_the_declared_order_and_types(tmp_path: Path) -> None:
    columns = {
        "n": pa.array([2**53 + 1]),
        "day": pa.array([datetime.date(2024, 2, 9)]),
        "code": pa.array([7], pa.int32()),
        "price": pa.array([1.25]),
        "text": pa.array(["12"]),
    }
    made = parts(tmp_path / "made", columns, (point(1, 2.5),))
    ddl = (
        "geometry STRING",
        "n BIGINT NOT NULL",
        "day STRING",
        "code INT",
        "price DECIMAL(6,2)",
        "text INT",
        "later STRING",
    )
    found = rows_of(ReadStepEsriShapefile(ddl_schema=ddl), pack(made))
    assert found == [(HERE, 2**53 + 1, "2024-02-09", 7, Decimal("1.25"), 12, None)]


def test_rows_are_there_even_if_no_declared_column_is(made: dict[str, bytes]) -> None:
    assert rows_of(ReadStepEsriShapefile(ddl_schema=("x INT",)), pack(made)) == [(None,)] * 3


def test_a_field_called_geometry_gives_way_to_the_shapes(tmp_path: Path) -> None:
    made = parts(tmp_path / "made", {"geometry": pa.array(["x"])}, (point(1, 2.5),))
    assert rows_of(SHP, pack(made)) == [(HERE,)]


def test_a_shapefile_without_shapes_has_no_rows(tmp_path: Path) -> None:
    made = parts(tmp_path / "made", {"a": pa.array([], pa.string())}, ())
    assert table_of(SHP, pack(made)).num_rows == 0


def test_an_empty_file_is_no_rows_where_columns_are_declared() -> None:
    assert frame_of(SHP, "") is None
    assert rows_of(ReadStepEsriShapefile(ddl_schema=("a INT",)), "") == []


def test_many_shapes_go_to_disk_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"n": pa.array(range(1_000))}
    made = parts(tmp_path / "made", columns, [point(n, n) for n in range(1_000)])
    path = tmp_path / "in.zip"
    path.write_bytes(pack(made))
    monkeypatch.setattr(shapefile, "LARGE", 0)
    monkeypatch.setattr(shapefile, "_TOGETHER", 7)
    found = read(SHP, path, staging=tmp_path, name="in")
    assert found is not None
    assert found.parts
    numbers = [n for batch in found.batches() for n in batch.column("n").to_pylist()]
    assert numbers == list(range(1_000))


def test_nothing_stays_behind(made: dict[str, bytes], tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    (tmp_path / "in.zip").write_bytes(pack(made))
    read(SHP, tmp_path / "in.zip", staging=staging, name="in")
    assert list(staging.iterdir()) == []


# archives


@pytest.mark.parametrize("wanted", ["b/y.shp", "b/*", "*/y.shp", "*y*"])
def test_one_of_several_is_chosen_by_name_or_pattern(
    made: dict[str, bytes], tmp_path: Path, wanted: str
) -> None:
    other = parts(tmp_path / "other", {"name": pa.array(["z"])}, (None,))
    files = {f"a/x{suffix}": data for suffix, data in made.items()}
    files |= {f"b/y{suffix}": data for suffix, data in other.items()}
    step = ReadStepEsriShapefile(sub_path=wanted)
    assert rows_of(step, zipped({**files, "b/readme.txt": b""})) == [(None, "z")]


def test_an_exact_name_wins_over_a_pattern(made: dict[str, bytes], tmp_path: Path) -> None:
    other = parts(tmp_path / "other", {"name": pa.array(["z"])}, (None,))
    files = {f"[x]{suffix}": data for suffix, data in other.items()}
    files |= {f"x{suffix}": data for suffix, data in made.items()}
    assert rows_of(ReadStepEsriShapefile(sub_path="[x].shp"), zipped(files)) == [(None, "z")]


def test_capitals_of_suffixes_and_files_of_macos_do_not_matter(made: dict[str, bytes]) -> None:
    files = {f"made{suffix.upper()}": data for suffix, data in made.items()}
    files |= {"__MACOSX/._made.shp": b"x", "._made.SHP": b"x"}
    assert len(rows_of(SHP, zipped(files))) == 3


def test_a_missing_index_is_made_anew(made: dict[str, bytes]) -> None:
    assert len(rows_of(SHP, repacked(made, shx=None))) == 3


# encodings

ENCODED = [
    ("UTF-8", "Åland 東京"),
    ("CP1252", "Åland “x” €"),
    ("ISO-8859-1", "Ærø"),
    ("CP1251", "Київ"),
    ("CP932", "東京"),
    ("CP850", "Ærø"),
]


@pytest.mark.parametrize(("encoding", "text"), ENCODED)
def test_texts_are_in_the_encoding_that_is_declared(
    tmp_path: Path, encoding: str, text: str
) -> None:
    columns = {"name": pa.array([text, "plain"])}
    made = parts(tmp_path / "made", columns, (None, None), encoding=encoding)
    assert rows_of(SHP, pack(made)) == [(None, text), (None, "plain")]


@pytest.mark.parametrize(
    ("mark", "encoding"), [(0xC9, "cp1251"), (0x57, "cp1252"), (0x65, "cp866")]
)
def test_without_a_cpg_file_the_mark_of_the_table_tells(
    made: dict[str, bytes], mark: int, encoding: str
) -> None:
    text = "Київ" if encoding != "cp1252" else "Åé"
    raw = text.encode(encoding)
    table = bytearray(made[".dbf"].replace(b"a".ljust(80), raw.ljust(80)))
    table[29] = mark
    rows = rows_of(SHP, repacked(made, dbf=bytes(table), cpg=None))
    assert rows[0] == (HERE, text)


@pytest.mark.parametrize("text", ["Åé", "東京"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_without_any_word_texts_are_utf8_if_they_can_be_and_else_latin(
    made: dict[str, bytes], text: str, encoding: str
) -> None:
    raw = text.encode(encoding, "replace")
    table = bytearray(made[".dbf"].replace(b"a".ljust(80), raw.ljust(80)))
    table[29] = 0
    rows = rows_of(SHP, repacked(made, dbf=bytes(table), cpg=None))
    assert rows[0] == (HERE, raw.decode(encoding))


def test_a_letter_that_the_width_of_the_field_cut_is_left_out(made: dict[str, bytes]) -> None:
    raw = ("a" * 79 + "é").encode()[:80]
    table = made[".dbf"].replace(b"a".ljust(80), raw)
    assert rows_of(SHP, repacked(made, dbf=table))[0] == (HERE, "a" * 79)


def test_bytes_that_are_no_text_are_refused_with_row_and_column(made: dict[str, bytes]) -> None:
    table = made[".dbf"].replace(b"b".ljust(80), b"\xff".ljust(80))
    error = refusal_of(SHP, repacked(made, dbf=table))
    assert error.what == r"in: row 2: column name: b'\xff' is not text in utf-8"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("UTF-8", "utf-8"),
        ("utf8\r\n", "utf-8"),
        ("65001", "utf-8"),
        ("1252", "cp1252"),
        ("ANSI 1251", "cp1251"),
        ("OEM 437", "cp437"),
        ("windows-1250", "cp1250"),
        ("ISO 88591", "iso8859-1"),
        ("ISO-8859-15", "iso8859-15"),
        ("8859_2", "iso8859-2"),
        ("Big5", "big5"),
    ],
)
def test_encodings_are_known_in_the_ways_that_people_write_them(
    declared: str, expected: str
) -> None:
    assert encoding_by_name(declared, "in") == expected


def test_every_mark_that_is_known_stands_for_an_encoding() -> None:
    known = [each for each in map(encoding_by_language, range(256)) if each]
    assert all("a".encode(each) == b"a" for each in known)
    assert encoding_by_language(0) is None


# shapes

SQUARE = ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0))


def test_polygons_come_out_as_several(tmp_path: Path) -> None:
    made = parts(tmp_path / "made", {"a": pa.array(["x"])}, (polygon(SQUARE),), kind="Polygon")
    (row,) = rows_of(SHP, pack(made))
    text = '{"coordinates":[[[[0.0,0.0],[0.0,1.0],[1.0,1.0],[0.0,0.0]]]],"type":"MultiPolygon"}'
    assert row == ("x", text)


def test_a_ring_that_is_not_closed_is_taken_as_it_is(tmp_path: Path) -> None:
    made = parts(tmp_path / "made", {"a": pa.array(["x"])}, (polygon(SQUARE),), kind="Polygon")
    shapes = made[".shp"][:-16] + struct.pack("<2d", 0.5, 0.0)
    ((_, text),) = rows_of(SHP, repacked(made, shp=shapes))
    assert json.loads(text)["coordinates"][0][0][-1] == [0.5, 0.0]


def wkb(code: int, *numbers: float, counts: tuple[int, ...] = (), order: str = "<") -> bytes:
    head = struct.pack(f"{order}BI", order == "<", code)
    return head + struct.pack(f"{order}{len(counts)}I{len(numbers)}d", *counts, *numbers)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (wkb(1, 1, 2), ("Point", [1.0, 2.0])),
        (wkb(1, 1, 2, order=">"), ("Point", [1.0, 2.0])),
        (wkb(1001, 1, 2, 3), ("Point", [1.0, 2.0, 3.0])),
        (wkb(2001, 1, 2, 9), ("Point", [1.0, 2.0])),
        (wkb(3001, 1, 2, 3, 9), ("Point", [1.0, 2.0, 3.0])),
        (wkb(1 | 1 << 31, 1, 2, 3), ("Point", [1.0, 2.0, 3.0])),
        (wkb(1 | 1 << 30, 1, 2, 9), ("Point", [1.0, 2.0])),
        (wkb(1, float("nan"), float("nan")), ("Point", [])),
        (wkb(2, 1, 2, 3, 4, counts=(2,)), ("MultiLineString", [[[1.0, 2.0], [3.0, 4.0]]])),
        (wkb(4, counts=(1,)) + wkb(1, 1, 2), ("MultiPoint", [[1.0, 2.0]])),
        (
            wkb(5, counts=(1,)) + wkb(2, 1, 2, counts=(1,)),
            ("MultiLineString", [[[1.0, 2.0]]]),
        ),
        (wkb(6, counts=(1,)) + polygon(SQUARE), ("MultiPolygon", [[list(map(list, SQUARE))]])),
        (
            wkb(1016, counts=(1,)) + wkb(1017, 1, 2, 3, counts=(1, 1)),
            ("MultiPolygon", [[[[1.0, 2.0, 3.0]]]]),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_shape_has_its_form(data: bytes, expected: tuple[str, Any]) -> None:
    found = json.loads(geojson_of(data))
    assert (found["type"], found["coordinates"]) == expected


def test_a_collection_holds_geometries() -> None:
    text = geojson_of(wkb(7, counts=(1,)) + wkb(1, 1, 2.5))
    assert text == f'{{"geometries":[{HERE}],"type":"GeometryCollection"}}'


@given(st.binary(max_size=60))
def test_any_bytes_are_a_geometry_or_refused(data: bytes) -> None:
    try:
        text = geojson_of(data)
    except ValueError:
        return
    assert json.loads(text)["type"]


# what is refused


def cut(data: bytes, count: int = 1) -> bytes:
    return data[:-count]


def bad_archives(made: Mapping[str, bytes]) -> list[tuple[bytes, str]]:
    two = {f"a/x{suffix}": data for suffix, data in made.items()}
    two |= {f"b/y{suffix}": data for suffix, data in made.items()}
    short_index = made[".shx"][:100] + made[".shx"][100:108]
    header = bytearray(short_index)
    header[24:28] = struct.pack(">i", 54)
    return [
        (b"PK\x03\x04garbage", "in is not a complete zip archive"),
        (made[".shp"], "in is not a complete zip archive"),
        (zipped({"readme.txt": b""}), "in has no shapefile"),
        (zipped(two), "in has 2 shapefiles"),
        (repacked(made, dbf=None), "in: made.shp has no .dbf file next to it"),
        (repacked(made, shp=cut(made[".shp"])), "in: made.shp was cut off"),
        (repacked(made, shp=b""), "in: made.shp is not a file of shapes"),
        (repacked(made, shp=b"x" * 200), "in: made.shp is not a file of shapes"),
        (repacked(made, shx=cut(made[".shx"])), "in: the .shx file of made.shp was cut off"),
        (repacked(made, dbf=cut(made[".dbf"], 2)), "in: the .dbf file of made.shp was cut off"),
        (repacked(made, dbf=b"\3"), "in: the .dbf file of made.shp was cut off"),
        (repacked(made, dbf=b"\0" * 99), "in: the .dbf file of made.shp was cut off"),
        (repacked(made, shx=bytes(header)), "in: made.shp has 1 shape and 3 records"),
        (repacked(made, cpg=b"klingon"), "in: its .cpg file names the encoding 'klingon'"),
        (repacked(made, cpg=b"base64"), "in: its .cpg file names the encoding 'base64'"),
    ]


@pytest.mark.parametrize("at", range(15))
def test_a_bad_archive_is_refused_in_these_words(made: dict[str, bytes], at: int) -> None:
    data, what = bad_archives(made)[at]
    assert refusal_of(SHP, data).what == what


def test_an_archive_that_is_damaged_inside_is_refused(made: dict[str, bytes]) -> None:
    data = bytearray(pack(made))
    data[60] ^= 0xFF
    assert "in is not a complete zip file" in refusal_of(SHP, bytes(data), DamagedArchiveError).what


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ("none.shp", "no shapefile of in matches `subPath: none.shp`"),
        ("*.dbf", "no shapefile of in matches `subPath: *.dbf`"),
        ("*", "2 shapefiles of in match `subPath: *`"),
    ],
)
def test_a_sub_path_that_does_not_choose_one_lists_what_is_there(
    made: dict[str, bytes], wanted: str, what: str
) -> None:
    files = {f"{stem}{suffix}": data for stem in ("a/x", "b/y") for suffix, data in made.items()}
    error = refusal_of(ReadStepEsriShapefile(sub_path=wanted), zipped(files))
    assert error.what == what
    assert error.why == "the archive has a/x.shp, b/y.shp"


@pytest.mark.parametrize(
    ("ddl", "what", "fix"),
    [
        ("NAME STRING", "in lacks the column NAME", "capitals matter: write `name`"),
        ("x INT NOT NULL", "in lacks the column x", "correct the name in `read.schema`"),
        ("name STRING NOT NULL", "in: row 3: column name: no value", "correct the file"),
        ("geometry STRING NOT NULL", "in: row 2: column geometry: no value", "correct the file"),
        ("name INT", "in: row 1: column name: 'a' is not an integer", "correct the type"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    made: dict[str, bytes], ddl: str, what: str, fix: str
) -> None:
    error = refusal_of(ReadStepEsriShapefile(ddl_schema=(ddl,)), pack(made))
    assert error.what.startswith(what)
    assert error.fix.startswith(fix)


def test_without_its_library_the_extra_is_named(
    made: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    error = refusal_of(SHP, pack(made), UnsupportedReadError)
    assert error.what == "`read: {kind: EsriShapefile}` needs pyogrio, which is not installed"
    assert error.fix == "install it: pip install 'odfbuild[geo]'"


# the published cases: the archive of the reference is not carried, one like it stands for it

CASES = {case["id"]: case for case in load("readers-shapefile")["cases"]}


@pytest.fixture
def ukraine(tmp_path: Path) -> bytes:
    """An archive with the entries and columns of the published one."""
    rows = CASES["shapefile-with-schema"]["expect"]["table"]["rows"]
    columns: dict[str, Any] = {
        each["name"]: pa.array([None] * len(rows), pa.string())
        if each["type"] in ("Null", "String")
        else pa.array([1.0] * len(rows))
        for each in CASES["shapefile-infer"]["expect"]["columns"]
        if each["name"] != "geometry"
    }
    columns |= {
        name: pa.array([row[at] for row in rows])
        for at, name in enumerate(("iso", "name_0", "name_1"))
    }
    made = parts(tmp_path / "made", columns, [polygon(SQUARE)] * len(rows), kind="Polygon")
    entries = {f"gg870xt4706{suffix}": data for suffix, data in made.items()}
    return zipped({**entries, "gg870xt4706.cst": b"", "wfsrequest.txt": b""})


def step_of(case: dict[str, Any]) -> ReadStepEsriShapefile:
    fields = case["read"].get("schema", {}).get("fields", ())
    ddl = tuple(f"{each['name']} {each['type']} NOT NULL" for each in fields)
    return ReadStepEsriShapefile(ddl_schema=ddl or None, sub_path=case["read"].get("subPath"))


def test_the_published_rows_are_read(ukraine: bytes) -> None:
    case = CASES["shapefile-with-schema"]
    assert [list(row) for row in rows_of(step_of(case), ukraine)] == case["expect"]["table"]["rows"]


def test_the_published_columns_are_inferred(ukraine: bytes) -> None:
    types = {"Null": "string", "String": "string", "Float64": "double"}
    expected = CASES["shapefile-infer"]["expect"]["columns"]
    found = table_of(step_of(CASES["shapefile-infer"]), ukraine).schema
    assert [(field.name, str(field.type)) for field in found] == [
        (each["name"], types[each["type"]]) for each in expected
    ]


def test_the_published_sub_path_is_found(ukraine: bytes) -> None:
    assert len(rows_of(step_of(CASES["shapefile-sub-path-exact"]), ukraine)) == 27


@pytest.mark.parametrize("name", ["shapefile-sub-path-missing", "shapefile-two-shp-no-sub-path"])
def test_the_published_refusals_name_what_they_mention(ukraine: bytes, name: str) -> None:
    case = CASES[name]
    entries = case["input"]["entries"]
    data = ukraine if len(entries) > 2 else zipped(dict.fromkeys(entries, b""))
    error = refusal_of(step_of(case), data)
    said = " ".join((error.what, error.why, error.fix))
    assert all(mention in said for mention in case["expect"]["mentions"])


def test_shapes_that_are_declared_as_binary_are_well_known_binary(made: dict[str, bytes]) -> None:
    texts = table_of(ReadStepEsriShapefile(ddl_schema=("geometry STRING",)), pack(made))
    found = table_of(ReadStepEsriShapefile(ddl_schema=("geometry BINARY",)), pack(made))
    assert found["geometry"].null_count < len(found)
    for text, shape in zip(texts["geometry"], found["geometry"], strict=True):
        assert (None if shape.as_py() is None else geojson_of(shape.as_py())) == text.as_py()
