"""Definitions that are guessed from real files read these files, row by row."""

from pathlib import Path

import pytest

from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.sample import take_sample
from odfbuild.executors.ingest.sample.model import Sample
from odfbuild.odf.events import PrepStep, ReadStep
from odfbuild.odf.manifest import from_mapping
from tests.real.building import DATA
from tests.support.projects import odfbuild

FOLDERS = {"openflights": 1, "vega-datasets": 1, "italy-covid-regions": 5}  # one in so many
KINDS = (".csv", ".dat", ".gz", ".zip", ".json", ".geojson")
FILES = [
    path
    for folder, step in FOLDERS.items()
    for path in sorted((DATA / folder).rglob("*"))[::step]
    if path.suffix in KINDS
]


def guessed(path: Path) -> Sample:
    return take_sample(path.read_bytes(), path.name, whole=True)


def rows_read(path: Path, sample: Sample, folder: Path) -> int:
    steps = [from_mapping(PrepStep, dict(each)) for each in sample.prepare]
    columns = sample.columns if sample.read_as is None else sample.read_as
    step = from_mapping(ReadStep, {**sample.read, "schema": [each.ddl for each in columns]})
    frame = read(step, prepare(steps, path, folder), staging=folder, name=path.name)
    return 0 if frame is None else frame.rows


@pytest.mark.parametrize(
    "path", FILES or [DATA], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_whole_file_is_read_with_what_was_guessed(path: Path, tmp_path: Path) -> None:
    sample = guessed(path)
    if not any("another number" in note for note in sample.notes):
        assert rows_read(path, sample, tmp_path) == sample.rows > 0


def test_types_keys_and_times_are_those_that_people_see() -> None:
    weather = guessed(DATA / "vega-datasets/seattle-weather/2016-02-23_530b2f0.csv")
    assert weather.read["dateFormat"] == "%Y/%m/%d"
    assert weather.columns[0].ddl == "date DATE"
    assert weather.columns[0].is_key
    quakes = guessed(DATA / "vega-datasets/earthquakes.geojson")
    assert quakes.read == {"kind": "Json", "subPath": "features"}
    assert [each.name for each in quakes.columns][:3] == ["id", "mag", "place"]
    penguins = guessed(DATA / "vega-datasets/penguins.json")
    assert "`Beak Length (mm)` DOUBLE" in [each.ddl for each in penguins.columns]


def test_a_definition_of_a_real_file_plans(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "datasets").mkdir()
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\n")
    day = min((DATA / "italy-covid-regions/as-published").glob("*.csv"))
    (tmp_path / "data" / day.name).write_bytes(day.read_bytes())
    made = odfbuild("new", "covid", "--root", "--from", f"data/{day.name}", cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    assert "primaryKey: [data, " in (tmp_path / "datasets/covid.yaml").read_text("utf-8")
    planned = odfbuild("plan", cwd=tmp_path)
    assert planned.code == 0
    assert "1 to add" in planned.out
