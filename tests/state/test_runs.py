"""Records of runs: written as it goes, told apart by how they ended, and pruned."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.runs import (
    Ended,
    OpenRun,
    RunSummary,
    UnknownRunError,
    begin_run,
    find_run,
    list_runs,
    new_run_id,
    prune_runs,
    read_events,
    read_plan,
    runs_folder,
)

START = Timestamp.parse("2030-01-01T00:00:00Z")
END = Timestamp.parse("2030-01-01T00:00:05.25Z")


def summary(id: str) -> RunSummary:
    return RunSummary(
        id=id, command="apply", started=START, user="ann", host="here", pid=7,
        project="p", target="dev", version="1", steps=3,
    )  # fmt: skip


def begun(workspace: Path, id: str) -> OpenRun:
    found = begin_run(workspace, summary(id), '{"a":1}')
    assert found is not None
    return found


def ended(workspace: Path, id: str) -> RunSummary:
    run = begun(workspace, id)
    last = replace(run.summary, ended=END, outcome=Ended.DONE, done=3, blocks=9)
    run.end(last)
    return last


@given(st.integers(0, 2**44), st.integers(0, 2**44), st.integers(0, 2**15 - 1))
def test_ids_are_short_and_sort_as_time_does(one: int, other: int, random: int) -> None:
    ids = [new_run_id(one, random), new_run_id(other, random ^ 0x5555 & 0x7FFF)]
    assert [len(each) for each in ids] == [13, 13]
    if one != other:
        assert (ids[0] < ids[1]) == (one < other)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    run = begun(tmp_path, "r1")
    run.write({"event": "a", "text": "ü\ud800\n"})
    run.write({"event": "b"})
    last = replace(run.summary, ended=END, outcome=Ended.PARTLY, failed=1)
    run.end(last)
    assert list_runs(tmp_path).runs == (last,)
    assert find_run(tmp_path, "r1") == last
    assert [each["event"] for each in read_events(tmp_path, "r1")] == ["a", "b"]
    assert read_plan(tmp_path, "r1") == {"a": 1}


def test_nobody_else_may_look(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        run = begun(tmp_path, "r1")
        run.write({"event": "a"})
        run.end(run.summary)
    finally:
        os.umask(before)
    folder = runs_folder(tmp_path)
    paths = [folder, folder / "r1", *(folder / "r1").iterdir()]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert modes.pop("runs") == modes.pop("r1") == 0o700
    assert modes == dict.fromkeys(("plan.json", "summary.json", "events.ndjson"), 0o600)


def test_one_that_lasts_is_running_and_one_that_was_left_is_interrupted(tmp_path: Path) -> None:
    run = begun(tmp_path, "r1")
    run.write({"event": "a"})
    assert [each.outcome for each in list_runs(tmp_path).runs] == [Ended.RUNNING]
    run.close()  # as the kernel does for who is killed
    assert [each.outcome for each in list_runs(tmp_path).runs] == [Ended.INTERRUPTED]
    assert len(list(read_events(tmp_path, "r1"))) == 1


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    run = begun(tmp_path, "r1")
    run.write({"event": "a"})
    run.close()
    path = runs_folder(tmp_path) / "r1" / "events.ndjson"
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole + whole[:cut])
        count = 2 if cut >= len(whole) - 1 else 1
        assert [dict(each) for each in read_events(tmp_path, "r1")] == [{"event": "a"}] * count


def test_half_a_record_is_none(tmp_path: Path) -> None:
    ended(tmp_path, "r1")
    (runs_folder(tmp_path) / "r2").mkdir()
    (runs_folder(tmp_path) / "r3").mkdir()
    (runs_folder(tmp_path) / "r3" / "summary.json").write_text('{"id": "r3"}')
    assert [each.id for each in list_runs(tmp_path).runs] == ["r1"]
    assert read_plan(tmp_path, "r2") is None
    assert list(read_events(tmp_path, "r2")) == []


def test_a_run_is_found_by_a_part_of_its_id_that_no_other_has(tmp_path: Path) -> None:
    for id in ("ab1", "ab2", "ab22"):
        ended(tmp_path, id)
    assert find_run(tmp_path, "b1").id == "ab1"
    assert find_run(tmp_path, "ab2").id == "ab2"
    assert find_run(tmp_path, "last").id == "ab22"
    for text in ("ab", "x", "", "../ab1"):
        with pytest.raises(UnknownRunError):
            find_run(tmp_path, text)
    with pytest.raises(UnknownRunError):
        find_run(tmp_path / "empty", "last")


def test_where_nothing_can_be_written_there_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    assert begin_run(tmp_path, summary("r1"), "{}") is None


@given(st.integers(0, 6), st.booleans())
def test_the_newest_stay_and_so_do_those_that_run(
    tmp_path_factory: pytest.TempPathFactory, keep: int, dry_run: bool
) -> None:
    workspace = tmp_path_factory.mktemp("w")
    running = begun(workspace, "r0")
    for n in range(1, 5):
        ended(workspace, f"r{n}")
    sizes = {
        path.name: sum(each.stat().st_size for each in path.iterdir())
        for path in runs_folder(workspace).iterdir()
    }
    found = prune_runs(workspace, keep=keep, dry_run=dry_run)
    gone = tuple(f"r{n}" for n in range(1, 5) if n < 5 - keep)
    assert found.runs == gone
    assert found.bytes == sum(sizes[name] for name in gone)
    left = {each.id for each in list_runs(workspace).runs}
    assert left == {f"r{n}" for n in range(5)} - (set() if dry_run else set(gone))
    running.close()


def test_a_summary_is_one_small_document(tmp_path: Path) -> None:
    ended(tmp_path, "r1")
    data = (runs_folder(tmp_path) / "r1" / "summary.json").read_bytes()
    assert json.loads(data)["outcome"] == "done"
    assert len(data) < 1000
