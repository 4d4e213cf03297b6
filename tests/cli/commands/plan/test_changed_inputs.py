"""Inputs that come, go and grow: what the plan says, what apply does, and that it verifies."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

SIDE = "{kind: FilesGlob, path: side/*.csv}"
BOTH = """\
kind: DatasetSnapshot
version: 1
content:
  name: out
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: src, alias: src}, {datasetRef: side, alias: side}]
      transform:
        kind: Sql
        engine: spark
        query: select t, k, v from src union all select t, k, v from side
    - kind: SetVocab
      eventTimeColumn: t
"""


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Return the commands of two roots and a derivative of the first of them, applied."""
    files = {
        "datasets/src.yaml": root(),
        "datasets/side.yaml": root("side", fetch=SIDE),
        "datasets/out.yaml": derivative(query="select * from src"),
        "data/1.csv": GOOD,
        "side/1.csv": "t,k,v\n2024-02-01,x,9\n",
    }
    inside = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    assert inside("apply", "--yes").code == 0
    return inside


def change(run: Inside, **files: str) -> None:
    """Write files; `__` stands for a slash, `_` before the ending for a dot."""
    for name, text in files.items():
        path, _, ending = name.replace("__", "/").rpartition("_")
        (run.project / f"{path}.{ending}").write_text(text, "utf-8")


def rows(run: Inside, name: str = "out") -> list[Mapping[str, Any]]:
    shown = json.loads(run("show", name, "-n", "99", "-o", "json").out)
    return [{k: v for k, v in row.items() if k not in {"system_time", "op", "t"}} for row in shown]


def keys(run: Inside) -> list[str]:
    return [row["k"] for row in rows(run)]


def verified(run: Inside) -> bool:
    return run("verify", "--replay").code == 0


def test_an_input_that_comes_is_read_from_its_first_record_on(run: Inside) -> None:
    change(run, datasets__out_yaml=BOTH)
    said = run("plan")
    assert said.code == 0
    assert "ODF117     warning  input-added: it also reads side" in said.out
    assert "transform  side has 1 new record" in said.out
    assert run("apply", "--yes").code == 0
    assert keys(run) == ["a", "b", "x"]
    change(run, side__2_csv="t,k,v\n2024-02-02,y,8\n", data__2_csv="t,k,v\n2024-01-03,c,3\n")
    assert run("apply", "--yes").code == 0
    assert keys(run) == ["a", "b", "x", "c", "y"]
    assert "No changes" in run("plan").out
    assert verified(run)


def test_an_input_that_goes_is_refused_until_it_is_accepted(run: Inside) -> None:
    change(run, datasets__out_yaml=BOTH)
    assert run("apply", "--yes").code == 0
    change(run, datasets__out_yaml=derivative(query="select * from src"))
    assert "ODF118     REFUSED  input-removed: it no longer reads side" in run("plan").out
    assert run("apply", "--yes").code == 3
    assert run("accept", "ODF118", "out", "--until", "2999-01-01", "--reason", "gone").code == 0
    assert run("apply", "--yes").code == 0
    change(run, side__2_csv="t,k,v\n2024-02-02,y,8\n", data__2_csv="t,k,v\n2024-01-03,c,3\n")
    assert run("apply", "--yes").code == 0
    assert keys(run) == ["a", "b", "x", "c"]
    assert verified(run)


def test_a_column_that_an_input_gains_comes_with_the_definition(run: Inside) -> None:
    wider = root().replace("v BIGINT", "v BIGINT, w STRING")
    assert wider != root()
    change(run, datasets__src_yaml=wider, data__2_csv="t,k,v,w\n2024-01-03,c,3,new\n")
    assert run("apply", "--yes").code == 0
    assert rows(run, "src")[-1] == {"offset": 2, "k": "c", "v": 3, "w": "new"}
    assert rows(run)[-1] == {"offset": 2, "k": "c", "v": 3}
    assert verified(run)
    change(run, datasets__out_yaml=derivative(query="select t, k, v, w from src"))
    said = run("plan")
    assert "+ w" in said.out
    change(run, data__3_csv="t,k,v,w\n2024-01-04,d,4,newer\n")
    assert run("apply", "--yes").code == 0
    assert [row["w"] for row in rows(run)] == [None, None, None, "newer"]
    assert verified(run)


@pytest.mark.parametrize("how", [("reset", "src", "4"), ("compact", "src")])
def test_an_input_that_was_rewritten_is_the_way_to_a_rebuild(
    how: tuple[str, ...], run: Inside
) -> None:
    change(run, data__2_csv="t,k,v\n2024-01-03,c,3\n")
    assert run("apply", "--yes").code == 0
    before = rows(run)
    assert run(*how, "--yes").code == 0
    said = run("plan")
    assert said.code == 1
    assert "out: it cannot continue, as src was rewritten" in said.out + said.err
    assert "rebuild out" in run("explain", "out").out
    failed = run("apply", "--yes")
    assert failed.code in {1, 4}
    assert "error[diverged-input]" in failed.err
    assert rows(run) == before
    assert run("rebuild", "out", "--yes").code == 0
    assert run("apply", "--yes").code == 0
    assert rows(run) == before
    assert "No changes" in run("plan").out
    assert verified(run)
