"""odfbuild rebuild: the data of a derivative dataset is made anew, or everything stays."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.engines import FakeEngine
from tests.inside import Inside, heads

DAYS = ("3", "4")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def run(
    project: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Take in several files, so that the derivative has several slices."""
    inside = Inside(project, capsys, monkeypatch, engine)
    for day in DAYS:
        (project / "data" / f"{day}.csv").write_text(f"t,k,v\n2024-01-0{day},k{day},1\n")
        assert inside("apply", "--yes").code == 0
    return inside


def rows(run: Inside) -> list[Mapping[str, object]]:
    shown = json.loads(run("show", "out", "-n", "99", "-o", "json").out)
    return [{key: row[key] for key in row if key != "system_time"} for row in shown]


def slices(project: Path, name: str) -> int:
    dataset = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert dataset is not None
    return len(dataset.slices())


def test_the_data_is_made_anew_in_one_slice(run: Inside, project: Path) -> None:
    before, old = rows(run), heads(project)
    done = run("rebuild", "out", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "out  (derivative): make all data anew" in done.out
    assert "Then all data is made anew, from 4 records of src." in done.out
    assert rows(run) == before
    assert slices(project, "out") == 1
    assert sum(heads(project)[id] != head for id, head in old.items()) == 1
    assert "No changes" in run("plan").out
    assert run("verify").code == 0


def test_made_anew_twice_it_is_the_same_but_for_the_time(run: Inside, project: Path) -> None:
    assert run("rebuild", "out", "--yes").code == 0
    once, head = rows(run), heads(project)
    assert run("rebuild", "out", "--yes").code == 0
    assert rows(run) == once
    assert heads(project) != head


def test_what_would_happen_is_told_and_not_done(run: Inside, project: Path) -> None:
    before = heads(project)
    done = run("rebuild", "out", "--dry-run", "-o", "json")
    found = json.loads(done.out)
    assert (found["work"], found["mode"], found["reads"]) == ("rebuild", None, {"src": 4})
    assert found["after"]["records"] == 0
    assert found["watermark"]["before"] == found["watermark"]["after"] is not None
    assert found["dropped"] == {"ExecuteTransform": len(DAYS) + 1}
    assert heads(project) == before


def test_it_is_the_way_out_after_an_input_was_rewritten(run: Inside) -> None:
    before = rows(run)
    assert run("compact", "src", "--yes").code == 0
    said = run("plan")
    assert "to make it anew: odfbuild rebuild out" in said.out + said.err
    failed = run("apply", "--yes")
    assert failed.code == 1
    assert "odfbuild rebuild out" in failed.err
    assert run("rebuild", "out", "--yes").code == 0
    assert rows(run) == before
    assert "No changes" in run("plan").out


def test_a_rebuild_that_fails_leaves_everything_as_it_was(
    run: Inside, project: Path, engine: FakeEngine
) -> None:
    before, old = rows(run), heads(project)
    engine.failing = frozenset({"select t, k, v from src", "select * from src"})
    done = run("rebuild", "out", "--yes")
    assert done.code == 1
    assert heads(project) == old
    assert rows(run) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rebuild", "src", "--yes"), 1, "src is a root dataset"),
        (("rebuild", "out"), 64, "odfbuild rebuild --yes"),
        (("rebuild", "outt", "--yes"), 1, "did you mean 'out'?"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_done(
    arguments: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run(*arguments)
    assert done.code == code
    assert says in done.err
    assert heads(project) == before


def test_without_data_there_is_nothing_to_rebuild(run: Inside) -> None:
    run("compact", "out", "--keep-metadata-only", "--yes")
    assert run("rebuild", "out", "--yes").out == (
        "out  Nothing to do: it has no data yet, and apply makes it.\n"
    )


def test_a_saved_rebuild_is_done_once(run: Inside, project: Path) -> None:
    saved = project / "plan.json"
    before = heads(project)
    assert run("rebuild", "out", "--out", str(saved)).code == 0
    assert heads(project) == before
    assert run("apply", str(saved)).code == 0
    assert heads(project) != before
    done = run("apply", str(saved))
    assert done.code == 5
    assert "out is not where the plan found it" in done.err
