"""Names of system columns that were wrong at first: corrected before there are rows, or again."""

from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = lay_out(tmp_path, {"datasets/src.yaml": _named("seen")})
    return Inside(project, capsys, monkeypatch, FakeEngine())


def _named(time: str) -> str:
    text = root()
    assert "eventTimeColumn: t" in text
    return text.replace("eventTimeColumn: t", f"eventTimeColumn: {time}")


def test_it_is_corrected_while_there_is_no_row(run: Inside) -> None:
    (run.project / "data").mkdir()
    assert run("apply", "--yes", "--metadata-only").code == 0
    lay_out(run.project, {"datasets/src.yaml": _named("t"), "data/1.csv": GOOD})
    done = run("apply", "--yes")
    assert done.code == 0, done.out
    assert "seen" not in run("show", "src").out


def test_once_there_are_rows_a_new_chain_takes_it(run: Inside) -> None:
    lay_out(run.project, {"data/1.csv": GOOD})
    assert run("apply", "--yes").code == 0
    assert "seen" in run("show", "src").out
    lay_out(run.project, {"datasets/src.yaml": _named("t")})
    refused = run("plan")
    assert refused.code == 1
    assert "odfbuild rebuild src --full --downstream" in refused.out + refused.err
    done = run("rebuild", "src", "--full", "--downstream", "--yes")
    assert done.code == 0, done.err
    assert run("plan", "--detailed-exitcode").code == 0
    assert "seen" not in run("show", "src").out
