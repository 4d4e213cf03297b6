"""odfbuild apply --resume and --partial: what is done, skipped, left out, and with which code."""

import json
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.events import SetInfo
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.market import append
from tests.support.projects.texts import derivative, root

BAD = "t,k,v\n2024-01-05,z,not a number\n"
GOOD = "t,k,v\n2024-01-05,z,7\n"
FAR = {
    "datasets/far.yaml": root("far", fetch="{kind: FilesGlob, path: far/*.csv}"),
    "datasets/beyond.yaml": derivative("beyond", "far"),
    "far/1.csv": GOOD,
}


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.fixture
def failed(run: Inside, project: Path) -> str:
    """Apply a plan of which one source cannot be read; return how to go on."""
    lay_out(project, {**FAR, "data/2.csv": BAD})
    done = run("apply", "--yes")
    assert done.code == 4
    said = next(line for line in done.err.splitlines() if "--resume" in line)
    return said.split()[-1]


def test_the_rest_of_a_run_is_done_and_what_was_done_is_told(
    run: Inside, project: Path, failed: str
) -> None:
    before = heads(project)
    lay_out(project, {"data/2.csv": GOOD})
    done = run("apply", "--resume", failed)
    assert done.code == 0, done.err
    assert "4 of 6 steps were done, 2 left" in done.out
    assert [line for line in done.out.splitlines() if line.startswith("  done")] == [
        "  done  append:far",
        "  done  ingest:far",
        "  done  append:beyond",
        "  done  transform:beyond",
    ]
    changed = [id for id, head in heads(project).items() if before[id] != head]
    assert len(changed) == 2
    again = run("apply", "--resume", "last")
    assert (again.code, again.out.splitlines()[-1]) == (0, "Nothing is left to do.")
    assert run("plan").out.startswith("No changes.")


def test_going_on_is_told_as_one_document(run: Inside, project: Path, failed: str) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    done = run("apply", "--resume", failed, "-o", "json")
    told = json.loads(done.out)
    assert [each["outcome"] for each in told["steps"]] == ["done", "done"]
    assert told["run"] != failed
    assert "4 of 6 steps were done" in done.err


def test_while_it_still_fails_it_can_be_tried_again(run: Inside, failed: str) -> None:
    done = run("apply", "--resume", failed)
    assert done.code == 1
    assert run("apply", "--resume", "last").code == 1


def test_what_somebody_else_moved_is_refused_unless_the_rest_is_asked_for(
    run: Inside, project: Path, failed: str
) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    append(project, "beyond", SetInfo(description="else"))
    before = heads(project)
    done = run("apply", "--resume", failed)
    assert (done.code, heads(project)) == (5, before)
    assert "beyond changed since the plan was made" in done.err
    done = run("apply", "--resume", failed, "--partial")
    assert done.code == 4
    assert "beyond changed since the plan was made" in done.err
    assert len([id for id, head in heads(project).items() if before[id] != head]) == 2


def saved(run: Inside, project: Path) -> dict[str, Any]:
    assert run("plan", "--out", str(project / "plan.json")).code == 0
    found: dict[str, Any] = json.loads((project / "plan.json").read_text())
    return found


def test_of_a_stale_plan_what_fits_is_done(run: Inside, project: Path) -> None:
    lay_out(project, {**FAR, "data/2.csv": GOOD})
    assert len(saved(run, project)["steps"]) == 6
    append(project, "src", SetInfo(description="else"))
    before = heads(project)
    refused = run("apply", str(project / "plan.json"))
    assert (refused.code, heads(project)) == (5, before)
    done = run("apply", str(project / "plan.json"), "--partial")
    assert done.code == 4
    left = [line.strip() for line in done.err.splitlines() if "left out:" in line]
    assert left == ["left out: ingest:src", "left out: transform:out"]
    after = heads(project)
    assert {id: after[id] for id in before} == before
    assert len(after) == len(before) + 2


def test_where_nothing_fits_nothing_is_done(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    saved(run, project)
    append(project, "src", SetInfo(description="else"))
    before = heads(project)
    done = run("apply", str(project / "plan.json"), "--partial")
    assert (done.code, heads(project)) == (5, before)


def test_a_plan_that_fits_whole_is_done_as_ever(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    saved(run, project)
    assert run("apply", str(project / "plan.json"), "--partial").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--resume", "last", "src"),
        ("--resume", "last", "--no-data"),
        ("--partial",),
        ("--partial", "src"),
        ("--pool", "x"),
        ("--pool", "default=0"),
        ("--pool", "dail=1"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_refused(
    run: Inside, project: Path, arguments: tuple[str, ...]
) -> None:
    lay_out(project, {"data/2.csv": GOOD})
    before = heads(project)
    assert run("apply", "--yes", *arguments).code == 64
    assert heads(project) == before


def test_a_run_that_there_is_not_is_no_run(run: Inside) -> None:
    done = run("apply", "--resume", "nothing")
    assert done.code == 1
    assert "unknown-run" in done.err


def test_pools_of_the_project_and_the_command_are_taken(run: Inside, project: Path) -> None:
    settings = 'odfbuild: 1\npools: {default: 2, slow: 1}\ndefaults:\n  "src": {tags: [slow]}\n'
    lay_out(project, {"odfbuild.yaml": settings, **FAR, "data/2.csv": GOOD})
    done = run("apply", "--yes", "--pool", "slow=2", "-j", "8")
    assert done.code == 0, done.err


def test_after_a_failure_nothing_more_begins_where_that_is_asked(
    run: Inside, project: Path
) -> None:
    lay_out(project, {**FAR, "data/2.csv": BAD})
    done = run("apply", "--yes", "--fail-fast", "-j", "1", "-o", "json")
    outcomes = {each["id"]: each["outcome"] for each in json.loads(done.out)["steps"]}
    assert outcomes["ingest:src"] == "failed"
    assert "skipped" in {outcomes["ingest:far"], outcomes["transform:beyond"]}


def test_no_data_appends_definitions_only(run: Inside, project: Path) -> None:
    lay_out(project, {**FAR, "data/2.csv": GOOD})
    done = run("apply", "--yes", "--no-data", "-o", "json")
    steps = [each["id"] for each in json.loads(done.out)["steps"]]
    assert steps == ["append:far", "append:beyond"]
