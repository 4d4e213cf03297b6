"""Where a file is not as its schema says, without being wrong: columns that came or went."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.notes import ReadNotes, SchemaDrift
from odfbuild.odf.events import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from tests.executors.ingest.read.shapefiles import pack, parts

COLUMNS = ("a INT", "s STRUCT<x: INT>")
FEATURE = '{"type":"Feature","properties":{"a":1,"b":1.5},"geometry":null}'


def drift_of(step: ReadStep, data: bytes | str) -> SchemaDrift:
    notes = ReadNotes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        assert read(step, path, staging=Path(folder), name="in", notes=notes) is not None
    return notes.drift


def shown(fields: tuple[pa.Field, ...]) -> list[str]:
    return [f"{each.name} {each.type}" for each in fields]


@pytest.mark.parametrize(
    ("step", "data"),
    [
        (ReadStepNdJson(ddl_schema=COLUMNS), '{"a":1,"b":1.5}\n{"s":{"x":1,"y":"z"}}\n'),
        (ReadStepJson(ddl_schema=COLUMNS), '[{"a":1,"b":1.5},{"s":{"x":1,"y":"z"}}]'),
    ],
)
def test_members_of_records_that_the_schema_lacks_are_noticed_at_any_depth(
    step: ReadStep, data: str
) -> None:
    found = drift_of(step, data)
    assert shown(found.added) == ["b double"]
    assert shown(found.grown) == ["s struct<x: int32, y: string>"]
    assert not found.missing


def test_properties_and_geometries_of_features_are_noticed() -> None:
    placed = FEATURE.replace("null", '{"type":"Point","coordinates":[1,2]}')
    for feature, geometry in ((FEATURE, []), (placed, ["geometry string"])):
        whole = f'{{"type":"FeatureCollection","features":[{feature}]}}'
        for step, data in (
            (ReadStepGeoJson(ddl_schema=("a INT",)), whole),
            (ReadStepNdGeoJson(ddl_schema=("a INT",)), feature),
        ):
            assert shown(drift_of(step, data).added) == ["b double", *geometry]
            declared = replace(step, ddl_schema=("a INT", "b DOUBLE", "geometry STRING"))
            assert not drift_of(declared, data)


def test_columns_of_parquet_and_shapefiles_are_noticed_with_their_types(tmp_path: Path) -> None:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([True])}), out)
    step = ReadStepParquet(ddl_schema=("a INT", "c DATE"))
    found = drift_of(step, out.getvalue().to_pybytes())
    assert (shown(found.added), found.missing) == (["b bool"], ("c",))
    columns = {"name": pa.array(["x"]), "size": pa.array([1.5])}
    archive = pack(parts(tmp_path / "made", columns, (None,)))
    shapes = drift_of(ReadStepEsriShapefile(ddl_schema=("name STRING", "no INT")), archive)
    assert (shown(shapes.added), shapes.missing) == (["size double", "geometry string"], ("no",))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("a,b", SchemaDrift()),
        ("b,a", SchemaDrift()),
        ("A,B", SchemaDrift(renamed=(("A", "a"), ("B", "b")))),
        ("x,y", SchemaDrift(renamed=(("x", "a"), ("y", "b")))),
        ("a", SchemaDrift(missing=("b",))),
        ("a,bb", SchemaDrift(renamed=(("bb", "b"),))),
        ("a,b,c", SchemaDrift(added=(pa.field("c", pa.date32()),))),
    ],
)
def test_a_header_tells_what_came_went_or_was_renamed(header: str, expected: SchemaDrift) -> None:
    step = ReadStepCsv(header=True, ddl_schema=("a STRING", "b STRING"))
    row = ",".join(["x", "y", "2024-01-01"][: header.count(",") + 1])
    assert drift_of(step, f"{header}\n{row}\n") == expected


def test_without_a_schema_there_is_nothing_to_differ_from() -> None:
    assert drift_of(ReadStepNdJson(), '{"a":1}\n{"b":2}\n') == SchemaDrift()
    assert drift_of(ReadStepCsv(header=True), "a,b\n1,2\n") == SchemaDrift()
