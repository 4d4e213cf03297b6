"""The example projects do what their pages say."""

import csv
import gzip
import io
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.cli.commands.read.pipelines_by_hand import PIPELINES
from tests.real.building import Building
from tests.support.process.within import Within
from tests.support.projects import EXAMPLES, REPOSITORY, probe, program, shell

DATA = Path(os.environ.get("ODFBUILD_EXAMPLE_DATA") or REPOSITORY.parent / "shared" / "data")
APPEND, RETRACT, CORRECT_FROM, CORRECT_TO = range(4)

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="ODFBUILD_EXAMPLE_DATA names no folder")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the demo was played to its end."""
    folder = tmp_path_factory.mktemp("demo")
    done = shell(f"sh '{EXAMPLES / 'demo.sh'}' '{folder}'", folder)
    assert done.code == 0, f"{done.out}{done.err}"
    return folder / "water-levels"


def rows(name: str, project: Path) -> list[dict[str, Any]]:
    done = program("show", name, "-o", "json", "-n", "100000", cwd=project)
    assert done.code == 0, done.err
    loaded: list[dict[str, Any]] = json.loads(done.out)
    return loaded


def told(name: str, project: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a dataset as operation and the columns asked for."""
    return [tuple(row[column] for column in ("op", *columns)) for row in rows(name, project)]


@pytest.mark.spark
def test_the_demo_leaves_nothing_to_do(demo: Path) -> None:
    done = program("plan", cwd=demo)
    assert done.code == 0
    assert "No changes" in done.out


@pytest.mark.spark
def test_deciding_what_a_new_file_brings_needs_no_engine(demo: Path, tmp_path: Path) -> None:
    project = shutil.copytree(demo, tmp_path / "project")
    readings = project / "data" / "levels" / "2031-04-04.csv"
    readings.write_text("time,station,level_cm,flow_m3s\n2031-04-04T06:00:00Z,mill-weir,350,60\n")
    modules, started = probe("plan", cwd=project)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}


@pytest.mark.spark
def test_a_row_of_a_ledger_is_taken_in_once(demo: Path) -> None:
    keys = told("water.levels", demo, "time", "station")
    assert len(keys) == len(set(keys)) == 12


@pytest.mark.spark
def test_high_water_is_found_as_it_comes(demo: Path) -> None:
    assert told("water.high-water", demo, "station", "level_cm", "state") == [
        (APPEND, "mill-weir", 355, "warning"),
        (APPEND, "mill-weir", 433, "warning"),
        (APPEND, "alder-bridge", 367, "warning"),
        (APPEND, "mill-weir", 512, "alarm"),
    ]


@pytest.mark.spark
def test_what_a_snapshot_corrects_is_corrected_in_what_is_made_of_it(demo: Path) -> None:
    first = [
        (APPEND, "alder-bridge", "flow"),
        (APPEND, "alder-bridge", "level"),
        (APPEND, "mill-weir", "flow"),
        (APPEND, "mill-weir", "level"),
        (APPEND, "otter-ford", "level"),
    ]
    told_later = told("water.sensors", demo, "station", "sensor")
    assert told_later[:5] == first
    assert current(told_later) == sorted(
        [("alder-bridge", s) for s in ("level", "flow", "rain")]
        + [("mill-weir", s) for s in ("level", "flow")]
        + [("heron-lock", "level")]
    )


@pytest.mark.spark
def test_a_group_is_corrected_to_what_one_query_over_all_readings_gives(demo: Path) -> None:
    readings = told("water.levels", demo, "time", "station", "level_cm")
    stations = {row[2] for row in readings}
    expected = []
    for station in stations:
        own = [row for row in readings if row[2] == station]
        levels = [level for *_, level in own if level is not None]
        expected.append((max(time for _, time, *_ in own), station, max(levels), len(levels)))
    changes = told("water.peaks", demo, "time", "station", "highest_cm", "readings")
    assert {op for op, *_ in changes} == {APPEND, CORRECT_FROM, CORRECT_TO}
    assert current(changes) == sorted(expected, key=str)


