"""Formats of pushed data: their names, and how a source of another format reads them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.media import (
    Format,
    UnknownFormatError,
    format_of_file,
    parse_format,
    read_as,
    unpacking,
)
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeString,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)

DDL = ("a STRING", "b BIGINT")
JSON = ReadStepJson(ddl_schema=DDL, sub_path="x", encoding="utf16")
NONE = Path("/dev/null")


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("csv", Format.CSV),
        ("CSV", Format.CSV),
        ("text/csv; charset=utf-8", Format.CSV),
        ("text/tab-separated-values", Format.TSV),
        ("application/x-ndjson", Format.NDJSON),
        (" application/geo+json ", Format.GEOJSON),
        ("application/vnd.apache.parquet", Format.PARQUET),
        ("application/vnd.shp", Format.SHAPEFILE),
    ],
)
def test_formats_have_names_and_media_types(text: str, format: Format) -> None:
    assert parse_format(text) is format


@given(st.text(max_size=30))
def test_any_other_word_is_refused(word: str) -> None:
    try:
        assert parse_format(word) in Format
    except UnknownFormatError as error:
        assert "text/csv" in error.why


@pytest.mark.parametrize(
    ("name", "format", "packed"),
    [
        ("a.csv", Format.CSV, False),
        ("a.b.CSV.GZ", Format.CSV, True),
        ("a.jsonl.zst", Format.NDJSON, True),
        ("a.geojsonl.xz", Format.NDGEOJSON, True),
        ("a.parquet.bz2", Format.PARQUET, True),
        ("a.gz", None, True),
        ("csv", None, False),
        (".csv", None, False),
        ("", None, False),
        ("a.zip", None, False),
    ],
)
def test_the_end_of_a_name_says_format_and_packing(
    name: str, format: Format | None, packed: bool
) -> None:
    assert format_of_file(name, JSON) is format
    assert bool(unpacking(name)) is packed


def test_a_json_file_is_what_a_source_of_features_reads() -> None:
    assert format_of_file("a.json", JSON) is Format.JSON
    assert format_of_file("a.json", ReadStepGeoJson()) is None


def test_the_format_of_the_source_is_read_as_it_says() -> None:
    assert read_as(JSON, None, NONE) is JSON
    assert read_as(JSON, Format.JSON, NONE) is JSON
    tabs = ReadStepCsv(separator="\t")
    assert read_as(tabs, Format.CSV, NONE) is tabs
    assert read_as(tabs, Format.TSV, NONE) is tabs
    assert read_as(ReadStepCsv(quote="'"), Format.TSV, NONE).separator == "\t"  # type: ignore[union-attr]


def test_of_another_format_only_the_schema_is_kept() -> None:
    assert read_as(JSON, Format.NDJSON, NONE) == ReadStepNdJson(ddl_schema=DDL)
    assert read_as(JSON, Format.PARQUET, NONE) == ReadStepParquet(ddl_schema=DDL)
    schema = DataSchema((DataField("a", DataTypeString()),))
    newer = ReadStepNdJson(schema=schema, encoding="utf16")
    assert read_as(newer, Format.JSON, NONE) == ReadStepJson(schema=schema)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("a,b\n", True),
        (" b , a \n", True),
        ("a\n", True),
        ("c,a,b,d\n", True),
        ('"a","b"\r\n', True),
        ("\ufeffa,b\n", True),
        ("a,c\n", False),
        ("1,2\n", False),
        ("", False),
        ("A,B\n", False),
    ],
)
def test_a_first_line_that_names_the_columns_is_a_header(
    line: str, header: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_text(line, "utf-8", newline="")
    step = read_as(JSON, Format.CSV, path)
    assert step == ReadStepCsv(ddl_schema=DDL, separator=",", header=header)
    assert read_as(ReadStepJson(), Format.CSV, path) == ReadStepCsv(separator=",", header=True)
