"""Files that people really published, with their accidents."""

import csv
import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import (
    CompressionFormat,
    PrepStepDecompress,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
)

DATA = Path(os.environ.get("ODFBUILD_DATA") or Path(__file__).parents[5] / "shared" / "data")
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs the folder of published files")

ITALY = sorted(DATA.glob("italy-covid-regions/*/*.csv"))
FLIGHTS = sorted(path for path in DATA.glob("openflights/*/*") if path.is_file())
SEATTLE = sorted(DATA.glob("vega-datasets/seattle-weather/*.csv"))
SEMICOLON = "as-published/dpc-covid19-ita-regioni-20200511.csv"
REGION = (
    "data TIMESTAMP",
    "stato STRING",
    "codice_regione INT",
    "denominazione_regione STRING",
    "lat DOUBLE",
    "long DOUBLE",
    "ricoverati_con_sintomi BIGINT",
    "terapia_intensiva BIGINT",
    "totale_ospedalizzati BIGINT",
    "isolamento_domiciliare BIGINT",
    "dimessi_guariti BIGINT",
    "deceduti BIGINT",
    "tamponi BIGINT",
)


def rows(step: ReadStep, path: Path, staging: Path) -> list[dict[str, Any]]:
    found = read(step, path, staging=staging, name=path.name)
    assert found is not None
    assert found.table is not None
    listed: list[dict[str, Any]] = found.table.to_pylist()
    return listed


def by_python(path: Path, separator: str) -> list[dict[str, str | None]]:
    """Read a file with Python's own parser, empty cells as None."""
    text = io.StringIO(path.read_text("utf-8-sig"), newline="")
    records = [row for row in csv.reader(text.read().splitlines(), delimiter=separator) if row]
    names = [name.strip() or f"column_{i}" for i, name in enumerate(records[0], start=1)]
    return [{n: v or None for n, v in zip(names, row, strict=True)} for row in records[1:]]


@pytest.mark.parametrize(
    "path", ITALY or [DATA], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_every_italian_table_reads_as_python_reads_it(path: Path, tmp_path: Path) -> None:
    separator = ";" if str(path).endswith(SEMICOLON) else ","
    found = rows(ReadStepCsv(header=True, separator=separator), path, tmp_path)
    assert found == by_python(path, separator)
    assert found


@pytest.mark.parametrize(
    "path", [path for path in ITALY if "regioni" in path.name] or [DATA], ids=lambda path: path.name
)
def test_region_files_bind_by_name_through_all_their_headers(path: Path, tmp_path: Path) -> None:
    step = ReadStepCsv(header=True, ddl_schema=REGION)
    if str(path).endswith(SEMICOLON):
        with pytest.raises(InvalidSourceError) as caught:
            rows(step, path, tmp_path)
        assert caught.value.what == f"{path.name}: 1 column in the file, 13 in the schema"
        assert caught.value.fix == "set `separator: ';'` in `read`"
        return
    if "20200331" in path.name:  # lat and long had other names for a day
        with pytest.raises(InvalidSourceError, match="columns in the file, 13 in the schema"):
            rows(step, path, tmp_path)
        return
    plain = by_python(path, ",")
    found = rows(step, path, tmp_path)
    assert [row["deceduti"] for row in found] == [int(row["deceduti"] or "") for row in plain]
    assert all(row["data"].tzinfo is not None for row in found)


def test_the_table_with_bare_carriage_returns_has_all_its_rows(tmp_path: Path) -> None:
    path = DATA / "italy-covid-regions/national-full-snapshots/0022_2ce0369f.csv"
    assert b"\n" not in path.read_bytes().rstrip(b"\n")
    found = rows(ReadStepCsv(header=True, infer_schema=True), path, tmp_path)
    assert 1 + len(found) == path.read_bytes().count(b"\r")
    assert found[0]["deceduti"] == 7


@pytest.mark.parametrize("path", FLIGHTS or [DATA], ids=lambda path: path.name)
def test_every_openflights_table_reads(path: Path, tmp_path: Path) -> None:
    packed = {".gz": CompressionFormat.GZIP, ".zip": CompressionFormat.ZIP}.get(path.suffix)
    steps = () if packed is None else (PrepStepDecompress(format=packed),)
    plain = prepare(steps, path, tmp_path)
    lines = plain.read_bytes().splitlines()
    found = rows(ReadStepCsv(null_value="\\N"), plain, tmp_path)
    assert len(found) == len(lines)
    assert not any(value == "\\N" for row in found for value in row.values())


def test_escapes_of_openflights_are_read(tmp_path: Path) -> None:
    path = DATA / "openflights/airlines/20131015_4aeafc1.dat.gz"
    data = gzip.decompress(path.read_bytes())
    plain = tmp_path / "airlines.dat"
    plain.write_bytes(data)
    found = {row["column_1"]: row for row in rows(ReadStepCsv(), plain, tmp_path)}
    assert found["13394"]["column_4"] == "\\'"
    assert found["13394"]["column_5"] == "\\'\\"
    assert found["1"]["column_3"] == "\\N"
    assert found["1"]["column_6"] == ""


def test_the_zipped_table_is_the_one_that_was_zipped(tmp_path: Path) -> None:
    path = DATA / "openflights/airlines/20121114_07e05bd.dat.zip"
    step = PrepStepDecompress(format=CompressionFormat.ZIP)
    with zipfile.ZipFile(path) as archive:
        assert prepare((step,), path, tmp_path).read_bytes() == archive.read("airlines.dat")


@pytest.mark.parametrize("path", SEATTLE or [DATA], ids=lambda path: path.name)
def test_weather_infers_numbers(path: Path, tmp_path: Path) -> None:
    found = rows(ReadStepCsv(header=True, infer_schema=True), path, tmp_path)
    assert len(found) == len(by_python(path, ","))
    assert all(isinstance(row["temp_max"], float) for row in found)


def test_penguins_are_json_with_nulls(tmp_path: Path) -> None:
    path = DATA / "vega-datasets/penguins.json"
    found = rows(ReadStepJson(), path, tmp_path)
    plain = json.loads(path.read_text())
    assert found == [dict(sorted(row.items())) for row in plain]
