"""odfbuild status: where datasets stand, how they were left, and who is changing one just now."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.market import workspace
from tests.support.projects.texts import derivative

BAD = "t,k,v\n2024-01-05,z,not a number\n"
GOOD = "t,k,v\n2024-01-05,z,1\n"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def told(run: Inside, *selectors: str) -> dict[str, dict[str, Any]]:
    done = run("status", *selectors, "-o", "json")
    assert (done.code, done.err) == (0, "")
    return {each["dataset"]: each for each in json.loads(done.out)}


def column(run: Inside, name: str) -> dict[str, str]:
    """Return what a column of the table has for each dataset."""
    heading, _, *lines = run("status").out.splitlines()
    lines = [line for line in lines if len(line.split()) > 2 and not line.startswith(" ")]
    names, cells = heading.split(), [line.replace(" rows", "_rows").split() for line in lines]
    return {line[0]: line[names.index(name)] for line in cells}


def results(run: Inside) -> dict[str, str]:
    return column(run, "result")


def test_how_the_last_apply_left_a_dataset_is_told(run: Inside, project: Path) -> None:
    assert results(run) == {"out": "ok", "src": "ok"}
    assert "odfbuild runs" not in run("status").out
    lay_out(project, {"data/2.csv": BAD})
    assert run("apply", "--yes").code == 1
    assert results(run) == {"out": "skipped", "src": "failed"}
    assert "For the failure see: odfbuild runs last\n" in run("status").out
    run_id = str(json.loads(run("runs", "last", "-o", "json").out)["run"])
    for name in results(run):
        assert f"{results(run)[name]} " in run("explain", name).out
    assert (
        f"  failed ingest:src in {run_id}\n    data/2.csv:2: column v: "
        in run("explain", "src").out
    )
    skipped = f"  skipped transform:out in {run_id}, because ingest:src failed\n"
    assert skipped in run("explain", "out").out
    lay_out(project, {"data/2.csv": GOOD})
    assert run("apply", "--yes").code == 0
    assert results(run) == {"out": "ok", "src": "ok"}
    assert "Last run" not in run("explain", "src").out


def test_each_chain_is_read_once(run: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    states = Workspace.states

    def counted(self: Workspace, *given: Any, **named: Any) -> Any:
        read.append(self)
        return states(self, *given, **named)

    monkeypatch.setattr(Workspace, "states", counted)
    assert run("status").code == 0
    assert len(read) == 1


def test_a_dataset_that_was_passed_over_has_not_drifted(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": BAD})
    assert run("apply", "--yes").code == 1
    assert (found := run("drift")).code == 0, found.out


def test_who_is_changing_a_dataset_is_told_while_they_do(run: Inside, project: Path) -> None:
    dataset = workspace(project).open(DatasetAlias.parse("src"))
    assert dataset is not None
    with dataset.stores.heads.lock():
        *_, last = run("status").out.splitlines()
        held = {name: each["locked_by"] for name, each in told(run).items()}
    assert last.startswith(f"  src is locked by process {os.getpid()} on ")
    assert held["out"] is None
    assert held["src"]["pid"] == os.getpid()
    assert Timestamp.parse(held["src"]["since"])
    assert "locked by" not in run("status").out


def test_the_note_of_a_process_that_is_gone_is_no_lock(run: Inside, project: Path) -> None:
    found = workspace(project).open(DatasetAlias.parse("src"))
    assert found is not None
    note = project / ".odfbuild" / "cache" / "locks" / found.id.multibase
    note.parent.mkdir(exist_ok=True)
    note.write_text('{"pid": 1, "host": "h", "since": "2024-01-01T00:00:00Z"}')
    assert "locked by" not in run("status").out
    assert told(run)["src"]["locked_by"] is None


# lag


def test_what_a_derivative_has_not_taken_in_is_its_lag(run: Inside, project: Path) -> None:
    assert column(run, "lag") == {"out": "none", "src": "-"}
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-05,c,1\n2024-01-06,d,1\n2024-01-07,e,1\n"})
    assert run("apply", "src", "--yes").code == 0
    assert column(run, "lag") == {"out": "3_rows", "src": "-"}
    lag = told(run, "out")["out"]["lag"]
    (source,) = lag.pop("inputs")
    assert lag == {"records": 3, "watermark": "2024-01-07T00:00:00Z", "restates": False}
    assert (source["dataset"], source["read"], source["present"]) == ("src", 2, 5)
    assert run("apply", "--yes").code == 0
    assert told(run)["out"]["lag"]["records"] == 0
    assert told(run)["src"]["lag"] is None


def test_a_derivative_that_never_ran_is_behind_by_all(run: Inside, project: Path) -> None:
    lay_out(project, {"datasets/far.yaml": derivative("far")})
    assert run("apply", "--yes", "--no-data").code == 0
    assert column(run, "lag")["far"] == "2_rows"


def test_a_watermark_that_moved_alone_is_a_lag(run: Inside) -> None:
    assert run("watermark", "src", "2040-01-01").code == 0
    assert column(run, "lag")["out"] == "watermark"
    assert told(run)["out"]["lag"]["watermark"] == "2040-01-01T00:00:00Z"


def test_an_input_that_was_set_back_is_told(run: Inside, project: Path) -> None:
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-05,c,1\n"})
    assert run("apply", "--yes").code == 0
    assert run("reset", "src", "2", "--yes").code == 0
    assert column(run, "lag")["out"] == "rewritten"
    lag = told(run)["out"]["lag"]
    assert lag["records"] is None
    assert lag["inputs"][0]["rewritten"] is True


def test_an_input_that_is_gone_is_told(run: Inside, project: Path) -> None:
    (project / ".odfbuild" / "names" / "src").unlink()
    assert column(run, "lag") == {"out": "no"}  # no input
    lag = told(run)["out"]["lag"]
    assert (lag["records"], lag["inputs"][0]["present"]) == (None, None)


# as a table, as JSON


def test_usual_names_fit_a_terminal(run: Inside, project: Path) -> None:
    files = {"datasets/long.yaml": derivative("org.example.rates.daily")}
    lay_out(project, files)
    assert run("apply", "--yes").code == 0
    assert max(map(len, run("status").out.splitlines())) <= 80


def test_json_has_whole_hashes_and_counts(run: Inside, project: Path) -> None:
    found = told(run)
    assert list(found) == ["out", "src"]
    folder = project / ".odfbuild" / "datasets"
    for each in found.values():
        id = each["id"].removeprefix("did:odf:")
        assert each["head"] == (folder / id / "refs" / "head").read_text("ascii").strip()
        assert each["blocks"] == len(list((folder / id / "blocks").iterdir()))
        assert each["records"] == 2
        assert each["watermark"] == "2024-01-02T00:00:00Z"
        assert each["last_result"] == "ok"
    assert [each["kind"] for each in found.values()] == ["derivative", "root"]
