"""Formats of pushed data: their names, and how a source of another format reads them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.media import (
    PushFormat,
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
        ("csv", PushFormat.CSV),
        ("CSV", PushFormat.CSV),
        ("text/csv; charset=utf-8", PushFormat.CSV),
        ("text/tab-separated-values", PushFormat.TSV),
        ("application/x-ndjson", PushFormat.NDJSON),
        (" application/geo+json ", PushFormat.GEOJSON),
        ("application/vnd.apache.parquet", PushFormat.PARQUET),
        ("application/vnd.shp", PushFormat.SHAPEFILE),
    ],
)
def test_formats_have_names_and_media_types(text: str, format: PushFormat) -> None:
    assert parse_format(text) is format


@given(st.text(max_size=30))
def test_any_other_word_is_refused(word: str) -> None:
    try:
        assert parse_format(word) in PushFormat
    except UnknownFormatError as error:
        assert "text/csv" in error.why


@pytest.mark.parametrize(
    ("name", "format", "packed"),
    [
        ("a.csv", PushFormat.CSV, False),
        ("a.b.CSV.GZ", PushFormat.CSV, True),
        ("a.jsonl.zst", PushFormat.NDJSON, True),
        ("a.geojsonl.xz", PushFormat.NDGEOJSON, True),
        ("a.parquet.bz2", PushFormat.PARQUET, True),
        ("a.gz", None, True),
        ("csv", None, False),
        (".csv", None, False),
        ("", None, False),
        ("a.zip", None, False),
    ],
)
def test_the_end_of_a_name_says_format_and_packing(
    name: str, format: PushFormat | None, packed: bool
) -> None:
    assert format_of_file(name, JSON) is format
    assert bool(unpacking(name)) is packed


def test_a_json_file_is_what_a_source_of_features_reads() -> None:
    assert format_of_file("a.json", JSON) is PushFormat.JSON
    assert format_of_file("a.json", ReadStepGeoJson()) is None


def test_the_format_of_the_source_is_read_as_it_says() -> None:
    assert read_as(JSON, None, NONE) is JSON
    assert read_as(JSON, PushFormat.JSON, NONE) is JSON
    tabs = ReadStepCsv(separator="\t")
    assert read_as(tabs, PushFormat.CSV, NONE) is tabs
    assert read_as(tabs, PushFormat.TSV, NONE) is tabs
    assert read_as(ReadStepCsv(quote="'"), PushFormat.TSV, NONE).separator == "\t"  # type: ignore[union-attr]


def test_of_another_format_only_the_schema_is_kept() -> None:
    assert read_as(JSON, PushFormat.NDJSON, NONE) == ReadStepNdJson(ddl_schema=DDL)
    assert read_as(JSON, PushFormat.PARQUET, NONE) == ReadStepParquet(ddl_schema=DDL)
    schema = DataSchema((DataField("a", DataTypeString()),))
    newer = ReadStepNdJson(schema=schema, encoding="utf16")
    assert read_as(newer, PushFormat.JSON, NONE) == ReadStepJson(schema=schema)


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
    step = read_as(JSON, PushFormat.CSV, path)
    assert step == ReadStepCsv(ddl_schema=DDL, separator=",", header=header)
    assert read_as(ReadStepJson(), PushFormat.CSV, path) == ReadStepCsv(separator=",", header=True)
