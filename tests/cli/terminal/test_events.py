"""`-o ndjson` of apply and run: events while things happen, the very lines of the run's record."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from odfbuild.errors import EngineFailedError
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, lay_out, without_jvm
from tests.support.projects import await_said
from tests.support.projects.market import SETTINGS
from tests.support.projects.texts import GOOD, derivative, root

Event = dict[str, Any]
SHAPE = ["run", "time", "level", "event", "dataset"]
DAY = "t,k,v\n2024-02-0{0},d{0},{0}\n"
BAD = "t,k,v\n2024-01-05,z,not a number\n"


def events(text: str) -> list[Event]:
    """Return the events of a stream, all of one shape and of one run."""
    found: list[Event] = [json.loads(line) for line in text.splitlines()]
    assert all(list(each)[:5] == SHAPE for each in found)
    for each in found:
        each.pop("check", None)  # of a record alone
    assert len({each["run"] for each in found}) <= 1
    times = [datetime.fromisoformat(each["time"]) for each in found]
    assert times == sorted(times)
    return found


def last_record(project: Path) -> Path:
    return max((project / ".odfbuild" / "runs").iterdir())


def of(found: list[Event], event: str, dataset: str) -> list[Event]:
    return [e for e in found if (e["event"], e["dataset"]) == (event, dataset)]


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """Return a project of three roots; each file of `slow` waits until there is a file `go`."""
    command = f"[sh, -c, 'while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; cat']"
    pipe = f"{{kind: Pipe, command: {command}}}"
    files = {f"slow/{day}.csv": DAY.format(day) for day in (1, 2, 3)}
    return lay_out(
        tmp_path / "waiting",
        {
            "datasets/slow.yaml": root(
                "slow", fetch="{kind: FilesGlob, path: slow/*.csv}", prepare=pipe
            ),
            "datasets/near.yaml": root("near", fetch="{kind: FilesGlob, path: near/*.csv}"),
            "datasets/bad.yaml": root("bad", fetch="{kind: FilesGlob, path: bad/*.csv}"),
            "datasets/out.yaml": derivative("out", "slow"),
            "near/1.csv": GOOD,
            "bad/1.csv": BAD,
            **files,
        },
    )


@contextmanager
def applying(
    project: Path, *arguments: str, ready: tuple[str, ...]
) -> Iterator["subprocess.Popen[str]"]:
    """Apply in a process of its own; go on once it said all of this on standard error."""
    line, environment = command("apply", "--yes", *arguments)
    with subprocess.Popen(
        line, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            await_said(process, *ready)
            while not has_process(str(project.parent / "go")):
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def has_process(word: str) -> bool:
    """Tell whether a process has this word in its command line: a pipe that waits."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if word.encode() in line.read_bytes():
                return True
    return False


