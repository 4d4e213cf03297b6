"""Data files that are deleted while they are read: all rows, or an error of the package."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import odfbuild
from odfbuild.executors.data.views import DeletedDataError
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import root

ROWS, FILES = 50, 40  # more files than are read ahead


def _csv(number: int) -> str:
    return "t,k,v\n" + "".join(f"2024-01-01,k{number}_{n},{n}\n" for n in range(ROWS))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose dataset has many slices."""
    project = tmp_path_factory.mktemp("deleted") / "project"
    files = {f"data/{n}.csv": _csv(n) for n in range(FILES)}
    files["datasets/src.yaml"] = root(merge="{kind: Append}")
    assert without_jvm("apply", "--yes", cwd=lay_out(project, dict(files))).code == 0
    return project


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"columns": ["k"]},
        {"where": pc.field("v") >= 0},
        {"current": False},
        {"current": False, "where": pc.field("v") >= 0},
        {"as_of": "2024-02-01"},
        {"as_of": "2024-02-01", "where": pc.field("v") >= 0},
    ],
)
def test_all_rows_come_or_it_is_said(asked: dict[str, Any], built: Path) -> None:
    batches = odfbuild.open_project(built).dataset("src").scan(**asked)
    rows = batches.read_next_batch().num_rows
    homes = list(built.glob(".odfbuild/datasets/*/data"))
    for home in homes:
        home.rename(home.with_name("away"))
    try:
        rows += sum(each.num_rows for each in batches)
    except DeletedDataError as error:
        assert "deleted while the dataset was read" in error.what
        assert rows < ROWS * FILES
    else:
        assert rows == ROWS * FILES
    finally:
        for home in homes:
            home.with_name("away").rename(home)


def test_one_of_the_ways_meets_it(built: Path) -> None:
    """As of a time, files are opened one after the other, so that the last ones are missed."""
    batches = odfbuild.open_project(built).dataset("src").scan(as_of="2024-02-01")
    batches.read_next_batch()
    (home,) = built.glob(".odfbuild/datasets/*/data")
    home.rename(home.with_name("away"))
    try:
        with pytest.raises(DeletedDataError):
            batches.read_all()
    finally:
        home.with_name("away").rename(home)
