"""odfbuild verify --recompute: what stands, beside the query in full over all that was read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import PropertyMock, patch

import pytest

from odfbuild.executors.engine.spark import engine as spark
from odfbuild.sql.analysis.keys.key_columns import KeyColumns
from tests.support.data.replaying import ReplayingEngine
from tests.support.engines import FakeEngine, Rows
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, derivative, root

Opening = Callable[[FakeEngine], Within]

_COPY = "select t, k, v from src"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root and a derivative of it, built in two runs."""
    files = {
        "datasets/src.yaml": root(),
        "datasets/mid.yaml": derivative("mid", "src", _COPY),
        "data/1.csv": GOOD,
    }
    folder = lay_out(tmp_path_factory.mktemp("built") / "project", files)
    for name in ("1.csv", "2.csv"):
        (folder / "data" / name).write_text(GOOD if name == "1.csv" else "t,k,v\n2024-01-03,c,3\n")
        done = without_jvm("apply", "--yes", cwd=folder)
        assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "project")


@pytest.fixture
def opening(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Opening:
    def opened(engine: FakeEngine) -> Within:
        monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
        return Within(project, capsys, monkeypatch)

    return opened


def test_what_stands_is_what_the_query_gives_of_all_rows(opening: Opening, project: Path) -> None:
    before, engine = heads(project), ReplayingEngine()
    done = opening(engine)("verify", "--recompute")
    assert (done.code, done.err) == (0, "")
    mid, src, _ = done.out.splitlines()
    assert mid.endswith(", computed in full")
    assert src.endswith(" bytes")
    assert heads(project) == before
    (work,) = engine.works
    assert work.in_full
    assert work.checkpoint is None
    assert len(work.inputs[0].paths) == len(work.output) == 2


def test_the_first_rows_that_differ_are_shown(opening: Opening) -> None:
    run = opening(ReplayingEngine(queries={_COPY: _with_another_value}))
    done = run("verify", "mid", "--recompute")
    assert done.code == 7
    lines = done.out.splitlines()
    assert lines[0].split()[:2] == ["mid", "FAILED"]
    assert lines[1].endswith(
        "of the current rows, 1 are not in the result of the query over all inputs, "
        "and 1 of its rows are missing"
    )
    assert lines[2].strip().startswith("- stands ")
    assert lines[2].endswith("k=c, v=3")
    assert lines[3].endswith("k=c, v=30")
    (told,) = json.loads(run("verify", "mid", "--recompute", "-o", "json").out)["datasets"]
    assert told["recomputed"]["first_surplus"]["v"] == 3
    assert told["recomputed"]["first_missing"]["v"] == 30
    assert "in the result of the query" in run("verify", "--recompute", "-o", "junit").out


def _with_another_value(inputs: object) -> Rows:
    assert isinstance(inputs, dict)
    return [{**row, "v": 30} if row["k"] == "c" else row for row in inputs["src"]]


def test_it_is_said_where_it_cannot_be_asked(opening: Opening, project: Path) -> None:
    (project / "datasets/mid.yaml").write_text(
        derivative("mid", "src", "select t, k, v + 1 as v from src")
    )
    run = opening(ReplayingEngine())
    (project / "data/3.csv").write_text("t,k,v\n2024-01-04,d,4\n")
    assert run("apply", "--yes").code == 0
    done = run("verify", "mid", "--recompute")
    assert done.code == 0
    assert "not computed in full: its rows were made by several queries" in done.out
    (told,) = json.loads(run("verify", "mid", "--recompute", "-o", "json").out)["datasets"]
    assert told["recomputed"]["ok"] is False
    assert "on_query_change: forward" in told["recomputed"]["not_run"]


@pytest.mark.spark
@pytest.mark.slow
def test_steps_that_looked_at_other_keys_pass_a_replay_and_are_found_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select max(t) as t, v, count(distinct k) as c from src group by v"
    files = {
        "datasets/src.yaml": root(),
        "datasets/out.yaml": derivative("out", "src", query),
        "data/1.csv": "t,k,v\n2024-01-01,a,1\n",
    }
    run = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch)
    wrong = KeyColumns({"src": ("t",)}, ("t",), {})
    with patch("odfbuild.sql.query.Query.key", PropertyMock(return_value=wrong)):
        assert run("apply", "--yes").code == 0
        (run.project / "data/2.csv").write_text("t,k,v\n2024-01-02,b,1\n")
        assert run("apply", "--yes").code == 0
        assert run("verify", "out", "--replay").code == 0
    assert run("verify", "out", "--recompute").code == 7
    assert run("rebuild", "out", "--yes").code == 0
    assert run("verify", "out", "--recompute").code == 0