def test_a_run_is_told_by_the_lines_of_its_record(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": DAY.format(1)})
    done = run("apply", "--yes", "-o", "ndjson")
    assert done.code == 0
    kinds = [(each["event"], each["dataset"]) for each in events(done.out)]
    steps = ["dataset_started", "slice_committed", "dataset_finished"]
    assert kinds == [
        ("run_started", None),
        *((step, "src") for step in steps),
        *((step, "out") for step in steps),
        ("summary", None),
    ]
    record = last_record(project)
    assert events((record / "events.ndjson").read_text("utf-8")) == events(done.out)
    assert record.name == events(done.out)[0]["run"]
    assert "[2/2] ok      transform:out: 1 block, 1 row" in done.err


def test_events_come_while_the_run_goes_on(waiting: Path) -> None:
    ready = ("FAILED  ingest:bad", "ok      ingest:near")
    with applying(waiting, "-o", "ndjson", ready=ready) as process:
        assert process.stdout is not None
        told: list[Event] = []
        while not (
            of(told, "dataset_finished", "near")[1:] and of(told, "dataset_finished", "bad")[1:]
        ):
            told.append(json.loads(process.stdout.readline()))
        assert process.poll() is None
        assert not of(told, "slice_committed", "slow")[1:]
        failed = of(told, "dataset_finished", "bad")[1]
        assert (failed["level"], failed["outcome"]) == ("error", "failed")
        assert "bad/1.csv:2" in json.dumps(failed["errors"])
        (waiting.parent / "go").touch()
        rest, said = process.communicate()
        assert process.returncode == 4, said
    told += events(rest)
    committed = of(told, "slice_committed", "slow")
    assert [each["source"] for each in committed[1:]] == [f"slow/{day}.csv" for day in (1, 2, 3)]
    summary = told[-1]
    assert (summary["event"], summary["outcome"], summary["failed"]) == ("summary", "partly", 1)


def test_after_an_interrupt_what_was_broken_off_is_no_failure(waiting: Path) -> None:
    ready = ("FAILED  ingest:bad", "ok      ingest:near", "ok      append:out")
    with applying(waiting, "-o", "ndjson", ready=ready) as process:
        process.send_signal(signal.SIGINT)
        await_said(process, "ends after the open slices")
        (waiting.parent / "go").touch()
        out, said = process.communicate()
    assert process.returncode == 130
    assert "stopped ingest:slow: interrupted after 2 blocks, 1 row" in said
    assert "FAILED  ingest:slow" not in said
    assert "error[stopped]" not in said
    assert "bad/1.csv:2" in said  # what failed for itself is told as ever
    assert "odfbuild apply --resume" in said
    told = events(out)
    slow = of(told, "dataset_finished", "slow")[1]
    assert (slow["level"], slow["outcome"], "errors" in slow) == ("warning", "interrupted", False)
    assert of(told, "dataset_finished", "bad")[1]["outcome"] == "failed"
    assert not of(told, "dataset_started", "out")[1:]
    summary = told[-1]
    assert [summary[key] for key in ("outcome", "failed", "interrupted")] == ["stopped", 1, 1]
    record = last_record(waiting)
    assert told == events((record / "events.ndjson").read_text("utf-8"))
    kept = json.loads((record / "summary.json").read_text())
    assert [kept[key] for key in ("outcome", "failed", "interrupted")] == ["stopped", 1, 1]
    again = without_jvm("apply", "--resume", "last", "-o", "json", cwd=waiting)
    steps = {each["id"]: each["outcome"] for each in json.loads(again.out)["steps"]}
    assert steps == {"ingest:slow": "done", "transform:out": "done", "ingest:bad": "failed"}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("output", ["text", "json"])
def test_an_interrupt_is_told_in_words_and_as_a_document(
    waiting: Path, output: str, times: int
) -> None:
    ready = ("FAILED  ingest:bad", "ok      ingest:near", "ok      append:out")
    with applying(waiting, "-o", output, ready=ready) as process:
        process.send_signal(signal.SIGINT)
        await_said(process, "ends after the open slices")
        if times == 2:
            process.send_signal(signal.SIGINT)
        else:
            (waiting.parent / "go").touch()
        out, said = process.communicate()
    assert process.returncode == 130
    assert "error[stopped]" not in said
    assert "Traceback" not in said
    rows = {1: 1, 2: 0}[times]
    assert "FAILED  ingest:slow" not in said
    if output == "text":
        last = out.splitlines()[-1]
        assert last.startswith("Interrupted: ")
        assert last.endswith("1 failed, 1 step interrupted, 1 step not started.")
        return
    told = json.loads(out)
    steps = {each["id"]: each for each in told["steps"]}
    assert steps["ingest:slow"]["outcome"] == "interrupted"
    assert steps["ingest:slow"]["errors"] == []
    assert sum(each["records"] for each in steps["ingest:slow"]["rounds"]) == rows
    assert steps["ingest:bad"]["outcome"] == "failed"
    assert steps["transform:out"]["outcome"] == "not-begun"
    assert [told["summary"][key] for key in ("failed", "interrupted", "not_begun")] == [1, 1, 1]
    shown = json.loads(without_jvm("runs", "last", "-o", "json", cwd=waiting).out)
    assert (shown["outcome"], shown["failed"], shown["interrupted"]) == ("stopped", 1, 1)
    assert {e["step"]: e["outcome"] for e in shown["each_step"]}["ingest:slow"] == "interrupted"


def test_a_slice_that_is_held_back_is_told(ask: Inside, market: Path) -> None:
    check = "dataset: src\nchecks:\n  - range: {{column: v, min: 0}}\n    on: new-rows\n{}"
    rows = "t,k,v\n2024-01-03,c,3\n2024-01-04,d,-4\n"
    gated = SETTINGS + "gates: {data: error}\n"
    warned = check.format("    severity: warn\n")
    files = {"odfbuild.yaml": gated, "tests/data/src.yaml": check.format(""), "data/2.csv": rows}
    lay_out(market, files)
    done = ask("apply", "--yes", "-o", "ndjson")
    assert done.code == 7
    told = events(done.out)
    (found,) = of(told, "check_result", "src")
    assert (found["level"], found["outcome"], found["code"]) == ("error", "failed", "data-check")
    assert found["what"].startswith("check range(v): 1 of 2 new rows fails")
    assert found["source"]["file"] == "tests/data/src.yaml"
    (ended,) = of(told, "dataset_finished", "src")
    assert (ended["outcome"], ended["errors"][0]["code"]) == ("failed", "data-check")
    (skipped,) = of(told, "dataset_finished", "out")
    assert (skipped["outcome"], skipped["because"]) == ("skipped", "ingest:src")
    assert (told[-1]["outcome"], told[-1]["level"]) == ("failed", "error")
    lay_out(market, {"tests/data/src.yaml": warned})
    told = events(ask("apply", "--yes", "-o", "ndjson").out)
    (found,) = of(told, "check_result", "src")
    assert (found["level"], found["outcome"]) == ("warning", "warned")
    assert of(told, "slice_committed", "src")


def test_no_secret_is_told(tmp_path: Path) -> None:
    mark = "s3cr3t-mArk"
    where = "http://user:${{ env.HIDDEN }}@127.0.0.1:9/a.csv?k=${{ env.HIDDEN }}"
    lay_out(tmp_path, {"datasets/web.yaml": root("web", fetch=f"{{kind: Url, url: '{where}'}}")})
    told = ("apply", "--yes", "-o", "ndjson", "--report", "json=told.json")
    done = without_jvm(*told, cwd=tmp_path, HIDDEN=mark, ODFBUILD_HTTP_TIMEOUT="1")
    assert done.code == 4
    assert of(events(done.out), "dataset_finished", "web")[-1]["outcome"] == "failed"
    for text in (done.out, done.err, (tmp_path / "told.json").read_text("utf-8")):
        assert mark not in text


def test_what_ends_a_run_as_a_whole_is_told(
    run: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: FakeEngine, _bytes: int | None = None) -> None:
        raise EngineFailedError(what="no Java here", why="so", fix="none")

    monkeypatch.setattr(FakeEngine, "prepare", fail)
    lay_out(project, {"data/2.csv": DAY.format(1)})
    done = run("run", "-o", "ndjson")
    assert done.code == 1
    told = events(done.out)
    assert {each.get("outcome") for each in told[1:-1]} == {"not-begun"}
    assert [told[n]["event"] for n in (0, -1)] == ["run_started", "summary"]
    assert (told[-1]["outcome"], told[-1]["errors"][0]["what"]) == ("failed", "no Java here")


def test_nothing_to_do_is_told_and_what_the_gate_refuses(run: Inside, project: Path) -> None:
    for name in ("apply", "run"):
        told = events(run(name, "-o", "ndjson", *(["--yes"] if name == "apply" else [])).out)
        assert [each["event"] for each in told] == ["run_started", "summary"]
        assert (told[0]["command"], told[1]["outcome"]) == (name, "done")
    changed = root(columns="t DATE NOT NULL, k STRING NOT NULL, w BIGINT")
    lay_out(project, {"datasets/src.yaml": changed})
    done = run("apply", "--yes", "-o", "ndjson")
    assert done.code == 3
    told = events(done.out)
    assert (told[-1]["outcome"], told[-1]["gate_passed"]) == ("failed", False)


@pytest.mark.parametrize(
    ("end", "code", "outcome"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (EngineFailedError(what="no Java here", why="so", fix="none"), 1, "failed"),
    ],
    ids=["interrupt", "error"],
)
@pytest.mark.parametrize("name", ["verify", "test"])
def test_what_ends_a_verification_or_a_test_early_is_told(
    run: Inside,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    end: BaseException,
    code: int,
    outcome: str,
) -> None:
    def ended(_: object) -> object:
        raise end

    def broken(*_: object, **__: object) -> Iterator[object]:
        return map(ended, [None])

    monkeypatch.setattr("odfbuild.executors.verify.run.verify_datasets", broken)
    monkeypatch.setattr("odfbuild.cli.commands.check.test.data_tests", broken)
    done = run(name, "-o", "ndjson")
    assert done.code == code
    told = events(done.out)
    assert [(e["event"], e["dataset"]) for e in told] == [("run_started", None), ("summary", None)]
    assert (told[0]["command"], told[1]["outcome"]) == (name, outcome)
    assert [each["what"] for each in told[1].get("errors", ())] == (
        ["no Java here"] if outcome == "failed" else []
    )


def test_a_plan_without_steps_has_no_events(run: Inside, project: Path) -> None:
    plan = str(project / "undo.json")
    assert run("undo", "last", "--out", plan).code == 0
    for told in (("-o", "ndjson"), ("-o", "json"), ("--report", f"json={project}/told")):
        done = run("apply", plan, *told)
        assert (done.code, done.out, "has no steps" in done.err) == (64, "", True)
    assert run("apply", plan).code == 0


def test_each_pass_of_a_run_is_a_run_of_its_own(run: Inside, project: Path) -> None:
    lay_out(project, {"data/91.csv": DAY.format(1)})
    done = run("run", "--until-idle", "-o", "ndjson")
    assert done.code == 0
    told = [json.loads(line) for line in done.out.splitlines()]
    ends = [n for n, each in enumerate(told) if each["event"] == "summary"]
    assert len(ends) == 2
    first, second = told[: ends[0] + 1], told[ends[0] + 1 :]
    assert {each["run"] for each in first} == {last_record(project).name}
    assert [each["event"] for each in second] == ["run_started", "summary"]
    assert second[0]["run"] > first[0]["run"]


def test_a_reader_that_goes_away_does_not_end_the_run(waiting: Path) -> None:
    with applying(waiting, "-o", "ndjson", ready=("ok      ingest:near",)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        (waiting.parent / "go").touch()
        said = process.stderr.read()
        assert process.wait() == 4, said
    assert "ok      transform:out: 2 blocks, 3 rows" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", ["apply", "run"])
def test_reports_are_written_beside_what_is_printed(run: Inside, project: Path, name: str) -> None:
    yes = ["--yes"] if name == "apply" else []
    report = [f"json={project}/told.json", f"openlineage={project}/lineage"]
    options = [part for each in report for part in ("--report", each)]
    lay_out(project, {"data/2.csv": DAY.format(1)})
    done = run(name, *yes, "-o", "json", *options)
    assert done.code == 0, done.err
    assert (project / "told.json").read_text("utf-8") == done.out
    assert [each["work"] for each in json.loads(done.out)["steps"]] == ["ingest", "transform"]
    lines = (project / "lineage").read_text("utf-8").splitlines()
    jobs = {json.loads(line)["job"]["name"] for line in lines}
    assert {"ingest:src", "transform:out"} < jobs
    lay_out(project, {"data/3.csv": BAD})
    done = run(name, *yes, *options)
    assert done.code == 1
    told = json.loads((project / "told.json").read_text("utf-8"))
    assert [each["outcome"] for each in told["steps"]] == ["failed", "skipped"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--report", "sarif=x"), "json (what -o json prints)"),
        (("--report", "json=-"), "FMT=FILE"),
        (("--report", "json=nowhere/x"), "no folder nowhere"),
        (("--report", "json=data"), "it is a folder"),
        (("--report", "openlineage=a", "--report", "openlineage=b"), "name one file"),
        (("--watch", "--report", "json=x"), "--report json is one document"),
        (("--until-idle", "-o", "json"), "-o ndjson"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_be_reported_is_refused(
    run: Inside,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(project)
    lay_out(project, {"data/2.csv": DAY.format(1)})
    done = run("run", *options)
    assert (done.code, says in done.err, done.out) == (64, True, "")
