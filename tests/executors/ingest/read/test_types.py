"""Every type of the table of read schemas, in each reader that can carry it."""

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read.geo.geometry import geojson_of, wkb_of
from odfbuild.executors.ingest.read.problems import UnsupportedReadError
from odfbuild.odf.events import (
    DataSchema,
    DataTypeTime,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
    TimeUnit,
)
from odfbuild.odf.schema.arrow import from_arrow, to_arrow
from odfbuild.odf.schema.ddl import parse_ddl
from tests.executors.ingest.read.reading import refusal_of, rows_of, table_of

ID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
SCALARS: dict[str, tuple[str, Any]] = {
    "BOOLEAN": ("true", True),
    "INT": ("-2147483648", -(2**31)),
    "BIGINT": ("9223372036854775807", 2**63 - 1),
    "INT UNSIGNED": ("4294967295", 2**32 - 1),
    "BIGINT UNSIGNED": ("18446744073709551615", 2**64 - 1),
    "FLOAT": ("0.5", 0.5),
    "DOUBLE": ("1e-300", 1e-300),
    "DECIMAL(38,10)": ("1234567890123456789012345678.0123456789",
                       Decimal("1234567890123456789012345678.0123456789")),
    "DATE": ("2024-02-29", date(2024, 2, 29)),
    "TIMESTAMP": ("2024-02-29T12:34:56.789Z", datetime(2024, 2, 29, 12, 34, 56, 789000, UTC)),
    "TIMESTAMP(3)": ("2024-02-29 12:34:56", datetime(2024, 2, 29, 12, 34, 56, 0, UTC)),
    "TIME": ("23:59:59.999999", time(23, 59, 59, 999999)),
    "TIME(3)": ("00:00:00", time(0)),
    "UUID": (ID, UUID(ID).bytes),
    "STRING": (" é ", " é "),
    "VARCHAR(3)": ("x", "x"),
}  # fmt: skip
NESTED: dict[str, tuple[Any, Any]] = {
    "ARRAY<DECIMAL(4,2)>": ([1.25, None], [Decimal("1.25"), None]),
    "STRUCT<a: INT NOT NULL, b ARRAY<STRUCT<t TIME, u UUID>>>": (
        {"a": 1, "b": [{"t": "01:02:03", "u": ID}, None]},
        {"a": 1, "b": [{"t": time(1, 2, 3), "u": UUID(ID).bytes}, None]},
    ),
    "MAP<STRING, INT>": ({"a": 1, "b": None}, [("a", 1), ("b", None)]),
    "MAP<DATE, ARRAY<BIGINT>>": ({"2024-01-01": [1]}, [(date(2024, 1, 1), [1])]),
}
ALL = {**{ddl: (text, value) for ddl, (text, value) in SCALARS.items()}, **NESTED}


@pytest.mark.holds("sql-clock")
@pytest.mark.parametrize("text", ["12:34", "T12:34:00Z", "now", "today", "1:2+01:00"])
@pytest.mark.parametrize("ddl", ["TIMESTAMP", "DATE"])
def test_a_time_without_a_date_is_a_bad_row(ddl: str, text: str) -> None:
    read = ReadStepCsv(ddl_schema=(f"a {ddl}",), header=True)
    error = refusal_of(read, f"a\n2024-01-01\n{text}\n")
    assert error.what.startswith(f"in:3: column a: {text!r}")


@pytest.mark.parametrize("ddl", SCALARS)
def test_a_cell_of_csv_holds_every_scalar(ddl: str) -> None:
    text, value = SCALARS[ddl]
    step = ReadStepCsv(header=True, ddl_schema=(f"a {ddl}", "b INT"))
    assert rows_of(step, f'a,b\n"{text}",1\n,2\n') == [(value, 1), (None, 2)]


@pytest.mark.parametrize("ddl", NESTED)
def test_a_cell_of_csv_holds_nothing_nested(ddl: str) -> None:
    refusal_of(ReadStepCsv(ddl_schema=(f"a {ddl}",)), "1\n", UnsupportedReadError)


@pytest.mark.parametrize("ddl", ALL)
def test_json_of_every_form_holds_every_type(ddl: str) -> None:
    written, value = ALL[ddl]
    columns = (f"a {ddl}", "b STRING")
    record = json.dumps({"a": written})
    rows = [(value, None), (None, None)]
    assert rows_of(ReadStepNdJson(ddl_schema=columns), f'{record}\n{{"a":null}}\n') == rows
    assert rows_of(ReadStepJson(ddl_schema=columns), f'[{record},{{"a":null}}]') == rows
    feature = '{"type":"Feature","properties":%s,"geometry":null}'
    features = f"{feature % record},{feature % 'null'}"
    collection = f'{{"type":"FeatureCollection","features":[{features}]}}'
    assert rows_of(ReadStepGeoJson(ddl_schema=columns), collection) == rows
    lines = features.replace('},{"type"', '}\n{"type"')
    assert rows_of(ReadStepNdGeoJson(ddl_schema=columns), lines) == rows


@pytest.mark.parametrize("ddl", ALL)
def test_parquet_holds_every_type(ddl: str) -> None:
    _, value = ALL[ddl]
    schema = to_arrow(parse_ddl([f"a {ddl}"]))
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": pa.array([value, None], schema.field("a").type)}), out)
    data = out.getvalue().to_pybytes()
    assert rows_of(ReadStepParquet(ddl_schema=(f"a {ddl}",)), data) == [(value,), (None,)]
    assert rows_of(ReadStepParquet(), data) == [(value,), (None,)]


