"""Watermarks that move by their age, so that windows over a quiet source close."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import watermark_at
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

RULE = 'odfbuild: 1\ndefaults:\n  "src": {watermark: now - %s}\n'
PUSHED = (
    root()
    .replace("SetPollingSource", "AddPushSource")
    .replace("      fetch: {kind: FilesGlob, path: data/*.csv}\n", "      sourceName: default\n")
)


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {
        "odfbuild.yaml": RULE % "1 day",
        "datasets/src.yaml": root(),
        "datasets/out.yaml": derivative(),
        "data/1.csv": GOOD,
    }
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-01-02")
    return Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())


def watermarks(run: Inside) -> dict[str, str]:
    found = json.loads(run("status", "-o", "json").out)
    return {each["dataset"]: each["watermark"] for each in found}


@pytest.mark.parametrize("command", ["apply --yes", "run"])
def test_a_quiet_source_moves_its_watermark_as_the_plan_says(
    run: Inside, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("apply", "--yes").code == 0
    assert watermarks(run)["src"] == "2024-01-02T00:00:00Z"
    assert run("plan", "--detailed-exitcode").code == 0
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-03-01")
    said = "the watermark moves to 2024-02-29T00:00:00Z, from 2024-01-02T00:00:00Z"
    assert said in run("plan").out
    assert run("plan", "--detailed-exitcode").code == 2
    name, *options = command.split()
    assert run(name, *options).code == 0
    moved = "2024-02-29T00:00:00Z"
    assert watermarks(run) == {"src": moved, "out": moved}
    assert run("plan", "--detailed-exitcode").code == 0
    assert run("drift").code == 0
    assert run("verify").code == 0
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-02-01")
    assert run("plan", "--detailed-exitcode").code == 0


def test_a_saved_plan_moves_it_to_what_it_says(
    run: Inside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("apply", "--yes").code == 0
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-03-01")
    file = str(tmp_path / "plan.json")
    assert run("plan", "--out", file).code == 0
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-03-05")
    done = run("apply", file, "--yes")
    assert done.code == 0, done.err
    assert watermarks(run)["src"] == "2024-02-29T00:00:00Z"


def test_rows_of_the_source_come_before_and_late_ones_leave_it(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-03-01")
    assert run("apply", "--yes").code == 0
    assert watermarks(run)["src"] == "2024-02-29T00:00:00Z"
    lay_out(run.project, {"data/2.csv": "t,k,v\n2024-02-01,c,3\n"})
    assert run("apply", "--yes").code == 0
    assert watermarks(run)["src"] == "2024-02-29T00:00:00Z"
    assert run("show", "src").out.count("2024-02-01") == 1
    lay_out(run.project, {"data/3.csv": "t,k,v\n2024-03-04,d,4\n"})
    assert run("apply", "--yes").code == 0
    assert watermarks(run)["src"] == "2024-03-04T00:00:00Z"


def test_what_is_pushed_to_obeys_it(run: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(run.project, {"datasets/src.yaml": PUSHED})
    assert run("apply", "--yes").code == 0
    assert run("plan", "--detailed-exitcode").code == 0
    assert run("ingest", "src", str(run.project / "data/1.csv")).code == 0
    monkeypatch.setenv("ODFBUILD_TODAY", "2024-03-01")
    assert run("apply", "--yes").code == 0
    assert watermarks(run)["src"] == "2024-02-29T00:00:00Z"
    assert run("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize(
    "wrong", ["1 day", "now", "now + 1 day", "now - 1 month", "now - 0", "now - 30s"]
)
def test_what_is_no_time_before_now_is_refused(run: Inside, wrong: str) -> None:
    text = RULE.replace("now - %s", wrong)
    lay_out(run.project, {"odfbuild.yaml": text})
    done = run("plan")
    assert done.code == 1
    assert "odfbuild.yaml:3:" in done.err
    assert "now - 36 hours" in done.err


_NOW = st.integers(0, 4_000_000_000_000)
_AGES = st.integers(1, 100_000).flatmap(
    lambda number: st.sampled_from([60_000, 3_600_000, 86_400_000]).map(lambda u: u * number)
)


@given(_NOW, st.integers(0, 10**10), _AGES)
def test_an_age_never_moves_back_and_is_kept_within_a_step(now: int, later: int, age: int) -> None:
    first, then = (watermark_at(age, Timestamp.from_millis(each)) for each in (now, now + later))
    assert first <= then
    behind = now - first.nanos // 1_000_000
    assert age <= behind < 2 * age