def current(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Play a changelog: return the rows that remain, sorted."""
    left: Counter[tuple[Any, ...]] = Counter()
    for op, *row in changes:
        left[tuple(row)] += 1 if op in {APPEND, CORRECT_TO} else -1
    assert min(left.values()) >= 0
    return sorted(left.elements(), key=str)


@pytest.mark.spark
def test_several_steps_make_one_result(demo: Path) -> None:
    found = told("water.measurements", demo, "station", "quantity")
    assert len(found) == 19
    assert (APPEND, "otter-ford", "flow") not in found


def direct(pipeline: str) -> set[tuple[str, str, str]]:
    """Return every dataset of an example with its inputs and their aliases, as read by hand."""
    return {
        (name, source, alias)
        for name, made in PIPELINES[pipeline].datasets.items()
        for alias, source in made.inputs.items()
    }


def recorded(pipeline: str, ask: Within) -> set[tuple[str, str, str]]:
    """Return the same as the chains tell it."""
    found: set[tuple[str, str, str]] = set()
    for dataset in PIPELINES[pipeline].datasets:
        told = json.loads(ask.done("lineage", dataset, "--up", "--depth", "1", "-o", "json"))
        names = {each["id"]: each["name"] for each in told["datasets"]}
        found |= {
            (names[each["derived"]], names[each["source"]], each["classifier"])
            for each in told["relations"]
        }
    return found


@pytest.mark.spark
def test_lineage_with_data_is_what_the_definitions_say(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Within(demo, capsys, monkeypatch)
    assert recorded("water", ask) == direct("water")
    (demo / ".odfbuild" / "lineage.sqlite").unlink()
    assert recorded("water", ask) == direct("water")


def real_project(folder: Path) -> Path:
    project = shutil.copytree(EXAMPLES / "italy-covid", folder / "project")
    (project / "data").symlink_to(DATA)
    return project


@needs_data
def test_the_real_data_is_planned_without_an_engine(tmp_path: Path) -> None:
    done = program("plan", "-o", "json", cwd=real_project(tmp_path))
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["datasets"]) == 7


@needs_data
def test_each_revision_of_a_definition_is_a_valid_project(tmp_path: Path) -> None:
    project = real_project(tmp_path)
    for revision in sorted((project / "revisions").glob("*.yaml")):
        shutil.copy(revision, project / "datasets" / "regions.yaml")
        done = program("plan", cwd=project)
        assert done.code == 0, f"{revision.name}: {done.err}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that was applied once to the real data, in the JVM of this process."""
    project = real_project(tmp_path_factory.mktemp("real"))
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        engine.prepare()
        done = Building(project).run("apply", "--yes")
    assert "20200331.csv: 19 columns in the file, 16 in the schema" in done.err
    assert done.code == 4  # a renamed column holds back one source, and what is made of it
    return project


@needs_data
@pytest.mark.spark
def test_after_all_revisions_of_a_table_its_last_one_remains(real: Path) -> None:
    last = sorted((DATA / "italy-covid-regions" / "national-full-snapshots").glob("*.csv"))[-1]
    with last.open(newline="") as source:
        published = sorted(
            (row["data"], row["totale_positivi"], row["note"]) for row in csv.DictReader(source)
        )
    told_all = told("it.covid.national", real, "data", "totale_positivi", "note")
    assert [(time[:19], str(n), note or "") for time, n, note in current(told_all)] == published


@needs_data
@pytest.mark.spark
def test_lineage_of_real_data_is_what_the_definitions_say(
    real: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recorded("italy", Within(real, capsys, monkeypatch)) == direct("italy")


@needs_data
@pytest.mark.spark
def test_a_table_that_was_cut_off_comes_back_whole(real: Path) -> None:
    packed = sorted((DATA / "openflights" / "airlines").glob("*.gz"))[-1]
    text = gzip.decompress(packed.read_bytes()).decode()
    published = [int(row[0]) for row in csv.reader(io.StringIO(text, newline=""))]
    changes = told("org.openflights.airlines", real, "airline_id")
    assert sum(op == RETRACT for op, _ in changes) > 4000
    assert sorted(key for (key,) in current(changes)) == sorted(published)
