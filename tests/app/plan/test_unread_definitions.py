"""A definition whose name cannot be read hides no other, and takes nothing away."""

from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

NAMELESS = {
    "a name that is a list": root("gone").replace("name: gone", "name: [gone]"),
    "no name": root("gone").replace("  name: gone\n", ""),
    "broken YAML": root("gone") + ": [\n",
    "an empty name": root("gone").replace("name: gone", "name: ''"),
    "no content": "kind: DatasetSnapshot\nversion: 1\n",
    "a template that fails": "{{ nowhere() }}",
}
FILES = {
    "datasets/src.yaml": root(),
    "datasets/gone.yaml": root("gone"),
    "datasets/reader.yaml": derivative("reader", reads="gone"),
    "datasets/out.yaml": derivative(),
    "data/1.csv": GOOD,
}


@pytest.mark.parametrize("command", ["apply --yes", "run"])
@pytest.mark.parametrize("broken", NAMELESS)
def test_the_rest_is_planned_and_what_it_may_be_of_is_left_as_it_is(
    broken: str,
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = lay_out(tmp_path / "project", FILES)
    here = Inside(project, capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    (project / "datasets/gone.yaml").unlink()
    file = "datasets/gone.yaml.j2" if "template" in broken else "datasets/gone.yaml"
    more = {
        file: NAMELESS[broken],
        "datasets/new.yaml": derivative("new", reads="nobody"),
        "data/2.csv": GOOD,
    }
    lay_out(project, more)
    planned = here("plan")
    assert planned.code == 1
    assert f"  {file}:" in planned.out
    assert "reader is left out: no readable definition is of gone" in planned.out
    assert "new: it is left out: no dataset named 'nobody'" in planned.out
    assert "2.csv" in planned.out
    assert "retire" not in planned.out
    assert "unmanaged" not in planned.out
    done = here(*command.split())
    said = done.out + done.err
    assert done.code == 4
    assert "ingest:src" in said
    assert "ingest:gone" not in said
    for name in (file, "datasets/new.yaml"):
        (project / name).unlink()
    lay_out(project, {"datasets/gone.yaml": root("gone")})
    assert here("apply", "--yes").code == 0
    assert here("status").code == 0


def test_a_project_of_which_nothing_can_be_read_is_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"datasets/gone.yaml": NAMELESS["no name"]}
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    planned = here("plan")
    assert planned.code == 1
    assert "lacks 'name'" in planned.err
    assert planned.out == ""
