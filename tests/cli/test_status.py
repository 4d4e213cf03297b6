"""odfbuild status: how the last apply left each dataset, and who is changing one just now."""

import os
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from tests.cli.market import workspace
from tests.engines import FakeEngine
from tests.inside import Inside, lay_out

BAD = "t,k,v\n2024-01-05,z,not a number\n"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def results(run: Inside) -> dict[str, str]:
    lines = run("status").out.splitlines()
    assert lines[0].endswith("last result")
    return {line.split()[0]: line.split()[-1] for line in lines[2:-1]}


def test_how_the_last_apply_left_a_dataset_is_told(run: Inside, project: Path) -> None:
    assert results(run) == {"out": "ok", "src": "ok"}
    lay_out(project, {"data/2.csv": BAD})
    assert run("apply", "--yes").code == 1
    assert results(run) == {"out": "ok", "src": "failed"}


def test_who_is_changing_a_dataset_is_told_while_they_do(run: Inside, project: Path) -> None:
    dataset = workspace(project).open(DatasetAlias.parse("src"))
    assert dataset is not None
    with dataset.stores.heads.lock():
        lines = run("status").out.splitlines()
    assert lines[0].endswith("locked by")
    held = {line.split()[0]: line for line in lines[2:-1]}
    assert f"process {os.getpid()} on " in held["src"]
    assert held["out"].endswith("-")
    assert "locked by" not in run("status").out


def test_the_note_of_a_process_that_is_gone_is_no_lock(run: Inside, project: Path) -> None:
    found = workspace(project).open(DatasetAlias.parse("src"))
    assert found is not None
    note = project / ".odfbuild" / "cache" / "locks" / found.id.multibase
    note.parent.mkdir(exist_ok=True)
    note.write_text('{"pid": 1, "host": "h", "since": "2024-01-01T00:00:00Z"}')
    assert "locked by" not in run("status").out
