"""Rows behind the watermark correct what they change; rules by which they would not are refused."""

from pathlib import Path

import pytest

from tests.engines import FakeEngine
from tests.inside import Inside, lay_out
from tests.texts import GOOD, root


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    return Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())


def rule(late: str) -> dict[str, str]:
    return {"odfbuild.yaml": f'odfbuild: 1\ndefaults:\n  "kind:root": {{late: {late}}}\n'}


@pytest.mark.parametrize("late", ["ignore", "divert"])
@pytest.mark.parametrize("command", ["plan", "check", "apply --yes"])
def test_a_rule_by_which_results_depend_on_portions_is_refused(
    run: Inside, late: str, command: str
) -> None:
    lay_out(run.project, rule(late))
    name, *options = command.split()
    done = run(name, *options)
    assert done.code in (1, 3)
    said = done.out + done.err
    assert f"'late: {late}' cannot be carried out" in said
    assert "odfbuild.yaml:3:" in said
    assert "depends on the portions" in said
    assert not (run.project / ".odfbuild" / "datasets").exists()


def test_that_they_correct_may_be_written_and_is_what_holds(run: Inside) -> None:
    lay_out(run.project, rule("correct"))
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"odfbuild.yaml": "odfbuild: 1\n"})
    assert run("plan", "--detailed-exitcode").code == 0


def test_another_word_is_refused_as_such(run: Inside) -> None:
    lay_out(run.project, rule("maybe"))
    assert "correct" in run("plan").err
