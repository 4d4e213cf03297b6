"""What an apply leaves in the workspace's runs/: facts, the plan, and events as they happened."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.projects.texts import derivative, root


def records(project: Path) -> list[Path]:
    folder = project / ".odfbuild" / "runs"
    return sorted(folder.iterdir()) if folder.exists() else []


def events(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (record / "events.ndjson").read_text().splitlines()]


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def test_an_apply_is_recorded_step_by_step_with_heads(run: Inside, project: Path) -> None:
    (first,) = records(project)
    before = heads(project)
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-05,z,1\n2024-01-06,y,2\n"})
    assert run("apply", "--yes").code == 0
    _, last = records(project)
    assert first.name < last.name
    summary = json.loads((last / "summary.json").read_text())
    assert (summary["outcome"], summary["command"], summary["pid"]) == (
        "done",
        "apply",
        os.getpid(),
    )
    assert [summary[key] for key in ("steps", "done", "failed", "skipped")] == [2, 2, 0, 0]
    assert [summary[key] for key in ("blocks", "records")] == [2, 4]
    assert summary["started"] <= summary["ended"]
    told = events(last)
    assert {each["run"] for each in told} == {last.name}
    kinds = [(each["event"], each["dataset"]) for each in told]
    steps = ["dataset_started", "slice_committed", "dataset_finished"]
    assert kinds == [
        ("run_started", None),
        *((step, "src") for step in steps),
        *((step, "out") for step in steps),
        ("summary", None),
    ]
    known = {each["dataset"]: [] for each in told if each["dataset"]}  # type: ignore[var-annotated]
    for each in told:
        if each["dataset"]:
            known[each["dataset"]].append(each["head"])
    after = heads(project)
    assert {found[0] for found in known.values()} == set(before.values())
    assert {found[-1] for found in known.values()} == set(after.values())
    assert all(found[1] == found[2] for found in known.values())
    times = [datetime.fromisoformat(each["time"]) for each in told]
    assert times == sorted(times)


def test_the_plan_of_a_record_can_be_looked_at(project: Path) -> None:
    (record,) = records(project)
    shown = without_jvm("inspect", "plan", str(record / "plan.json"), "-o", "json", cwd=project)
    assert shown.code == 0
    plan = json.loads(shown.out)
    assert [each["base_head"] for each in plan["datasets"]] == [None, None]
    assert plan["summary"]["create"] == 2


def test_a_plan_is_kept_without_what_it_does_not_touch(run: Inside, project: Path) -> None:
    lay_out(
        project,
        {
            "datasets/far.yaml": root("far", fetch="{kind: FilesGlob, path: far/*.csv}"),
            "far/1.csv": "t,k,v\n2024-01-05,z,1\n",
            "datasets/near.yaml": derivative("near", "out"),
        },
    )
    assert run("apply", "--yes", "far").code == 0
    assert run("apply", "--yes").code == 0
    lay_out(project, {"far/2.csv": "t,k,v\n2024-01-06,z,1\n"})
    assert run("apply", "--yes").code == 0
    plans = [json.loads((each / "plan.json").read_text()) for each in records(project)[1:]]
    named = [[each["name"] for each in plan["datasets"]] for plan in plans]
    assert named == [["far"], ["out", "near"], ["far"]]


def test_nothing_to_do_leaves_no_record(run: Inside, project: Path) -> None:
    before = records(project)
    assert run("apply", "--yes").code == 0
    assert run("plan").code == 0
    assert records(project) == before


def test_a_failure_is_recorded_with_its_reason(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-05,z,not a number\n"})
    assert run("apply", "--yes").code == 1
    told = events(records(project)[-1])
    failed = next(each for each in told if each.get("outcome") == "failed")
    assert (failed["dataset"], failed["level"]) == ("src", "error")
    assert "2.csv" in json.dumps(failed["errors"])
    assert failed["seconds"] >= 0
    skipped = next(each for each in told if each.get("outcome") == "skipped")
    assert (skipped["dataset"], skipped["because"]) == ("out", "ingest:src")
    summary = json.loads((records(project)[-1] / "summary.json").read_text())
    assert (summary["outcome"], summary["failed"], summary["skipped"]) == ("failed", 1, 1)


def test_no_secret_is_in_a_record(tmp_path: Path) -> None:
    mark = "s3cr3t-mArk"
    fetch = (
        "{kind: Url, url: 'http://user:${{ env.HIDDEN }}@127.0.0.1:9/a.csv?k=${{ env.HIDDEN }}'}"
    )
    lay_out(tmp_path, {"datasets/web.yaml": root("web", fetch=fetch)})
    done = without_jvm("apply", "--yes", cwd=tmp_path, HIDDEN=mark, ODFBUILD_HTTP_TIMEOUT="1")
    assert done.code != 0
    (record,) = records(tmp_path)
    for path in record.iterdir():
        text = path.read_text()
        assert "web" in text or path.name == "summary.json"
        assert mark not in text


def test_a_workspace_whose_records_cannot_be_kept_is_worked_on_all_the_same(
    run: Inside, project: Path
) -> None:
    for each in records(project):
        for path in each.iterdir():
            path.unlink()
        each.rmdir()
    (project / ".odfbuild" / "runs").rmdir()
    (project / ".odfbuild" / "runs").write_text("no folder")
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-05,z,1\n"})
    assert run("apply", "--yes").code == 0
