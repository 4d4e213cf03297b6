"""What only the engine can refuse of a definition is refused before the first block."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.texts import derivative, root

WRONG = "select t, k, v + 1 as v from src"
SOURCE = "{kind: FilesGlob, path: 'data/*.csv'}"


def _at_once(run: Inside) -> Done:
    return run("apply", "--yes")


def _saved(run: Inside) -> Done:
    assert run("plan", "--out", "saved.json").code == 0
    return run("apply", "saved.json")


def _saved_and_edited(run: Inside) -> Done:
    """A saved plan is what counts, whatever the definitions are by then."""
    assert run("plan", "--out", "saved.json").code == 0
    lay_out(run.project, {"datasets/new.yaml": derivative("new", "src")})
    return run("apply", "saved.json")


WAYS = pytest.mark.parametrize("way", [_at_once, _saved, _saved_and_edited])


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(refused=frozenset({WRONG}))


@pytest.fixture
def run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: FakeEngine,
) -> Inside:
    lay_out(
        tmp_path,
        {
            "datasets/src.yaml": root("src", fetch=SOURCE),
            "datasets/out.yaml": derivative("out", "src"),
            "data/1.csv": "t,k,v\n2024-01-01,a,1\n",
        },
    )
    monkeypatch.chdir(tmp_path)
    return Inside(tmp_path, capsys, monkeypatch, engine)


def _blocks(run: Inside, name: str) -> int:
    dataset = Workspace(run.project / ".odfbuild").open(DatasetAlias.parse(name))
    return 0 if dataset is None else len(list(dataset.blocks()))


@WAYS
def test_a_new_query_that_the_engine_refuses_gets_no_chain(
    way: Callable[[Inside], Done], run: Inside, engine: FakeEngine
) -> None:
    lay_out(run.project, {"datasets/new.yaml": derivative("new", "src", WRONG)})
    done = way(run)
    assert done.code == 4
    assert "datasets/new.yaml:" in done.err
    assert "it is wrong" in done.err
    assert engine.asked.count(WRONG) == 1
    assert _blocks(run, "new") == 0
    assert _blocks(run, "out") == 5


@WAYS
def test_a_changed_query_that_the_engine_refuses_leaves_the_chain(
    way: Callable[[Inside], Done], run: Inside
) -> None:
    assert run("apply", "--yes").code == 0
    before = _blocks(run, "out")
    lay_out(run.project, {"datasets/out.yaml": derivative("out", "src", WRONG)})
    done = way(run)
    assert done.code in {1, 4}
    assert "it is wrong" in done.err
    assert _blocks(run, "out") == before


@WAYS
def test_queries_are_asked_for_with_the_columns_of_inputs_that_are_new_too(
    way: Callable[[Inside], Done], run: Inside, engine: FakeEngine
) -> None:
    lay_out(
        run.project,
        {
            "datasets/mid.yaml": derivative("mid", "src", "select t, k from src"),
            "datasets/new.yaml": derivative("new", "mid", "select t, k from src where k <> ''"),
        },
    )
    assert way(run).code == 0
    assert engine.asked.count("select t, k from src where k <> ''") == 1
