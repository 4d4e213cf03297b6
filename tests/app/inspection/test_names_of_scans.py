"""Columns that are named like those that Arrow adds to each scan of a dataset."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

import odfbuild
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import root

NAMES = ("__filename", "__fragment_index", "__batch_index", "__last_in_fragment")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE"])
def test_such_a_column_is_one_like_others(name: str, kind: str, tmp_path: Path) -> None:
    columns = f"t DATE NOT NULL, k STRING NOT NULL, {name} {kind}"
    files = {
        "datasets/src.yaml": root(columns=columns),
        "data/1.csv": f"t,k,{name}\n2024-01-01,a,1\n2024-01-02,b,2\n2024-01-03,c,\n",
    }
    done = without_jvm("apply", "--yes", cwd=lay_out(tmp_path / "project", dict(files)))
    assert done.code == 0, done.err
    project = odfbuild.open_project(tmp_path / "project")
    dataset = project.dataset("src")
    for current in (True, False):
        assert dataset.read(current=current).column(name).to_pylist() == [1, 2, None]
        assert dataset.read(["k"], current=current).column("k").to_pylist() == ["a", "b", "c"]
        assert dataset.read([], current=current).num_rows == 3
        found = dataset.read(["k"], pc.field(name) > 1, current=current)
        assert found.to_pylist() == [{"k": "b"}]
    asked = project.query(f'select k from src where "{name}" = 1')
    assert asked.to_pylist() == [{"k": "a"}]
