"""What is guessed from a sample: whatever it is, the readers read the file with it."""

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.sample import take_sample
from odfbuild.executors.ingest.sample.model import Sample, UnsampledError
from odfbuild.odf.events import PrepStep, ReadStep
from odfbuild.odf.manifest import from_mapping
from tests.executors.ingest.read.shapefiles import parts, point, zipped


def sample(text: str | bytes, name: str = "file.csv", *, whole: bool = True) -> Sample:
    return take_sample(text.encode() if isinstance(text, str) else text, name, whole=whole)


def ddl(found: Sample) -> list[str]:
    return [each.ddl for each in found.columns]


def rows_of(found: Sample, data: bytes, folder: Path) -> list[dict[str, Any]]:
    """Return the rows that the reader finds with what was guessed."""
    path = folder / "data"
    path.write_bytes(data)
    steps = [from_mapping(PrepStep, dict(each)) for each in found.prepare]
    columns = found.columns if found.read_as is None else found.read_as
    step = from_mapping(ReadStep, {**found.read, "schema": [each.ddl for each in columns]})
    frame = read(step, prepare(steps, path, folder), staging=folder, name="data")
    assert frame is not None
    return [row for batch in frame.batches() for row in batch.to_pylist()]


ORDERS = "order_id,ordered_at,day,total,code,sure\n" + "".join(
    f"{n},2031-04-0{n}T08:12:00Z,2031-04-0{n},{n}.5,0{n},{'true' if n > 1 else 'false'}\n"
    for n in range(1, 4)
)


def test_columns_of_a_csv_file_get_the_types_of_their_values() -> None:
    found = sample(ORDERS)
    assert found.read == {"kind": "Csv", "header": True}
    assert ddl(found) == [
        "order_id BIGINT",
        "ordered_at TIMESTAMP",
        "day DATE",
        "total DOUBLE",
        "code STRING",
        "sure BOOLEAN",
    ]
    assert found.rows == 3


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a;b\n1;2,5\n", "x.csv", {"separator": ";", "header": True}),
        ("a\tb\n1\t2\n", "x.tsv", {"separator": "\t", "header": True}),
        ("a|b\n1|2\n", "x.txt", {"separator": "|", "header": True}),
        ("1,2\n3,4\n", "x.csv", {}),
        ('"a, b",c\n"d, e",f\n', "x.csv", {}),
        ("name,city\nAda,Rome\n", "x.csv", {"header": True}),
        ("k,v\na,\\N\nb,3\n", "x.csv", {"header": True, "nullValue": "\\N"}),
        ("k,day\na,2031/04/01\n", "x.csv", {"header": True, "dateFormat": "%Y/%m/%d"}),
        ("k,day\na,01.04.2031\n", "x.csv", {"header": True, "dateFormat": "%d.%m.%Y"}),
        ("k,v\na,2031/04/01\nb,2031-04-01\n", "x.csv", {"header": True}),
    ],
)
def test_options_of_csv_are_told(text: str, name: str, options: dict[str, Any]) -> None:
    assert sample(text, name).read == {"kind": "Csv", **options}


def test_other_encodings_are_told() -> None:
    assert sample("name\nJosé\n".encode("cp1252")).read["encoding"] == "cp1252"
    assert sample("name\nJosé\n".encode("utf-16")).read["encoding"] == "utf-16"
    assert "encoding" not in sample(b"\xef\xbb\xbfname\nJos\xc3\xa9\n").read


def test_columns_without_a_name_get_one() -> None:
    found = sample("1,x\n2,y\n")
    assert ddl(found) == ["column_1 BIGINT", "column_2 STRING"]
    assert any("no header" in note for note in found.notes)
    assert [each.name for each in sample("a,,a\n1,2,3\n4,5,6\n").columns] != ["a", "", "a"]


