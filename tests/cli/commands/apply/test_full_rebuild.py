"""odfbuild rebuild --full: a new chain under the same name, by the definition in the project."""

import json
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch.late_files import read_files
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.memory.read_files import FilesRead
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import derivative, root

LACKING = "select t, nothing from src"
BREAKING = "select t, k from src"
WIDER = "t DATE NOT NULL, k STRING NOT NULL, v STRING"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Declare another type of a column of the root."""
    lay_out(project, {"datasets/src.yaml": root(columns=WIDER)})
    return Inside(project, capsys, monkeypatch, FakeEngine())


def rows(run: Inside, name: str) -> list[dict[str, object]]:
    shown = json.loads(run("show", name, "-n", "99", "-o", "json").out)
    return [{key: row[key] for key in row if key != "system_time"} for row in shown]


def remembered(project: Path) -> list[FilesRead]:
    """Return what is known of the files that were read."""
    workspace = Workspace(project / ".odfbuild")
    return [read_files(workspace, state) for state in workspace.states().values()]


def head_of(project: Path, name: str) -> str:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return str(found.head())


def test_another_type_is_refused_and_the_way_on_leads_there(run: Inside, project: Path) -> None:
    refused = run("plan")
    assert refused.code in (1, 3)
    assert "odfbuild rebuild src --full --downstream" in refused.out + refused.err
    before, old = {name: rows(run, name) for name in ("src", "out")}, head_of(project, "src")
    told = run("rebuild", "src", "--full", "--downstream", "--dry-run")
    assert (told.code, head_of(project, "src")) == (0, old)
    assert "new chain from its source" in told.out
    assert "new chain from all records of src" in told.out
    done = run("rebuild", "src", "--full", "--downstream", "--yes")
    assert (done.code, done.err) == (0, "")
    for name in ("src", "out"):
        assert rows(run, name) == [{**row, "v": str(row["v"])} for row in before[name]]
    assert "No changes" in run("plan").out
    assert run("verify").code == 0
    assert run("gc").code == 0  # what is younger than a day stays
    assert run("reset", "src", old, "--yes").code == 0
    assert rows(run, "src") == before["src"]


def test_without_the_readers_they_are_named(run: Inside) -> None:
    done = run("rebuild", "src", "--full", "--yes")
    assert done.code == 0
    assert "! out  read up to offset 1" in done.out
    assert run("rebuild", "state:diverged", "--full", "--yes").code == 0
    assert "No changes" in run("plan").out


def test_a_saved_one_is_done_while_the_definition_is_the_same(run: Inside, project: Path) -> None:
    saved = project / "plan.json"
    assert run("rebuild", "src+", "--full", "--out", str(saved)).code == 0
    lay_out(project, {"datasets/src.yaml": root(columns=WIDER.replace("v STRING", "v DOUBLE"))})
    before = heads(project)
    assert run("apply", str(saved)).code == 5
    assert heads(project) == before
    lay_out(project, {"datasets/src.yaml": root(columns=WIDER)})
    assert run("apply", str(saved)).code == 0
    assert "No changes" in run("plan").out


@pytest.mark.parametrize(
    ("files", "words", "code", "says"),
    [
        ({"data/1.csv": "t,k,v\n"}, "src", 1, "error[empty-source]"),
        ({"data/1.csv": "t,k,v\nno day,k,1\n"}, "src", 1, "no day"),
        ({"datasets/src.yaml": None, "datasets/out.yaml": None}, "src", 1, "error[not-declared]"),
        ({"datasets/out.yaml": root("out")}, "out", 1, "error[kind-changed]"),
        ({"datasets/out.yaml": derivative(query=BREAKING)}, "out", 1, "it broke"),
        ({"datasets/out.yaml": derivative(query=LACKING)}, "out", 1, "'nothing'"),
        ({"datasets/out.yaml": derivative(query=LACKING)}, "src --downstream", 1, "'nothing'"),
        ({}, "src --restore", 64, "--restore keeps the chain"),
    ],
)
def test_what_cannot_be_made_anew_stays_as_it_was(
    files: dict[str, str | bytes | None],
    words: str,
    code: int,
    says: str,
    run: Inside,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, known = heads(project), remembered(project)
    lay_out(project, files)
    if "broke" in says:
        engine = FakeEngine(failing=frozenset({BREAKING}))
        monkeypatch.setattr(
            "odfbuild.executors.engine.spark.engine.SparkEngine", lambda *_, **__: engine
        )
    done = run("rebuild", *words.split(), "--full", "--yes")
    assert (done.code, heads(project), remembered(project)) == (code, before, known)
    assert says in done.err
    assert "Traceback" not in done.err
