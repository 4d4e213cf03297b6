"""odfbuild retire: what it takes away and keeps, whom it names, what it refuses, the way back."""

import json
from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import derivative, root

BOTH: dict[str, str | bytes | None] = {"datasets/src.yaml": None, "datasets/out.yaml": None}


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def rows(run: Inside, name: str) -> object:
    return json.loads(run("show", name, "-n", "99", "-o", "json").out)


def test_names_and_heads_go_and_undo_brings_all_back(run: Inside, project: Path) -> None:
    before, kept = heads(project), {name: rows(run, name) for name in ("src", "out")}
    files = set(project.glob(".odfbuild/datasets/*/*/f*"))
    lay_out(project, BOTH)
    assert "odfbuild retire src" in json.dumps(json.loads(run("plan", "-o", "json").out)["notes"])
    told = run("retire", "*", "--dry-run")
    assert (told.code, told.err, heads(project)) == (0, "", before)
    assert "Retire 2 datasets:" in told.out
    assert "cannot go on" not in told.out
    done = run("retire", "*", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.index("- out") < done.out.index("- src")
    assert heads(project) == {}
    assert set(project.glob(".odfbuild/datasets/*/*/f*")) == files
    assert "src" not in run("status").out
    assert run("runs").out.count("retire") == 1
    back = run("undo", "last", "--yes")
    assert (back.code, heads(project)) == (0, before)
    assert {name: rows(run, name) for name in ("src", "out")} == kept
    assert run("verify").code == 0


def test_what_came_back_and_is_declared_is_not_retired_by_another_undo(
    run: Inside, project: Path
) -> None:
    before = heads(project)
    definitions = {name: (project / name).read_text("utf-8") for name in BOTH}
    lay_out(project, BOTH)
    assert run("retire", "*", "--yes").code == 0
    assert run("undo", "last", "--yes").code == 0
    lay_out(project, definitions)
    refused = run("undo", "last", "--yes")
    assert refused.code == 1
    assert refused.err.count("error[still-declared]") == 2
    assert heads(project) == before
    lay_out(project, BOTH)
    assert run("undo", "last", "--yes").code == 0
    assert heads(project) == {}
    assert run("undo", "last", "--yes").code == 0
    assert heads(project) == before


def test_what_is_declared_or_read_is_refused_with_its_place(run: Inside, project: Path) -> None:
    before = heads(project)
    declared = run("retire", "out", "--yes")
    assert declared.code == 1
    assert "datasets/out.yaml" in declared.err and "error[still-declared]" in declared.err
    lay_out(project, {"datasets/src.yaml": None})
    read = run("retire", "src", "--yes")
    assert read.code == 1
    assert "error[still-read]: out reads src" in read.err
    lay_out(project, {"datasets/out.yaml": None})
    settings = "odfbuild: 1\nmoved: [{from: src, to: new}]\n"
    lay_out(project, {"odfbuild.yaml": settings, "datasets/new.yaml": root("new")})
    moving = run("retire", "src", "--yes")
    assert moving.code == 1
    assert "error[still-declared]" in moving.err
    assert heads(project) == before


def test_readers_that_nobody_declares_are_named(run: Inside, project: Path) -> None:
    lay_out(project, BOTH)
    done = run("retire", "src", "--dry-run")
    assert "1 dataset cannot continue then" in done.out
    assert "! out  read up to offset 1" in done.out


def test_it_is_saved_and_done_once(
    run: Inside,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved, look = project / "plan.json", Within(project, capsys, monkeypatch)
    lay_out(project, BOTH)
    told = run("retire", "src", "out", "--out", str(saved))
    assert (told.code, told.err) == (0, "")
    assert look.done("inspect", "plan", str(saved)) == told.out
    lay_out(project, {"datasets/src.yaml": root()})
    assert run("apply", str(saved)).code == 1
    lay_out(project, {"datasets/src.yaml": None})
    assert (run("apply", str(saved)).code, heads(project)) == (0, {})
    assert run("apply", str(saved)).code == 5


def test_a_name_that_is_declared_again_begins_another_dataset(run: Inside, project: Path) -> None:
    before = heads(project)
    lay_out(project, BOTH)
    assert run("retire", "src", "out", "--yes").code == 0
    lay_out(project, {"datasets/src.yaml": root(), "datasets/out.yaml": derivative()})
    assert run("apply", "--yes").code == 0
    assert before.keys().isdisjoint(heads(project))
    assert run("undo", "last", "--yes").code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nowhere", "--yes"), 1, "nowhere"),
        ((), 64, "SEL"),
        (("src",), 64, "repeat the command with --yes"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_done(
    words: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    lay_out(project, BOTH)
    before = heads(project)
    done = run("retire", *words)
    assert (done.code, heads(project)) == (code, before)
    assert says in done.err