@pytest.mark.parametrize("ddl", ALL)
def test_the_form_of_odf_reads_as_ddl_does(ddl: str) -> None:
    written, value = ALL[ddl]
    schema = parse_ddl([f"a {ddl} NOT NULL"])
    assert rows_of(ReadStepNdJson(schema=schema), json.dumps({"a": written})) == [(value,)]
    refusal_of(ReadStepNdJson(schema=schema), "{}")


@pytest.mark.parametrize("unit", TimeUnit)
def test_times_of_any_unit_are_kept_in_microseconds(unit: TimeUnit) -> None:
    (field,) = parse_ddl("a TIME NOT NULL").fields
    schema = DataSchema((type(field)("a", DataTypeTime(unit)),))
    table = table_of(ReadStepNdJson(schema=schema), '{"a":"01:02:03.456"}')
    assert table.schema.field("a").type == pa.time64("us")
    assert from_arrow(table.schema).fields[0].type == field.type
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": pa.array([time(1, 2, 3)], kind)}), out)
        data = out.getvalue().to_pybytes()
        for step in (ReadStepParquet(), ReadStepParquet(schema=schema)):
            found = table_of(step, data)
            assert found.schema.field("a").type == pa.time64("us")
            assert found.to_pylist() == [{"a": time(1, 2, 3)}]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("UUID", "f81d4fae-7dec-11d0-a765-00a0c91e6bf"),
        ("UUID", "f81d4fae7dec-11d0-a765-00a0c91e6bf6"),
        ("UUID", "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"),
        ("TIME", "24:00:00"),
        ("TIME", "12:00"),
        ("TIME", "12:00:00.1234567"),
        ("DECIMAL(3,2)", "1.234"),
        ("DECIMAL(3,2)", "12.34"),
        ("INT UNSIGNED", "-1"),
        ("DATE", "2023-02-29"),
    ],
)
def test_a_text_that_is_no_value_of_the_type_is_refused(ddl: str, text: str) -> None:
    for step, data in (
        (ReadStepCsv(ddl_schema=(f"a {ddl}",)), f"{text}\n"),
        (ReadStepNdJson(ddl_schema=(f"a {ddl}",)), json.dumps({"a": text})),
    ):
        error = refusal_of(step, data)
        assert "in:1: column a: " in error.what
        assert text in error.what


def test_a_uuid_may_be_written_without_hyphens() -> None:
    step = ReadStepCsv(ddl_schema=("a UUID",))
    assert rows_of(step, ID.replace("-", "").upper() + "\n") == [(UUID(ID).bytes,)]


# geometries

_numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


def _geometries(size: int) -> st.SearchStrategy[dict[str, Any]]:
    position = st.lists(_numbers, min_size=size, max_size=size)
    line = st.lists(position, min_size=2, max_size=4)
    ring = st.lists(position, min_size=3, max_size=4).map(lambda ring: [*ring, ring[0]])
    polygon = st.lists(ring, min_size=1, max_size=2)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "Point": position,
        "MultiPoint": st.lists(position, min_size=1, max_size=3),
        "MultiLineString": st.lists(line, min_size=1, max_size=2),
        "MultiPolygon": st.lists(polygon, min_size=1, max_size=2),
    }
    return st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.fixed_dictionaries({"type": st.just(kind), "coordinates": kinds[kind]})
    )


_any_geometry = _geometries(2) | _geometries(3)


@given(_any_geometry | st.lists(_any_geometry, max_size=2).map(
    lambda members: {"type": "GeometryCollection", "geometries": members}))  # fmt: skip
def test_binary_geometries_are_those_of_the_text(geometry: dict[str, Any]) -> None:
    assert json.loads(geojson_of(wkb_of(geometry))) == geometry


def test_a_geometry_that_is_declared_as_binary_is_well_known_binary() -> None:
    point = '{"type":"Point","coordinates":[1,2.5]}'
    feature = f'{{"type":"Feature","properties":{{"a":1}},"geometry":{point}}}'
    none = '{"type":"Feature","properties":{"a":2},"geometry":null}'
    columns = ("a INT", "geometry BINARY")
    expected = [(1, struct.pack("<BIdd", 1, 1, 1.0, 2.5)), (2, None)]
    lines = f"{feature}\n{none}\n"
    assert rows_of(ReadStepNdGeoJson(ddl_schema=columns), lines) == expected
    whole = f'{{"type":"FeatureCollection","features":[{feature},{none}]}}'
    assert rows_of(ReadStepGeoJson(ddl_schema=columns), whole) == expected
    required = ("a INT", "geometry BINARY NOT NULL")
    assert "in:2: column geometry" in refusal_of(ReadStepNdGeoJson(ddl_schema=required), lines).what


@pytest.mark.parametrize(
    "geometry",
    [
        '{"type":"Circle","coordinates":[1,2]}',
        '{"type":"Point","coordinates":[1]}',
        '{"type":"Point","coordinates":["1","2"]}',
        '{"type":"Polygon","coordinates":[[1,2],[3,4]]}',
        '{"type":"LineString"}',
        '{"coordinates":[1,2]}',
    ],
)
def test_what_is_no_geometry_cannot_be_binary(geometry: str) -> None:
    line = f'{{"type":"Feature","properties":{{}},"geometry":{geometry}}}'
    step = ReadStepNdGeoJson(ddl_schema=("geometry BINARY",))
    assert refusal_of(step, line).what.startswith("in:1: column geometry: ")
