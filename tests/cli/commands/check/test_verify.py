"""odfbuild verify: 0 if all holds, 7 if not, and what it is about."""

import json
from pathlib import Path

import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.odf.events import AddData, OffsetInterval
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.data.forger import Forger, put
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside
from tests.support.projects import odfbuild


def dataset(project: Path, name: str) -> Dataset:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_what_holds_is_told_in_a_line_each(project: Path) -> None:
    done = odfbuild("verify", cwd=project)
    assert done.code == 0
    out, src, last = done.out.splitlines()
    assert out.split()[:6] == ["out", "ok", "5", "blocks", "1", "files"]
    assert src.split()[:6] == ["src", "ok", "5", "blocks", "1", "files"]
    assert last == "2 datasets verified, 0 failed."


def test_one_dataset_may_be_named(project: Path) -> None:
    done = odfbuild("verify", "SRC", cwd=project)
    assert done.out.splitlines()[0].startswith("src ")
    assert done.out.splitlines()[-1] == "1 dataset verified, 0 failed."


def test_a_flipped_bit_in_a_data_file_is_found(project: Path) -> None:
    piece, path = dataset(project, "src").slices()[0]
    flip(path)
    done = odfbuild("verify", cwd=project)
    assert done.code == 7
    assert f"data file {piece.physical_hash} has other bytes" in done.out
    assert done.out.splitlines()[-1] == "2 datasets verified, 1 failed."


def test_a_flipped_bit_in_a_block_is_found(project: Path) -> None:
    source = dataset(project, "src")
    third = [hash for hash, _ in source.blocks()][2]
    flip(source.slices()[0][1].parents[1] / "blocks" / str(third))
    done = odfbuild("verify", cwd=project)
    assert done.code == 7
    assert f"the bytes of {third}" in done.out
    assert "src  FAILED" in done.out
    assert "out  ok" in done.out


@pytest.mark.parametrize("part", ["data", "blocks", "refs"])
def test_a_file_that_is_gone_is_found(project: Path, part: str) -> None:
    source = dataset(project, "src")
    folder = source.slices()[0][1].parents[1] / part
    victim = sorted(folder.iterdir())[0]
    victim.unlink()
    done = odfbuild("verify", cwd=project)
    assert done.code == 7
    assert part == "refs" or victim.name in done.out
    assert "out  ok" in done.out


def test_a_damaged_head_is_found_and_named_by_the_other_commands(project: Path) -> None:
    source = dataset(project, "src")
    (source.slices()[0][1].parents[1] / "refs" / "head").write_text("nonsense")
    done = odfbuild("verify", cwd=project)
    assert done.code == 7
    assert "refs/head does not hold the hash of a block" in done.out
    for command in ("plan", "status", "log src", "show src", "apply --yes"):
        told = odfbuild(*command.split(), cwd=project)
        assert told.code == 1
        assert "error[corrupt-head]" in told.err
        assert "Traceback" not in told.err


def test_a_damaged_dataset_is_told_by_show(project: Path) -> None:
    dataset(project, "src").slices()[0][1].unlink()
    done = odfbuild("show", "src", cwd=project)
    assert done.code == 1
    assert done.err.startswith("error[")
    assert "Traceback" not in done.err


def test_nothing_to_verify_is_fine(tmp_path: Path) -> None:
    odfbuild("init", cwd=tmp_path)
    done = odfbuild("verify", cwd=tmp_path)
    assert done.code == 0
    assert done.out == "0 datasets verified, 0 failed.\n"


def test_events_tell_of_each_dataset_as_it_is_done(project: Path) -> None:
    piece, path = dataset(project, "src").slices()[0]
    flip(path)
    reports = ("--report", "json=told.json", "--report", "junit=told.xml")
    done = odfbuild("verify", "-o", "ndjson", *reports, cwd=project)
    assert (done.code, done.err) == (7, "")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert all(list(each)[:5] == ["run", "time", "level", "event", "dataset"] for each in events)
    assert len({each["run"] for each in events}) == 1
    kinds = [(each["event"], each["dataset"], each["level"]) for each in events]
    assert kinds == [
        ("run_started", None, "info"),
        ("check_result", "out", "info"),
        ("check_result", "src", "error"),
        ("summary", None, "error"),
    ]
    assert (events[0]["command"], events[0]["steps"]) == ("verify", 2)
    assert [each["outcome"] for each in events[1:]] == ["passed", "failed", "failed"]
    assert (events[-1]["passed"], events[-1]["failed"]) == (1, 1)
    assert str(piece.physical_hash) in json.dumps(events[2]["findings"])
    told = (project / "told.json").read_text("utf-8")
    assert told == odfbuild("verify", "-o", "json", cwd=project).out
    cases = (project / "told.xml").read_text("utf-8")
    assert cases == odfbuild("verify", "-o", "junit", cwd=project).out
    assert 'failures="1"' in cases


@pytest.mark.parametrize("report", ["sarif=x", "json", "json=-", "junit=nowhere/x"])
def test_what_verify_cannot_report_is_refused(project: Path, report: str) -> None:
    done = odfbuild("verify", "--report", report, cwd=project)
    assert (done.code, done.out, "error[usage]" in done.err) == (64, "", True)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--replay", "it cannot be rerun: KeyError: 'v'"),
        ("--recompute", "its query cannot be computed in full: KeyError: 'v'"),
    ],
)
def test_an_unexpected_failure_is_a_finding_of_the_dataset(
    option: str,
    what: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine()

    def fails(*_: object) -> Frame:
        raise KeyError("v")

    monkeypatch.setattr(engine, "transform", fails)
    done = Inside(project, capsys, monkeypatch, engine)("verify", option)
    assert done.code == 7, done
    assert what in done.out
    assert "src  ok" in done.out
    assert done.out.splitlines()[-1] == "2 datasets verified, 1 failed."


@pytest.mark.parametrize("command", [["show", "src"], ["sql", "select * from src"]])
def test_a_footer_that_counts_other_rows_is_said(
    command: list[str],
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The block records a row more than its file holds, whose hashes are as recorded."""
    ask = Inside(project, capsys, monkeypatch, FakeEngine())
    assert ask(*command).code == 0
    forger = Forger(dataset(project, "src"), tmp_path)
    number = max(n for n, _ in enumerate(forger.blocks) if forger.rows(n) is not None)
    event = forger.blocks[number].event
    assert isinstance(event, AddData) and event.new_data is not None
    interval = event.new_data.offset_interval
    more = OffsetInterval(interval.start, interval.end + 1)
    forger.forge(number, put(forger.blocks[number], ("event", "new_data", "offset_interval"), more))
    done = ask(*command)
    assert (done.code, "error[faulty-rows]" in done.err) == (1, True), done
    assert "the footer of" in done.err
