"""Queries for an engine that starts at once are read by it when they are checked and planned."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out, without_jvm
from tests.support.projects.texts import GOOD, derivative, root

WRONG = {
    "a position": "select t, k, v from src order by 7",
    "a position of a group": "select max(t) as t, k from src group by 9",
    "a condition": "select t, k, v from src where v",
    "a column": "select t, kk from src",
    "a constant": "select t, cast('x' as int) as i from src",
    "the column of a query that is read": "select t, missing from up",
}
RIGHT = {
    "of rows": "select t, upper(k) as k from src",
    "of groups": "select max(t) as t, k, sum(v) as v from src group by k",
    "lists of groups": "select max(t) as t, k, array_agg(v) as l from src group by k",
    "of a query": "select t, k2 from up",
}
WRONG_BEFORE = {
    "a position": "select t, k, v from input order by 7",
    "a condition": "select t, k, v from input where v",
    "a column": "select t, kk from input",
    "a constant": "select t, cast('x' as int) as i from input",
    "a function": "select t, nothing(k) as k from input",
    "two columns of one name": "select t, k, v as k from input",
    "branches of two types": "select t, case when v > 1 then v else k end as k from input",
    "no key": "select t, k as l, v from input",
    "what cannot be computed": "select t, first_value(v order by k, k) as v from input group by t",
}
RIGHT_BEFORE = {
    "of rows": "select t, upper(k) as k, v from input",
    "of the time": "select t, k, v from input where t < now()",
    "of groups": "select t, k, sum(v) as v from input group by t, k",
    "in steps": None,
}
SETTINGS = "odfbuild: 1\nname: quick\nengine: {ingest: arrow}\n"


def project(folder: Path, query: str, engine: str = "datafusion") -> Path:
    reads = "up" if "from up" in query else "src"
    return lay_out(
        folder / "project",
        {
            "odfbuild.yaml": SETTINGS,
            "datasets/src.yaml": root(),
            "datasets/up.yaml": derivative(
                "up", query="select t, lower(k) as k2 from src", engine=engine
            ),
            "datasets/out.yaml": derivative(
                "out", reads, query.replace("from up", "from src"), engine=engine
            ),
            "data/1.csv": GOOD,
        },
    )


def preprocessed(folder: Path, query: str | None) -> Path:
    """Lay out a project of one root whose rows go through a query, by default through two."""
    text = f"query: {json.dumps(query)}"
    if query is None:
        given = [
            {"alias": "first", "query": "select t, k as l, v from input"},
            {"query": "select t, l as k, v + 1 as w from first"},
        ]
        text = f"queries: {json.dumps(given)}"
    step = f"preprocess: {{kind: Sql, engine: datafusion, {text}}}"
    written = root().replace("      merge:", f"      {step}\n      merge:")
    assert step in written
    files = {"odfbuild.yaml": SETTINGS, "datasets/src.yaml": written, "data/1.csv": GOOD}
    return lay_out(folder / "project", files)


@pytest.fixture
def inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], Inside]:
    return lambda folder: Inside(folder, capsys, monkeypatch, FakeEngine())


@pytest.mark.parametrize("what", WRONG)
def test_what_its_analysis_refuses_neither_check_nor_plan_passes(
    what: str, tmp_path: Path, inside: Callable[[Path], Inside]
) -> None:
    run = inside(project(tmp_path, WRONG[what]))
    for command in ("check", "plan"):
        done = run(command)
        assert done.code == 1
        assert "datasets/out.yaml:14" in done.out + done.err
    assert "datasets/up.yaml" not in run("check").out + run("check").err
    assert "1 dataset left out" in run("plan").out
    assert not (run.project / ".odfbuild" / "cache").exists()


@pytest.mark.parametrize("what", WRONG_BEFORE)
def test_what_it_refuses_of_a_preprocess_query_is_found_too(
    what: str, tmp_path: Path, inside: Callable[[Path], Inside]
) -> None:
    run = inside(preprocessed(tmp_path, WRONG_BEFORE[what]))
    for command in ("check", "plan"):
        done = run(command)
        assert done.code == 1, done.out
        assert "datasets/src.yaml:" in done.out + done.err


@pytest.mark.parametrize("what", RIGHT_BEFORE)
def test_what_it_reads_of_a_source_is_planned_and_applied(what: str, tmp_path: Path) -> None:
    folder = preprocessed(tmp_path, RIGHT_BEFORE[what])
    for words in (("check",), ("plan",), ("apply", "--yes")):
        done = without_jvm(*words, cwd=folder)
        assert done.code == 0, done.out + done.err


@pytest.mark.parametrize("what", RIGHT)
def test_what_it_reads_is_planned_and_applied(what: str, tmp_path: Path) -> None:
    folder = project(tmp_path, RIGHT[what])
    for words in (("check",), ("plan",), ("apply", "--yes")):
        done = without_jvm(*words, cwd=folder)
        assert done.code == 0, done.out + done.err


def test_no_engine_is_loaded_for_queries_of_another(tmp_path: Path) -> None:
    folder = project(tmp_path, RIGHT["of rows"], "spark")
    program = "from odfbuild.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program, "plan"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Gate: passed." in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "odfbuild.planner" in loaded
    assert "datafusion" not in loaded
    assert not (folder / ".odfbuild").exists()
