"""A step that changes nothing leaves no block: it is planned once, until something moves."""

from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import derivative, root

NONE = "select t, k, v from src where false"


@pytest.fixture(params=["spark", "datafusion"])
def run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Inside:
    """Return a project with a step for an engine, and one after it for the default one."""
    files = {
        "datasets/src.yaml": root(),
        "datasets/out.yaml": derivative(query=NONE, engine=request.param),
        "datasets/end.yaml": derivative("end", "out"),
        "data/1.csv": "t,k,v\n2024-01-01,a,1\n",
    }
    engine = FakeEngine({NONE: lambda _: []})
    run = Inside(lay_out(tmp_path, files), capsys, monkeypatch, engine)
    assert run("apply", "--yes").code == 0
    lay_out(tmp_path, {"data/2.csv": "t,k,v\n2023-01-01,b,2\n"})  # the watermark stays
    return run


def code(run: Inside) -> int:
    return run("plan", "--detailed-exitcode").code


def test_a_step_that_changes_nothing_is_planned_once(run: Inside) -> None:
    assert code(run) == 2
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    for _ in range(2):
        assert code(run) == 0
    lay_out(run.project, {"data/3.csv": "t,k,v\n2023-01-02,c,3\n"})
    assert code(run) == 2
    assert "out" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert code(run) == 0


def test_a_step_that_changed_nothing_is_planned_for_another_query(run: Inside) -> None:
    assert run("apply", "--yes").code == 0
    assert code(run) == 0
    lay_out(run.project, {"datasets/out.yaml": derivative(query="select t, k, v from src")})
    assert "out" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert run("show", "out", "-o", "json").out.count('"k": "b"') == 1


def test_what_is_known_of_a_step_is_a_cache(run: Inside) -> None:
    assert run("apply", "--yes").code == 0
    kept = run.project / ".odfbuild" / "cache" / "empty-steps"
    (file,) = kept.iterdir()
    for content in (b"", b"\xff", file.read_bytes()[:-2]):
        file.write_bytes(content)
        (kept.parent / "settled").unlink(missing_ok=True)
        assert code(run) == 2
    assert run("apply", "--yes").code == 0
    assert code(run) == 0


@pytest.mark.parametrize("first,then", [("run", "run"), ("apply --yes", "run"), ("run", "apply")])
def test_run_knows_of_steps_that_changed_nothing(run: Inside, first: str, then: str) -> None:
    assert run(*first.split()).code == 0
    done = run(then)
    assert done.code == 0
    assert "transform:out" not in done.out + done.err
    lay_out(run.project, {"data/3.csv": "t,k,v\n2023-01-02,c,3\n"})
    assert "transform:out" in run("run").err
