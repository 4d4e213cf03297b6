"""odfbuild runs: past runs, one run, what it did to one dataset."""

import json
import shutil
from pathlib import Path

import pytest

from odfbuild.state.files.checksum import check_sum, object_with_check_sum
from odfbuild.state.files.lock import locked
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import probe

BAD = "t,k,v\n2024-01-05,z,not a number\n"
GOOD = "t,k,v\n2024-01-05,z,7\n"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Give the project a run that fails, and one that goes on."""
    inside = Inside(project, capsys, monkeypatch, FakeEngine())
    lay_out(project, {"data/2.csv": BAD})
    assert inside("apply", "--yes").code == 1
    lay_out(project, {"data/2.csv": GOOD})
    assert inside("apply", "--resume", "last").code == 0
    return inside


def test_runs_are_listed_newest_first(run: Inside) -> None:
    found = json.loads(run("runs", "-o", "json").out)
    assert [each["outcome"] for each in found] == ["done", "failed", "done"]
    assert [each["run"] for each in found] == sorted((e["run"] for e in found), reverse=True)
    assert found[0]["follows"] == found[1]["run"]
    assert [each["steps"] for each in found] == [2, 2, 4]
    assert [each["records"] for each in found] == [2, 0, 4]
    done = run("runs")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[0] for line in lines[2:5]] == [each["run"] for each in found]
    assert [line[5] for line in lines[2:5]] == ["done", "failed,", "done"]
    assert lines[3][6] == "resumed"
    assert [each["resumed_by"] for each in found] == [None, found[0]["run"], None]
    assert {each["taken_back_by"] for each in found} == {None}
    assert done.out.endswith("3 runs\n")


def test_so_many_are_listed_as_are_asked_for(run: Inside) -> None:
    assert len(json.loads(run("runs", "-n", "2", "-o", "json").out)) == 2
    assert "3 runs, the newest 1 shown" in run("runs", "-n", "1").out


def test_one_run_is_shown_with_heads_before_and_after(run: Inside, project: Path) -> None:
    found = json.loads(run("runs", "last", "-o", "json").out)
    steps = {each["step"]: each for each in found["each_step"]}
    assert list(steps) == ["ingest:src", "transform:out"]
    after = {step["head_after"] for step in steps.values()}
    assert after == set(heads(project).values())
    assert all(step["head_before"] not in after for step in steps.values())
    text = run("runs", "last").out
    assert all(head[-8:] in text for head in after)
    assert "done: 2 steps planned, 2 started, 2 blocks, 2 rows" in text


def test_a_failed_run_tells_the_reason_and_how_to_go_on(run: Inside, project: Path) -> None:
    lay_out(project, {"data/3.csv": BAD})
    assert run("apply", "--yes").code == 1
    failed = json.loads(run("runs", "-o", "json").out)[0]["run"]
    done = run("runs", failed[4:])
    assert "ingest:src: error[invalid-source]: data/3.csv:2" in done.out
    assert f"odfbuild apply --resume {failed}" in done.out
    skipped = run("runs", failed, "out").out
    assert "skipped" in skipped
    assert "because ingest:src failed" in skipped


def test_a_run_that_was_gone_on_with_says_so_and_gives_no_more_advice(
    run: Inside, project: Path
) -> None:
    resumed, failed, _ = (each["run"] for each in json.loads(run("runs", "-o", "json").out))
    shown = run("runs", failed).out
    assert f"resumed by {resumed}: done" in shown
    assert "to continue" not in shown
    assert json.loads(run("runs", failed, "-o", "json").out)["resumed_by"] == resumed
    assert "After    " + failed in run("runs", resumed).out


def test_of_a_run_that_was_gone_on_with_in_vain_the_rest_is_that_of_the_later(
    run: Inside, project: Path
) -> None:
    lay_out(project, {"data/3.csv": BAD})
    assert run("apply", "--yes").code == 1
    assert run("apply", "--resume", "last").code == 1
    second, first = (each["run"] for each in json.loads(run("runs", "-o", "json").out)[:2])
    shown = run("runs", first).out
    assert f"resumed by {second}: failed" in shown
    assert f"to continue: odfbuild apply --resume {second}" in shown
    lay_out(project, {"data/3.csv": GOOD.replace("z", "y")})
    assert run("apply", "--resume", second).code == 0
    for each in (first, second):
        assert "to continue" not in run("runs", each).out


def test_a_run_that_was_taken_back_says_so_until_that_is_taken_back(run: Inside) -> None:
    resumed, failed = (each["run"] for each in json.loads(run("runs", "-o", "json").out)[:2])
    assert run("undo", resumed, "--yes").code == 0
    back = json.loads(run("runs", "last", "-o", "json").out)
    assert (back["command"], back["follows"]) == ("undo", resumed)
    assert f"undone by {back['run']}" in run("runs", resumed).out
    assert "done, undone" in run("runs").out
    assert f"to continue: odfbuild apply --resume {failed}" in run("runs", failed).out
    assert run("undo", back["run"], "--yes").code == 0
    assert "taken back" not in run("runs", resumed).out
    assert "to continue" not in run("runs", failed).out


def test_a_damaged_summary_is_named(run: Inside, project: Path) -> None:
    record = max((project / ".odfbuild" / "runs").iterdir())
    summary = (record / "summary.json").read_text()
    (record / "summary.json").write_text(summary.replace('"failed": 0', '"failed": 9'))
    assert record.name not in run("runs").out
    done = run("runs", record.name)
    assert (done.code, "damaged-run" in done.err) == (1, True), done


def test_what_a_run_did_to_one_dataset_is_told_in_order(run: Inside) -> None:
    events = json.loads(run("runs", "last", "src", "-o", "json").out)
    kinds = ["dataset_started", "slice_committed", "dataset_finished"]
    assert [each["event"] for each in events] == kinds
    lines = run("runs", "last", "src").out.splitlines()
    assert [line.split()[1] for line in lines] == kinds
    assert "data/2.csv: 1 block  1 row" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nothing",), "no run 'nothing'"), (("last", "far"), "did nothing to far")],
)
def test_what_there_is_not_is_told(run: Inside, arguments: tuple[str, ...], says: str) -> None:
    done = run("runs", *arguments)
    assert (done.code, done.out) == (1, "")
    assert says in done.err


def test_a_run_that_goes_on_is_neither_gone_on_with_nor_taken_back(
    run: Inside, project: Path
) -> None:
    record = max((project / ".odfbuild" / "runs").iterdir())
    summary = json.loads((record / "summary.json").read_text())
    del summary["check"]
    data = object_with_check_sum({**summary, "outcome": "running"}, record.name)
    (record / "summary.json").write_bytes(data)
    before = heads(project)
    assert json.loads(run("runs", "last", "-o", "json").out)["outcome"] == "interrupted"
    with locked(record, timeout=0):
        assert json.loads(run("runs", "last", "-o", "json").out)["outcome"] == "running"
        for arguments in (("apply", "--resume", "last"), ("undo", "last", "--yes")):
            done = run(*arguments)
            assert (done.code, heads(project)) == (6, before)
            assert "run-goes-on" in done.err


def test_where_nothing_ran_there_are_no_runs(run: Inside, project: Path) -> None:
    shutil.rmtree(project / ".odfbuild" / "runs")
    assert run("runs", "-o", "json").out == "[]\n"
    assert run("runs").out.endswith("0 runs\n")


def test_looking_back_needs_no_engine(project: Path) -> None:
    for arguments in (["runs"], ["runs", "last"]):
        modules, started = probe(*arguments, cwd=project)
        assert {"pyspark", "py4j", "pyarrow", "networkx", "sqlglot"}.isdisjoint(modules)
        assert started == set()


def test_a_name_cannot_write_to_the_terminal(run: Inside, project: Path) -> None:
    record = max((project / ".odfbuild" / "runs").iterdir())
    with (record / "events.ndjson").open("a", encoding="utf-8") as file:
        line = {"event": "slice_committed", "dataset": "src", "step": "x", "source": "\x1b[2J"}
        text = json.dumps(line, separators=(",", ":"))
        file.write(f'{text[:-1]},"check":"{check_sum(text, record.name)}"}}\n')
    for arguments in (("last",), ("last", "src"), ("last", "-o", "json")):
        assert "\x1b" not in run("runs", *arguments).out


def test_records_that_are_left_out_are_told_once(run: Inside, project: Path) -> None:
    ids = sorted(each.name for each in (project / ".odfbuild/runs").iterdir())
    summary = project / ".odfbuild/runs" / ids[-1] / "summary.json"
    summary.write_text(summary.read_text().replace('"steps": ', '"steps": 1'))
    for words in ((), ("-o", "json")):
        done = run("runs", *words)
        assert done.code == 0
        assert done.err.count("warning[damaged-run]") == 1
        assert f"1 record with a damaged summary left out: {ids[-1]}" in done.err
        assert ids[-1] not in done.out


def test_lines_that_are_left_out_are_told_once(run: Inside, project: Path) -> None:
    events = min((project / ".odfbuild/runs").iterdir()) / "events.ndjson"
    lines = events.read_text().splitlines(keepends=True)
    events.write_text("".join((lines[0], lines[1].replace("info", "none"), *lines[2:])))
    done = run("runs", events.parent.name)
    assert done.code == 0
    assert done.err.count("warning[damaged-run]") == 1
    assert "1 damaged line, the first is line 2" in done.err
