"""odfbuild undo: what it tells, asks, saves and refuses, and what runs after it."""

import json
from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.planner.saved import document_hash
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.process.within import Within
from tests.support.projects.market import append
from tests.support.projects.texts import derivative, root

GOOD = "t,k,v\n2024-01-05,z,7\n"
FAR = {
    "datasets/far.yaml": root("far", fetch="{kind: FilesGlob, path: far/*.csv}"),
    "datasets/beyond.yaml": derivative("beyond", "far"),
    "far/1.csv": GOOD,
}


@pytest.fixture
def began(project: Path) -> dict[str, str]:
    return heads(project)


@pytest.fixture
def run(
    began: dict[str, str],
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Give the project a run that takes in a file and makes two datasets."""
    inside = Inside(project, capsys, monkeypatch, FakeEngine())
    lay_out(project, {**FAR, "data/2.csv": GOOD})
    assert inside("apply", "--yes").code == 0
    return inside


def test_a_run_is_taken_back_after_it_was_told(
    run: Inside, project: Path, began: dict[str, str]
) -> None:
    ended = heads(project)
    told = run("undo", "last", "--dry-run")
    assert (told.code, told.err, heads(project)) == (0, "", ended)
    marks = {line.split()[1]: line.split()[0] for line in told.out.splitlines()[2:6]}
    assert marks == {"beyond": "-", "far": "-", "out": "<", "src": "<"}
    assert "was created by the run; drops 5 blocks, 1 record" in told.out
    done = run("undo", "last", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(told.out)
    assert heads(project) == began
    assert [line.split()[0] for line in run("status").out.splitlines()[2:4]] == ["out", "src"]
    assert run("verify").code == 0
    forth = run("undo", "last", "--yes")
    assert (forth.code, heads(project)) == (0, ended)
    assert "far" in run("status").out
    assert run("verify").code == 0
    assert run("plan").out.startswith("No changes.")


def test_what_was_taken_back_is_planned_again(run: Inside, project: Path) -> None:
    assert run("undo", "last", "--yes").code == 0
    plan = json.loads(run("plan", "-o", "json").out)
    assert plan["summary"]["create"] == 2
    assert run("apply", "--yes").code == 0
    rows = json.loads(run("show", "src", "-o", "json").out)
    assert [row["k"] for row in rows].count("z") == 1


def test_a_saved_plan_does_exactly_that(run: Inside, project: Path, began: dict[str, str]) -> None:
    ended, file = heads(project), project / "undo.json"
    assert run("undo", "last", "--out", str(file)).code == 0
    assert heads(project) == ended
    document = json.loads(file.read_text())
    assert {each["dataset"]: each["base_head"] for each in document["steps"]}.keys() == {
        "src", "out", "far", "beyond",
    }  # fmt: skip
    assert {each["base_head"] for each in document["steps"]} == set(ended.values())
    done = run("apply", str(file))
    assert (done.code, heads(project)) == (0, began)
    again = run("apply", str(file))
    assert (again.code, heads(project)) == (5, began)


def test_a_saved_plan_is_printed_again(
    run: Inside, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, look = project / "undo.json", Within(project, capsys, monkeypatch)
    told = run("undo", "last", "--out", str(file)).out
    again = look("inspect", "plan", str(file))
    assert (again.code, again.out, again.err) == (0, told, "")
    document = json.loads(file.read_text())
    assert json.loads(look("inspect", "plan", str(file), "-o", "json").out) == document
    assert look("inspect", "plan", str(file), "-o", "sarif").code == 64
    assert run("apply", str(file)).code == 0
    stale = look("inspect", "plan", str(file))
    assert (stale.code, stale.out) == (0, told)
    assert "warning[stale-plan]" in stale.err
    file.write_text(json.dumps({**document, "run": "another"}))
    assert "error[damaged-plan]" in look("inspect", "plan", str(file)).err
    file.write_text(json.dumps({**document, "undo_version": "2.0"}))
    assert "error[plan-version]" in look("inspect", "plan", str(file)).err


def test_later_work_is_never_lost(run: Inside, project: Path) -> None:
    append(project, "out", SetInfo(description="else"))
    before = heads(project)
    done = run("undo", "last", "--yes")
    assert (done.code, heads(project)) == (5, before)
    assert "out changed after the run" in done.err


def test_who_cannot_go_on_is_told(run: Inside, project: Path) -> None:
    (first, _) = [each["run"] for each in json.loads(run("runs", "-o", "json").out)]
    lay_out(project, {"datasets/late.yaml": derivative("late", "far")})
    assert run("apply", "--yes").code == 0
    told = run("undo", first, "--dry-run").out
    assert "1 dataset cannot continue then" in told
    assert "! late  read up to offset 0" in told
    found = json.loads(run("undo", first, "--dry-run", "-o", "json").out)
    assert [each["dataset"] for each in found["diverging"]] == ["late"]


def test_without_an_answer_nothing_is_done(run: Inside, project: Path) -> None:
    before = heads(project)
    done = run("undo", "last")
    assert (done.code, heads(project)) == (64, before)


def test_nothing_to_take_back_is_said(run: Inside) -> None:
    (first, _) = [each["run"] for each in json.loads(run("runs", "-o", "json").out)]
    assert run("undo", first, "--yes").code == 0
    done = run("undo", first, "--yes")
    assert (done.code, done.out) == (
        0, f"Nothing to do: no dataset is still at the head that the run {first} wrote.\n",
    )  # fmt: skip


def test_a_target_that_asks_for_plans_is_not_set_back_at_once(run: Inside, project: Path) -> None:
    lay_out(project, {"odfbuild.yaml": "odfbuild: 1\ntargets: {dev: {require_plan_file: true}}\n"})
    before = heads(project)
    done = run("undo", "last", "--yes")
    assert (done.code, heads(project)) == (64, before)
    assert "odfbuild undo ... --out plan.json" in done.err
    assert run("undo", "last", "--out", str(project / "undo.json")).code == 0


def test_a_plan_for_elsewhere_or_of_less_is_refused(run: Inside, project: Path) -> None:
    file = project / "undo.json"
    assert run("undo", "last", "--out", str(file)).code == 0
    before, document = heads(project), json.loads(file.read_text())
    for change, code, says in (
        ({"project": "other"}, 1, "is for the project 'other'"),
        ({"steps": document["steps"][:1]}, 5, "; src would be changed, too"),
    ):
        altered = {**document, **change}
        file.write_text(json.dumps(altered))
        assert "error[damaged-plan]: the plan is damaged: plan_hash" in run("apply", str(file)).err
        file.write_text(json.dumps({**altered, "plan_hash": document_hash(altered)}))
        done = run("apply", str(file))
        assert done.code == code
        assert says in done.err
    file.write_text(json.dumps({"undo_version": "1.0"}))
    assert "it lacks run, project, target" in run("apply", str(file)).err
    assert heads(project) == before


def test_a_name_that_was_taken_back_is_asked_for_again(run: Inside, project: Path) -> None:
    assert run("mv", "far", "near").code == 0
    assert run("apply", "--yes").code == 0
    assert run("plan").out.startswith("No changes.")
    before = heads(project)
    assert "is called far again" in run("undo", "last", "--yes").out
    plan = run("plan").out
    assert "far → near" in plan
    assert "1 moved" in plan
    assert run("undo", "last", "--yes").code == 0
    assert (heads(project), run("plan").out.startswith("No changes.")) == (before, True)
