"""Real tables by every way in which they can come, read again without odfbuild and compared."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.bad.case import flow, pipe, url
from tests.real.building import AIRLINE_FILES, DATA, Building
from tests.real.published import Row
from tests.support.servers.ftp import serving_ftp
from tests.support.servers.http import Server, serving

VEGA, PLANES = DATA / "vega-datasets", DATA / "openflights" / "planes"
WEATHER = tuple(sorted((VEGA / "seattle-weather").glob("*.csv")))
AIRLINES = max(AIRLINE_FILES, default=DATA / "airlines.gz")
EMPLOYMENT, PENGUINS = VEGA / "us-employment.csv", VEGA / "penguins.json"
COUNTRIES = DATA / "openflights" / "countries" / "20181227_b985a7d.dat"
QUAKES = VEGA / "earthquakes.geojson"
OF_WEATHER = ("date", "precipitation", "temp_max", "temp_min", "wind", "weather")
OF_PLANES = ("name", "iata", "icao")
OF_COUNTRIES = ("name", "fips", "iso", "dst")
OF_PENGUINS = {"Species": "STRING", "Beak Length (mm)": "DOUBLE", "Body Mass (g)": "BIGINT"}
FILES = "{kind: FilesGlob, path: 'in/%s'}"
MANIFEST = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {fetch}
      prepare: [{prepare}]
      read: {read}
      merge: {{kind: Append}}
"""


@dataclass(frozen=True)
class Route:
    """A way of fetching, preparing and reading; `$HTTP` and `$FTP` stand for servers of `DATA`."""

    fetch: str
    read: str
    prepare: str = ""


def texts(*names: str, **options: str) -> str:
    return flow("Csv", *(f"{name} STRING" for name in names), **options)


def http(path: Path) -> str:
    return url(f"$HTTP/{path.relative_to(DATA)}")


ROUTES = {
    "weather": Route(FILES % "*.csv", texts(*OF_WEATHER, header="true")),
    "employment": Route(http(EMPLOYMENT), "{kind: Csv, header: true, inferSchema: true}"),
    "airlines": Route(
        http(AIRLINES), texts(*"abcdefgh", quote="''"), "{kind: Decompress, format: Gzip}"
    ),
    "countries": Route(
        url("file:in/countries.zip"),
        texts(*OF_COUNTRIES, nullValue="'\\N'"),
        "{kind: Decompress, format: Zip, subPath: '*.dat'}",
    ),
    "planes": Route(FILES % "planes.tsv", texts(*OF_PLANES, separator='"\\t"', nullValue="'\\N'")),
    "planes-by-pipe": Route(
        url("file:in/planes.tsv"), texts(*OF_PLANES, nullValue="'\\N'"), pipe("tr", "\\t", ",")
    ),
    "penguins": Route(
        url(f"$FTP/{PENGUINS.relative_to(DATA)}"),
        flow("Json", *(f"`{name}` {kind}" for name, kind in OF_PENGUINS.items())),
    ),
    "quakes": Route(
        http(QUAKES),
        flow(
            "Json",
            "id STRING",
            "properties STRUCT<mag: DOUBLE, place: STRING, time: BIGINT>",
            "geometry STRUCT<type: STRING, coordinates: ARRAY<DOUBLE>>",
            subPath="features",
        ),
    ),
}


@pytest.fixture(scope="module")
def routes(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Building]:
    root = tmp_path_factory.mktemp("routes")
    for folder in ("datasets", "in"):
        (root / folder).mkdir()
    (root / "odfbuild.yaml").write_text("odfbuild: 1\n")
    lay_out_files(root / "in")
    with ExitStack() as stack:
        server = stack.enter_context(serving())
        publish(server)
        ftp = stack.enter_context(serving_ftp(DATA))
        for name, route in ROUTES.items():
            text = MANIFEST.format(name=name, **vars(route))
            text = text.replace("$HTTP", server.url).replace("$FTP", ftp.url("").rstrip("/"))
            (root / f"datasets/{name}.yaml").write_text(text)
        building = Building(root)
        done = building.apply().done
        assert done.code == 0, done.err
        yield building


def lay_out_files(folder: Path) -> None:
    for path in WEATHER:
        (folder / path.name).symlink_to(path)
    with (folder / "planes.tsv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter="\t", lineterminator="\n").writerows(cells(PLANES, ","))
    with zipfile.ZipFile(folder / "countries.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("LICENSE.txt", "see DATA")
        archive.write(COUNTRIES, "tables/countries.dat")


def publish(server: Server) -> None:
    for path in (EMPLOYMENT, AIRLINE_FILES[-1], QUAKES):
        where = f"/{path.relative_to(DATA)}"
        server.put_file(where, path.read_bytes(), changed=path.stat().st_mtime)


def cells(path: Path, separator: str) -> list[list[str]]:
    """Return the fields of a file, or of the newest one of a folder."""
    newest = sorted(path.iterdir())[-1] if path.is_dir() else path
    text = newest.read_text("utf-8")
    return [each for each in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if each]


def named(rows: list[list[str]], names: tuple[str, ...]) -> list[Row]:
    """Return rows with what stands for nothing as None."""
    return [
        {n: None if v in {"", "\\N"} else v for n, v in zip(names, row, strict=True)}
        for row in rows
    ]


def found(routes: Building, name: str) -> list[Row]:
    system = {"offset", "op", "system_time", "event_time"}
    return [{k: v for k, v in row.items() if k not in system} for row in routes.rows(name)]


def test_every_file_of_a_folder_comes_once_and_in_order(routes: Building) -> None:
    expected = [named(cells(path, ",")[1:], OF_WEATHER) for path in WEATHER]
    assert found(routes, "weather") == [row for rows in expected for row in rows]
    assert [len(rows) for rows in routes.slices("weather")] == [len(rows) for rows in expected]


def test_types_that_are_inferred_keep_every_number(routes: Building) -> None:
    header, *rows = cells(EMPLOYMENT, ",")
    read = found(routes, "employment")
    assert list(read[0]) == header
    assert [str(row["month"]) for row in read] == [row[0] for row in rows]
    numbers = [[float(v) for v in list(row.values())[1:]] for row in read]
    assert numbers == [[float(v) for v in row[1:]] for row in rows]


def test_a_packed_download_has_every_field(routes: Building) -> None:
    lines = gzip.decompress(AIRLINE_FILES[-1].read_bytes()).decode("utf-8").splitlines()
    expected = [[field or None for field in line.split(",")] for line in lines]
    assert [list(row.values()) for row in found(routes, "airlines")] == expected


def test_one_table_is_taken_out_of_an_archive(routes: Building) -> None:
    assert found(routes, "countries") == named(cells(COUNTRIES, ","), OF_COUNTRIES)


@pytest.mark.parametrize("name", ["planes", "planes-by-pipe"])
def test_tabs_separate_as_commas_do(routes: Building, name: str) -> None:
    assert found(routes, name) == named(cells(PLANES, ","), OF_PLANES)


def test_an_array_comes_over_ftp(routes: Building) -> None:
    records: list[Mapping[str, Any]] = json.loads(PENGUINS.read_text("utf-8"))
    assert found(routes, "penguins") == [{n: r.get(n) for n in OF_PENGUINS} for r in records]


def test_records_are_found_deep_inside_a_document(routes: Building) -> None:
    features = json.loads(QUAKES.read_text("utf-8"))["features"]
    expected = [
        {
            "id": each["id"],
            "properties": {n: each["properties"][n] for n in ("mag", "place", "time")},
            "geometry": each["geometry"],
        }
        for each in features
    ]
    assert found(routes, "quakes") == expected