def test_a_header_may_name_several_columns_alike_or_not_at_all(tmp_path: Path) -> None:
    data = b",value,city,value\n1,2.5,Esk,a\n2,3.5,Ardle,b\n"
    found = sample(data)
    assert found.read == {"kind": "Csv", "header": True}
    names = ["column_1", "value_2", "city", "value_4"]
    assert [each.name for each in found.columns] == names
    assert found.notes == (
        "several columns are called value: give each a better name",
        "the header leaves a column without a name: give it a better one",
    )
    rows = rows_of(found, data, tmp_path)
    assert [list(row.values()) for row in rows] == [[1, 2.5, "Esk", "a"], [2, 3.5, "Ardle", "b"]]
    assert [list(row) for row in rows] == [names, names]


def test_texts_that_are_alike_are_no_header() -> None:
    assert "header" not in sample("a,a\nb,c\n").read


def test_records_of_another_width_are_told() -> None:
    found = sample("a,b\n1,2\n3\n4,5\n")
    assert any("1 of its records" in note for note in found.notes)


def test_a_record_that_is_cut_off_is_left_out() -> None:
    assert sample("a,b\n1,2\n3,4\n5", whole=False).rows == 2


def test_json_lines_are_records() -> None:
    lines = (
        '{"id": 1, "at": "2031-04-01T08:00:00Z", "in": {"x": [1.5]}}\n{"id": 2, "tags": ["a"]}\n'
    )
    found = sample(lines, "x.ndjson")
    assert found.read == {"kind": "NdJson"}
    assert ddl(found) == [
        "id BIGINT",
        "at TIMESTAMP",
        "`in` STRUCT<x ARRAY<DOUBLE>>" if "`in`" in ddl(found)[2] else "in STRUCT<x ARRAY<DOUBLE>>",
        "tags ARRAY<STRING>",
    ]
    assert sample(lines + '{"id": 3, "a', "x.ndjson", whole=False).rows == 2


@pytest.mark.parametrize(
    ("document", "read"),
    [
        ([{"a": 1}], {"kind": "Json"}),
        (
            {"meta": {"n": 1}, "data": {"rows": [{"a": 1}]}},
            {"kind": "Json", "subPath": "data.rows"},
        ),
        ({"rows": [{"a": 1}], "errors": []}, {"kind": "Json", "subPath": "rows"}),
    ],
)
def test_the_list_of_records_is_found_in_a_document(document: Any, read: dict[str, str]) -> None:
    for indent in (None, 2):
        assert sample(json.dumps(document, indent=indent), "x.json").read == read


def test_the_beginning_of_a_document_is_enough() -> None:
    rows = [{"a": n, "b": "x" * 10} for n in range(50)]
    found = sample(json.dumps({"count": 50, "rows": rows})[:500], "x.json", whole=False)
    assert found.read == {"kind": "Json", "subPath": "rows"}
    assert 0 < found.rows < 50


def test_members_of_several_kinds_are_left_out_and_told() -> None:
    found = sample('[{"a": 1, "b": [1]}, {"a": 2, "b": {"c": 1}}]', "x.json")
    assert ddl(found) == ["a BIGINT"]
    assert any(note.endswith(": b") for note in found.notes)


FEATURES = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "id": f"f{n}",
            "properties": {"name": f"n{n}", "main road": n > 1},
            "geometry": {"type": "Point", "coordinates": [n, 2.5]},
        }
        for n in (1, 2)
    ],
}


def test_properties_of_features_become_columns(tmp_path: Path) -> None:
    data = json.dumps(FEATURES).encode()
    found = sample(data, "x.geojson")
    assert found.read == {"kind": "Json", "subPath": "features"}
    assert [each.name for each in found.columns] == ["id", "name", "main road", "geometry"]
    assert found.query == (
        "select\n  id,\n  properties.name as name,\n  properties.`main road` as `main road`,\n"
        "  geometry\nfrom input\n"
    )
    rows = rows_of(found, data, tmp_path)
    assert rows[1]["properties"] == {"name": "n2", "main road": True}
    assert rows[0]["geometry"] == {"type": "Point", "coordinates": [1.0, 2.5]}


