"""Real earthquakes through every geographic format: a collection, a feature a line, a shapefile."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.executors.ingest.read.shapefiles import pack, parts, point
from tests.real.building import DATA, Building

QUAKES = DATA / "vega-datasets" / "earthquakes.geojson"
KINDS = {"GeoJson": "geojson", "NdGeoJson": "ndgeojson", "EsriShapefile": "zip"}
MANIFEST = """\
kind: DatasetSnapshot
version: 1
content:
  name: quakes.{suffix}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/*.{suffix}"}}
      read:
        kind: {kind}
        schema: [code STRING NOT NULL, mag DOUBLE, place STRING, geometry STRING NOT NULL]
      merge: {{kind: Snapshot, primaryKey: [code]}}
"""


def features() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(QUAKES.read_text("utf-8"))["features"]
    return found


def shapefile(folder: Path) -> bytes:
    """Return the earthquakes as a shapefile, which has no heights here."""
    columns = {
        name: pa.array([each["properties"][name] for each in features()])
        for name in ("code", "mag", "place")
    }
    shapes = [point(*each["geometry"]["coordinates"][:2]) for each in features()]
    return pack(parts(folder, columns, shapes), "quakes")


@pytest.fixture(scope="module")
def places(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Building:
    root = tmp_path_factory.mktemp("places")
    (root / "datasets").mkdir()
    (root / "data").mkdir()
    (root / "odfbuild.yaml").write_text("odfbuild: 1\n")
    for kind, suffix in KINDS.items():
        (root / f"datasets/{suffix}.yaml").write_text(MANIFEST.format(kind=kind, suffix=suffix))
    (root / "data/a.geojson").symlink_to(QUAKES)
    by_line = "\n".join(json.dumps(each) for each in features())
    (root / "data/a.ndgeojson").write_text(by_line, "utf-8")
    (root / "data/a.zip").write_bytes(shapefile(root / "made"))
    building = Building(root)
    done = building.apply().done
    assert done.code == 0, done.err
    return building


@pytest.mark.parametrize("suffix", KINDS.values())
def test_every_earthquake_is_there_in_every_format(places: Building, suffix: str) -> None:
    size = 2 if suffix == "zip" else 3
    found = {row["code"]: row for row in places.rows(f"quakes.{suffix}")}
    assert len(found) == len(features()) == 600
    for each in features():
        row, properties = found[each["properties"]["code"]], each["properties"]
        assert (row["mag"], row["place"]) == (properties["mag"], properties["place"])
        geometry = {**each["geometry"], "coordinates": each["geometry"]["coordinates"][:size]}
        assert json.loads(row["geometry"]) == geometry


def test_a_file_that_is_cut_off_leaves_each_chain_as_it_was(places: Building) -> None:
    before = {name: places.dataset(name).head() for name in places.names()}
    cut = {}
    for suffix in KINDS.values():
        cut[suffix] = places.root / f"data/b.{suffix}"
        whole = (places.root / f"data/a.{suffix}").read_bytes()
        cut[suffix].write_bytes(whole[: len(whole) // 2])
    try:
        done = places.apply().done
    finally:
        for path in cut.values():
            path.unlink()
    assert done.code == 1
    said = done.out + done.err
    assert "b.geojson:" in said
    assert "b.ndgeojson:" in said
    assert "not JSON at character" in said
    assert "b.zip is not a complete zip archive" in said
    assert {name: places.dataset(name).head() for name in places.names()} == before
