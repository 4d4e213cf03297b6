"""Commands that read report a definition that is wrong once, and show the rest."""

from pathlib import Path

import pytest

from tests.app.plan.test_unread_definitions import NAMELESS
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

FILES = {
    "datasets/src.yaml": root(),
    "datasets/gone.yaml": root("gone"),
    "datasets/reader.yaml": derivative("reader", reads="gone"),
    "datasets/out.yaml": derivative(),
    "data/1.csv": GOOD,
}
WRONG = {
    **NAMELESS,
    "an input that is nowhere": derivative("gone", reads="nowhere"),
    "a circle": derivative("gone", reads="reader"),
    "a field that is not known": root("gone").replace("merge:", "merg:"),
}
READING = [
    "status kind:root",
    "status +out",
    "drift",
    "drift src",
    "list",
    "list src",
    "list -o json",
    "list -w kind:root",
    "graph",
    "graph --columns",
    "render",
    "render --trace src",
    "impact src",
    "lineage src --columns",
    "lineage src -o html",
    "explain src",
    "explain out",
    "diff src",
    "verify kind:root",
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_reported_once_and_the_rest_shown(
    wrong: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = lay_out(tmp_path / "project", FILES)
    here = Inside(project, capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    (project / "datasets/gone.yaml").unlink()
    file = "datasets/gone.yaml.j2" if "template" in wrong else "datasets/gone.yaml"
    lay_out(project, {file: WRONG[wrong]})
    plan = here("plan").out
    errors = {each for each in _errors(plan) if "left-out" not in each}
    assert errors
    for command in READING:
        done = here(*command.split())
        assert done.code == 1, f"{command}: {done}"
        said = _errors(done.out + done.err)
        assert {each: said.count(each) for each in errors} == dict.fromkeys(errors, 1), command
        assert ("No drift." if "drift" in command else "src") in done.out, command
    (project / file).unlink()
    lay_out(project, {"datasets/gone.yaml": FILES["datasets/gone.yaml"]})
    assert {command: here(*command.split()).code for command in READING} == dict.fromkeys(
        READING, 0
    )


@pytest.mark.parametrize("command", ["impact", "explain", "diff", "lineage --columns"])
def test_a_dataset_whose_definition_is_wrong_is_refused_where_the_answer_rests_on_it(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = lay_out(tmp_path / "project", FILES)
    here = Inside(project, capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    lay_out(project, {"datasets/gone.yaml": WRONG["a field that is not known"]})
    name, *options = command.split()
    done = here(name, "gone", *options)
    assert done.code == 1
    assert done.out == ""
    assert done.err.count("error[unknown-field]") == 1
    assert "wrong-definition" in done.err


def test_a_run_of_chosen_datasets_goes_on_beside_a_wrong_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = lay_out(tmp_path / "project", FILES)
    here = Inside(project, capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    lay_out(project, {"datasets/gone.yaml": NAMELESS["no name"], "data/2.csv": GOOD})
    done = here("run", "src")
    assert "ok      ingest:src" in done.err
    assert "lacks 'name'" in done.err
    assert done.code == 4


def _errors(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "error[" in line]