def test_features_without_properties_and_of_several_shapes_are_features(tmp_path: Path) -> None:
    shapes = [
        {"type": "Point", "coordinates": [1.0, 2.0]},
        {"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]},
    ]
    features = [
        {"type": "Feature", "properties": {"k": "a"}, "geometry": shapes[0]},
        {"type": "Feature", "properties": {"k": "b"}, "geometry": shapes[1]},
        {"type": "Feature", "properties": None, "geometry": None},
    ]
    found = sample(json.dumps({"features": features}), "x.geojson")
    assert [each.name for each in found.columns] == ["k", "geometry"]
    assert found.notes == (
        "left out, as its values are of several kinds: geometry.coordinates",
        "`kind: GeoJson` reads geometries of several kinds, as `geometry STRING`",
    )


def test_members_of_several_kinds_inside_of_others_are_told() -> None:
    records = [{"a": {"b": 1, "c": 2}, "d": [{"e": "x", "f": 1}]}, {"a": {"b": "x", "c": 3}}]
    found = sample(json.dumps(records), "x.json")
    assert ddl(found) == ["a STRUCT<c BIGINT>", "d ARRAY<STRUCT<e STRING, f BIGINT>>"]
    assert found.notes == ("left out, as its values are of several kinds: a.b",)


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def test_parquet_says_its_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.uint32()),
            "at": pa.array([0, 1], pa.timestamp("ns")),
            "city": pa.array(["a", "b"]).dictionary_encode(),
            "took": pa.array([1, 2], pa.duration("s")),
            "in": pa.array([{"x": [1]}, None], pa.struct({"x": pa.list_(pa.int16())})),
        }
    )
    data = parquet(table)
    found = sample(data, "x.parquet")
    assert found.read == {"kind": "Parquet"}
    assert [each.split(" ")[1] for each in ddl(found)] == [
        "BIGINT",
        "TIMESTAMP",
        "STRING",
        "STRUCT<x",
    ]
    assert any("took" in note for note in found.notes)
    assert [row["id"] for row in rows_of(found, data, tmp_path)] == [1, 2]


def test_packed_files_are_looked_into(tmp_path: Path) -> None:
    packed = gzip.compress(ORDERS.encode())
    found = sample(packed, "orders.csv.gz")
    assert found.prepare == ({"kind": "Decompress", "format": "Gzip"},)
    assert len(rows_of(found, packed, tmp_path)) == 3
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("orders.csv", ORDERS)
        archive.writestr("readme.txt", "about")
    found = sample(out.getvalue(), "all.zip")
    assert found.prepare == ({"kind": "Decompress", "format": "Zip", "subPath": "orders.csv"},)
    assert len(rows_of(found, out.getvalue(), tmp_path)) == 3


