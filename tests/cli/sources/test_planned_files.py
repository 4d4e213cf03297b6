"""Files that came or went between a saved plan and its apply are reported, whatever they are."""

import json
from itertools import product
from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

NAMES = ("2.csv", "3.csv", "4.csv")
STATES = ("absent", "planned", "gone", "new")


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    text = root(merge="{kind: Append}")
    return Inside(
        lay_out(tmp_path / "shop", {"datasets/src.yaml": text}), capsys, monkeypatch, FakeEngine()
    )


@pytest.mark.parametrize("states", list(product(STATES, repeat=len(NAMES))), ids="-".join)
def test_files_that_a_plan_did_not_name_are_reported(run: Inside, states: tuple[str, ...]) -> None:
    folder = run.project / "data"
    folder.mkdir(exist_ok=True)
    (folder / "1.csv").write_text(GOOD)
    run("apply", "--yes")
    of = {
        state: [name for name, each in zip(NAMES, states, strict=True) if each == state]
        for state in STATES
    }
    for name in (*of["planned"], *of["gone"]):
        (folder / name).write_text(GOOD)
    run("plan", "--out", str(run.project / "saved.json"))
    for name in of["new"]:
        (folder / name).write_text(GOOD)
    for name in of["gone"]:
        (folder / name).unlink()
    done = run("apply", str(run.project / "saved.json"))
    is_planned = bool(of["planned"] or of["gone"])
    assert done.code == 0
    assert ("warning[other-files]" in done.err) == (is_planned and bool(of["new"] or of["gone"]))
    if is_planned:
        for state, words in (("new", "read as well"), ("gone", "not read")):
            listed = f"{words}: {', '.join(of[state])}"
            assert (listed in " ".join(done.err.split())) == bool(of[state])
        assert "No changes" in run("plan").out
    else:
        assert not json.loads((run.project / "saved.json").read_text())["steps"]
