"""Sources that a definition disables by an event of its own."""

from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

END = "    - kind: DisablePollingSource\n"
PUSHED = (
    root()
    .replace("SetPollingSource", "AddPushSource")
    .replace("      fetch: {kind: FilesGlob, path: data/*.csv}\n", "      sourceName: devices\n")
)
END_OF_PUSH = "    - kind: DisablePushSource\n      sourceName: devices\n"


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"datasets/src.yaml": root(), "datasets/out.yaml": derivative(), "data/1.csv": GOOD}
    return Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())


@pytest.mark.parametrize("source,end", [(root(), END), (PUSHED, END_OF_PUSH)])
def test_a_source_is_ended_once_and_stays_so(run: Inside, source: str, end: str) -> None:
    lay_out(run.project, {"datasets/src.yaml": source})
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"datasets/src.yaml": f"{source.rstrip()}\n{end}", "data/2.csv": GOOD})
    kind = end.split()[2]
    planned = run("plan")
    assert f"append     {kind}" in planned.out
    assert "2.csv" not in planned.out
    assert run("apply", "--yes", "--allow", "ODF106").code == 0
    assert run("plan", "--detailed-exitcode").code == 0
    assert "No changes" in run("plan").out
    assert run("drift").code == 0
    assert kind in run("log", "src").out
    assert kind in run("render", "src").out
    vocab = "    - kind: SetVocab\n      eventTimeColumn: t\n"
    left_out = source.split("    - kind: ", maxsplit=1)[0]
    lay_out(run.project, {"datasets/src.yaml": left_out + vocab})
    assert "No changes" in run("plan").out
    lay_out(run.project, {"datasets/src.yaml": source})
    assert "append" in run("plan").out


def test_a_new_dataset_whose_source_is_disabled_has_none(run: Inside) -> None:
    lay_out(run.project, {"datasets/src.yaml": f"{root().rstrip()}\n{END}"})
    assert run("check").code == 0
    assert run("apply", "--yes").code == 0
    assert "No changes" in run("plan").out
    assert "SetPollingSource" not in run("log", "src").out


def test_an_end_with_a_name_that_is_nearly_right_is_told(run: Inside) -> None:
    wrong = END_OF_PUSH.replace("devices", "device")
    lay_out(run.project, {"datasets/src.yaml": f"{PUSHED.rstrip()}\n{wrong}"})
    done = run("check")
    assert "warning[no-such-source]" in done.out + done.err
    assert "did you mean 'devices'?" in done.out + done.err


def test_a_derivative_has_no_source_to_disable(run: Inside) -> None:
    lay_out(run.project, {"datasets/out.yaml": f"{derivative().rstrip()}\n{END}"})
    done = run("check")
    assert done.code != 0
    assert "wrong-kind" in done.out + done.err