@pytest.mark.parametrize(
    ("pack", "suffix", "program"),
    [
        (bz2.compress, ".bz2", "bzip2"),
        (lzma.compress, ".xz", "xz"),
        (lambda data: pa.compress(data, "zstd", asbytes=True), ".zst", "zstd"),
    ],
    ids=["bzip2", "xz", "zstd"],
)
def test_other_packings_are_looked_into(
    tmp_path: Path, pack: Callable[[bytes], bytes], suffix: str, program: str
) -> None:
    packed = pack(ORDERS.encode())
    found = sample(packed, f"orders.csv{suffix}")
    assert found.prepare == ({"kind": "Pipe", "command": [program, "-dc"]},)
    assert len(rows_of(found, packed, tmp_path)) == 3
    lines = "".join(f"{n},{n * 7919 % 1000}\n" for n in range(400_000))
    many = pack(("id,v\n" + lines).encode())
    assert sample(many[: len(many) // 2], f"x.csv{suffix}", whole=False).rows > 3
    with pytest.raises(UnsampledError, match="is no"):
        take_sample(packed[:6] + b"and no more", f"x{suffix}", whole=True)


def test_shapefiles_are_looked_into(tmp_path: Path) -> None:
    columns = {"id": pa.array([7, 8]), "name": pa.array(["a", "b"]), "w": pa.array([0.5, 2.0])}
    made = parts(tmp_path / "made", columns, [point(1, 2), point(3, 4)])
    data = zipped({f"in/x{suffix}": each for suffix, each in made.items()})
    found = sample(data, "x.zip")
    assert (found.read, found.prepare, found.rows) == ({"kind": "EsriShapefile"}, (), 2)
    assert sorted(each.ddl for each in found.columns) == [
        "geometry STRING",
        "id BIGINT",
        "name STRING",
        "w DOUBLE",
    ]
    assert [row["id"] for row in rows_of(found, data, tmp_path)] == [7, 8]
    both = {f"{n}{suffix}": each for n in ("b", "a") for suffix, each in made.items()}
    several = sample(zipped(both), "x.zip")
    assert several.read["subPath"] == "b.shp"
    assert several.notes == ("the archive has 2 shapefiles",)


def test_the_beginning_of_a_packed_file_is_enough() -> None:
    many = ORDERS + "".join(ORDERS.splitlines(keepends=True)[1:] * 5000)
    assert sample(gzip.compress(many.encode())[:200], "x.csv.gz", whole=False).rows > 3


@pytest.mark.parametrize(
    ("data", "name", "whole"),
    [
        (b"", "x.csv", True),
        (b"\x00\x01\x02", "x.bin", True),
        (b"{}", "x.json", True),
        (b"[]", "x.json", True),
        (b"[1, 2]", "x.json", True),
        (b'{"a": ', "x.json", True),
        (b'{"a": {"b": ', "x.json", False),
        (b'[{"a": "\xff"}]', "x.json", True),
        (b"[" * 100_000, "x.json", True),
        (b"PAR1 and no more", "x.parquet", True),
        (b"PAR1 and no more", "x.parquet", False),
        (b"PK\x03\x04 and no more", "x.zip", True),
        (b"PK\x03\x04 and no more", "x.zip", False),
        (b"\x1f\x8b and no more", "x.gz", True),
    ],
)
def test_what_shows_nothing_is_refused_with_a_way_out(data: bytes, name: str, whole: bool) -> None:
    with pytest.raises(UnsampledError) as caught:
        take_sample(data, name, whole=whole)
    assert caught.value.fix


def test_keys_are_columns_whose_values_are_all_different() -> None:
    found = sample("id,twice,gap,ratio,sure\n1,a,x,1.5,true\n2,a,,2.5,false\n")
    assert [each.name for each in found.columns if each.is_key] == ["id"]


VALUES = (
    st.integers(-(10**9), 10**9).map(str)
    | st.dates(date(1900, 1, 1)).map(str)
    | st.floats(-1e6, 1e6).map(str)
    | st.text("abc ,;\"'é", max_size=6)
    | st.sampled_from(["", "NA", "007", "true"])
)
TABLES = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(VALUES, min_size=width, max_size=width).filter(any), min_size=1, max_size=20
    )
)


def written(records: Sequence[Sequence[str]], separator: str) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows(records)
    return out.getvalue().encode()


@given(TABLES, st.sampled_from(",;\t|"), st.booleans())
def test_any_table_is_read_with_what_was_guessed_of_it(
    records: list[list[str]], separator: str, header: bool
) -> None:
    names = [[f"col_{at}" for at in range(len(records[0]))]] if header else []
    data = written([*names, *records], separator)
    found = sample(data)
    if not any("another number" in note for note in found.notes):
        with TemporaryDirectory() as folder:
            assert len(rows_of(found, data, Path(folder))) == found.rows
