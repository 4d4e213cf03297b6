"""The example projects do what their pages say."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.projects import EXAMPLES, REPOSITORY, odfbuild, shell

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
    done = odfbuild("show", name, "-o", "json", "-n", "10000", cwd=project)
    assert done.code == 0, done.err
    loaded: list[dict[str, Any]] = json.loads(done.out)
    return loaded


def told(name: str, project: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a dataset as operation and the columns asked for."""
    return [tuple(row[column] for column in ("op", *columns)) for row in rows(name, project)]


@pytest.mark.spark
def test_the_demo_leaves_nothing_to_do(demo: Path) -> None:
    done = odfbuild("plan", cwd=demo)
    assert done.code == 0
    assert "No changes" in done.out


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


def current(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Play a changelog: return the rows that remain, sorted."""
    left: list[tuple[Any, ...]] = []
    for op, *row in changes:
        if op in {APPEND, CORRECT_TO}:
            left.append(tuple(row))
        else:
            left.remove(tuple(row))
    return sorted(left)


@pytest.mark.spark
def test_several_steps_make_one_result(demo: Path) -> None:
    found = told("water.measurements", demo, "station", "quantity")
    assert len(found) == 19
    assert (APPEND, "otter-ford", "flow") not in found


@pytest.fixture
def real(tmp_path: Path) -> Path:
    project = shutil.copytree(EXAMPLES / "italy-covid", tmp_path / "project")
    (project / "data").symlink_to(DATA)
    return project


@needs_data
def test_the_real_data_is_planned_without_an_engine(real: Path) -> None:
    done = odfbuild("plan", "-o", "json", cwd=real)
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["steps"]) >= 7


@needs_data
def test_each_revision_of_a_definition_is_a_valid_project(real: Path) -> None:
    for revision in sorted((real / "revisions").glob("*.yaml")):
        shutil.copy(revision, real / "datasets" / "regions.yaml")
        done = odfbuild("plan", cwd=real)
        assert done.code == 0, f"{revision.name}: {done.err}"
