"""Files that the order of a source passes over, through the whole program: named, or read."""

import json
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.app.maintenance import rewrite as housekeeping
from odfbuild.executors.ingest import poll as ingest
from odfbuild.executors.ingest.fetch import late_files as source_files
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.texts import FILES_ROOT

MERGES = {
    "Append": "{kind: Append}",
    "Ledger": "{kind: Ledger, primaryKey: [k]}",
    "Snapshot": "{kind: Snapshot, primaryKey: [k]}",
    "UpsertStream": "{kind: UpsertStream, primaryKey: [k]}",
    "ChangelogStream": "{kind: ChangelogStream, primaryKey: [k]}",
}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(tmp_path, capsys, monkeypatch, FakeEngine())


def made(run: Inside, merge: str, files: dict[str, str], rule: str | None = None) -> None:
    """Lay out a project with a source of files, and apply it."""
    settings = "" if rule is None else f"defaults: {{src: {{reread: {rule}}}}}\n"
    definitions = {
        "odfbuild.yaml": f"odfbuild: 1\n{settings}",
        "datasets/src.yaml": FILES_ROOT % MERGES[merge],
    }
    lay_out(run.project, {**definitions, **{f"data/{name}": text for name, text in files.items()}})
    done = run("apply", "--yes")
    assert done.code == 0, done.err


def put(run: Inside, name: str, text: str) -> None:
    """Write a file at another time than before."""
    lay_out(run.project, {f"data/{name}": text})
    path = run.project / "data" / name
    put.clock += 1_000_000_000  # type: ignore[attr-defined]
    os.utime(path, ns=(put.clock, put.clock))  # type: ignore[attr-defined]


put.clock = 10**18  # type: ignore[attr-defined]


def source(run: Inside) -> Dataset:
    found = Workspace(run.project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert found is not None
    return found


def log(run: Inside) -> list[dict[str, Any]]:
    return [row for _, path in source(run).slices() for row in pq.read_table(path).to_pylist()]


def table(run: Inside) -> dict[str, int]:
    """Return the current rows, by key."""
    found: dict[str, int] = {}
    for row in log(run):
        if row["op"] in (0, 3):
            found[row["k"]] = row["v"]
        elif row["op"] == 1:
            del found[row["k"]]
    return found


def codes(run: Inside) -> list[str]:
    done = run("plan", "-o", "json")
    return [each["code"] for each in json.loads(done.out)["notes"]]


def both(done: Done) -> str:
    return done.out + done.err


def test_a_late_file_is_named_by_all_who_speak_of_the_source(run: Inside) -> None:
    made(run, "Append", {"b.csv": "b,1\n"})
    put(run, "a.csv", "a,1\n")
    said = run("plan")
    assert said.code == 0
    assert (
        "warning[late-files]: src: 1 file before the last one that was read" in said.out + said.err
    )
    assert "data/a.csv" in said.out + said.err
    status = run("status").out
    assert "src has 1 file before the last one that was read: data/a.csv" in status
    assert "For unread files see: odfbuild drift" in status
    explained = run("explain", "src").out
    assert "files of its source stay unread" in explained
    assert "all data of its source" not in explained
    assert "for unread files see: odfbuild drift src" in explained
    assert "1 file before the last one that was read: data/a.csv" in explained
    assert "all of its files were read" not in explained
    drifted = run("drift", "-o", "json")
    assert (drifted.code, json.loads(drifted.out)["drift"][0]["kind"]) == (2, "source")
    (told,) = json.loads(run("status", "-o", "json").out)
    assert (told["late_files"], told["changed_files"]) == (["data/a.csv"], [])


@pytest.mark.parametrize("when", ["at first", "later"])
def test_what_matches_and_is_no_file_is_named_by_all(when: str, run: Inside) -> None:
    def add() -> None:
        (run.project / "data").mkdir(exist_ok=True)
        (run.project / "data" / "2.csv").mkdir()
        os.mkfifo(run.project / "data" / "3.csv")

    if when == "at first":
        add()
    made(run, "Append", {"1.csv": "a,1\n"})
    assert run("plan").code == 0
    if when == "later":
        add()
    found = "2 matching entries are not files"
    kinds = "data/2.csv (a folder), data/3.csv (a named pipe)"
    said = both(run("plan"))
    assert f"warning[other-entries]: src: {found}, not read: {kinds}" in " ".join(said.split())
    assert codes(run) == ["other-entries"]
    assert f"src has {found}: {kinds}" in " ".join(run("status").out.split())
    (status,) = json.loads(run("status", "-o", "json").out)
    assert status["other_entries"] == ["data/2.csv", "data/3.csv"]
    assert kinds in " ".join(run("explain", "src").out.split())
    assert kinds in run("drift", "-o", "json").out
    (run.project / "data" / "2.csv").rmdir()
    assert "1 entry is not a file" in both(run("plan"))
    (run.project / "data" / "3.csv").unlink()
    put(run, "3.csv", "c,3\n")
    assert codes(run) == []
    assert run("apply", "--yes").code == 0
    assert table(run) == {"a": 1, "c": 3}


def test_a_corrected_file_is_named_and_a_touched_one_is_not(run: Inside) -> None:
    made(run, "Append", {"a.csv": "a,1\n", "b.csv": "b,1\n"})
    assert codes(run) == []
    put(run, "a.csv", "a,1\n")
    assert codes(run) == []
    put(run, "a.csv", "a,2\n")
    assert codes(run) == ["changed-files"]
    assert codes(run) == ["changed-files"]
    assert "1 file changed since the reading: data/a.csv" in run("explain", "src").out
    put(run, "a.csv", "a,1\n")
    assert codes(run) == []


def test_a_plan_that_had_nothing_to_say_sees_what_comes(run: Inside) -> None:
    made(run, "Append", {"a.csv": "a,1\n", "b.csv": "b,1\n"})
    for _ in range(3):
        assert run("plan").err == ""
    put(run, "a.csv", "a,2\n")
    assert "changed-files" in both(run("plan"))
    put(run, "a.csv", "a,1\n")
    put(run, "0.csv", "a,1\n")
    assert "late-files" in both(run("plan"))
    (run.project / "data" / "0.csv").unlink()
    assert "late-files" not in both(run("plan"))


def test_a_late_file_of_a_ledger_is_read_where_that_is_asked_for(run: Inside) -> None:
    made(run, "Ledger", {"b.csv": "b,1\n"}, "late")
    put(run, "a.csv", "a,1\nb,2\n")
    assert "late files: data/a.csv" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert table(run) == {"b": 1, "a": 1}
    state = source(run).state()
    assert state is not None
    assert state.source_state["default"].value == "b.csv"
    assert run("plan", "--detailed-exitcode").code == 0
    put(run, "c.csv", "c,1\n")
    assert run("apply", "--yes").code == 0
    assert table(run) == {"b": 1, "a": 1, "c": 1}


def test_a_run_reads_what_an_apply_would(run: Inside) -> None:
    made(run, "Ledger", {"2.csv": "b,2\n"}, "late")
    put(run, "1.csv", "a,1\n")
    assert run("run").code == 0
    assert sorted((row["k"], row["v"]) for row in log(run)) == [("a", 1), ("b", 2)]
    assert run("run").out.startswith("Nothing to run")


@pytest.mark.parametrize("merge", ["UpsertStream", "Snapshot"])
def test_a_run_reads_corrections(run: Inside, merge: str) -> None:
    made(run, merge, {"1.csv": "a,1\n"}, "changed")
    put(run, "1.csv", "a,2\n")
    assert run("run").code == 0
    assert [(row["k"], row["v"]) for row in log(run)][-1] == ("a", 2)


def test_a_run_names_what_it_does_not_read(run: Inside) -> None:
    made(run, "Ledger", {"2.csv": "b,2\n"})
    put(run, "1.csv", "a,1\n")
    done = run("run")
    assert done.code == 0
    assert "late-files" in done.out + done.err


def test_a_late_file_without_new_keys_is_read_once(run: Inside) -> None:
    made(run, "Ledger", {"b.csv": "b,1\n"}, "late")
    put(run, "a.csv", "b,1\n")
    assert run("plan", "--detailed-exitcode").code == 2
    assert run("apply", "--yes").code == 0
    for _ in range(2):
        assert run("plan", "--detailed-exitcode").code == 0


def test_the_last_word_on_a_key_stays_that_of_the_latest_file(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\ny,1\n", "b.csv": "x,2\n"}, "changed")
    put(run, "a.csv", "x,1\ny,5\n")
    assert "files to read again, as one changed: data/a.csv, data/b.csv" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 2, "y": 5}
    assert run("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("gone", [False, True])
def test_files_are_read_again_all_together_or_not_at_all(run: Inside, gone: bool) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\ny,1\n", "b.csv": "x,2\n"}, "changed")
    head = source(run).head()
    put(run, "a.csv", "x,1\ny,5\n")
    put(run, "b.csv", "x,two\n")
    assert run("apply", "--yes").code != 0
    assert (source(run).head(), table(run)) == (head, {"x": 2, "y": 1})
    assert "files to read again, as one changed: data/a.csv, data/b.csv" in run("plan").out
    if gone:
        (run.project / "data" / "b.csv").unlink()
        for _ in range(2):
            said = both(run("plan"))
            assert "data/a.csv" in said
            assert "1 file changed since the reading, not read again" in said
        return
    put(run, "b.csv", "x,3\n")
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 3, "y": 5}
    assert run("plan", "--detailed-exitcode").code == 0


def test_nothing_is_kept_beside_of_files_that_are_not_read_again(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\n", "b.csv": "y,2\n"}, "changed")
    rules = "{reread: changed, bad_rows: divert, max_bad_rows: 1}"
    lay_out(run.project, {"odfbuild.yaml": f"odfbuild: 1\ndefaults: {{src: {rules}}}\n"})
    put(run, "a.csv", "x,5\nz,bad\n")
    put(run, "b.csv", "y,bad\nx,bad\n")
    assert run("apply", "--yes").code != 0
    kept = run.project / ".odfbuild" / "bad-rows"
    assert not [each for each in kept.rglob("*") if each.is_file()]
    put(run, "b.csv", "y,3\n")
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert "bad-rows" in both(done)
    assert len([each for each in kept.rglob("*") if each.is_file()]) == 1
    assert table(run) == {"x": 5, "y": 3}


def test_a_chain_set_back_and_forth_knows_what_it_has_read(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\n", "b.csv": "y,1\n"}, "changed")
    before = source(run).head()
    put(run, "a.csv", "x,5\n")
    assert run("apply", "--yes").code == 0
    after = source(run).head()
    assert run("reset", "src", str(before), "--yes").code == 0
    assert run("plan", "--detailed-exitcode").code == 2
    put(run, "a.csv", "x,7\n")
    assert run("reset", "src", str(after), "--yes").code == 0
    assert "data/a.csv" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 7, "y": 1}


def test_a_file_that_was_read_while_it_was_empty_has_changed(run: Inside) -> None:
    made(run, "Append", {"a.csv": "", "b.csv": "b,1\n"})
    put(run, "a.csv", "a,1\n")
    assert codes(run) == ["changed-files"]


@pytest.mark.parametrize("merge", ["Append", "UpsertStream"])
def test_what_was_read_is_known_where_the_run_was_killed_after_the_commit(
    run: Inside, merge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ingest, "_took", killed)
        with suppress(AssertionError):
            made(run, merge, {"a.csv": "x,1\n"}, "changed" if merge == "UpsertStream" else None)
    assert table(run) == {"x": 1}
    put(run, "a.csv", "x,2\n")
    assert "data/a.csv" in both(run("plan"))


def test_a_source_whose_reading_anew_ends_without_a_head_has_its_corrections(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(run, "Append", {"a.csv": "x,1\n", "b.csv": "y,1\n"})
    put(run, "a.csv", "x,2\n")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "set_head", killed)
        assert run("rebuild", "src", "--full", "--yes").code != 0
    assert codes(run) == ["changed-files"]
    assert run("rebuild", "src", "--full", "--yes").code == 0
    assert (codes(run), table(run)) == ([], {"x": 2, "y": 1})


def test_a_chain_knows_its_files_where_its_compaction_was_killed(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(run, "Append", {"a.csv": "x,1\n", "b.csv": "y,1\n", "c.csv": "z,1\n"})
    before = source(run).head()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(housekeeping, "record_applied", killed)
        assert run("compact", "src", "--yes").code != 0
    assert source(run).head() != before
    assert codes(run) == []
    put(run, "b.csv", "y,5\n")
    assert codes(run) == ["changed-files"]
    assert run("reset", "src", str(before), "--yes").code == 0
    assert codes(run) == ["changed-files"]


def test_a_corrected_file_stays_unread_where_one_after_it_is_gone(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\n", "b.csv": "x,2\n", "c.csv": "z,1\n"}, "changed")
    (run.project / "data" / "b.csv").unlink()
    put(run, "a.csv", "x,5\n")
    assert codes(run) == ["changed-files"]
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 2, "z": 1}
    put(run, "b.csv", "x,2\n")
    assert run("apply", "--yes").code == 0
    assert codes(run) == []
    assert table(run) == {"x": 2, "z": 1}


def test_of_a_snapshot_only_the_last_file_is_read_again(run: Inside) -> None:
    made(run, "Snapshot", {"a.csv": "x,1\n", "b.csv": "x,2\n"}, "changed")
    put(run, "a.csv", "x,7\n")
    assert codes(run) == ["changed-files"]
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 2}
    put(run, "b.csv", "x,3\n")
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 3}
    assert codes(run) == ["changed-files"]


def test_of_a_snapshot_the_file_that_stays_unread_is_named_beside_the_last(run: Inside) -> None:
    made(run, "Snapshot", {"a.csv": "x,1\n", "b.csv": "x,2\n"}, "changed")
    put(run, "a.csv", "x,7\n")
    put(run, "b.csv", "x,3\n")
    said = both(run("plan"))
    assert "files to read again, as one changed: data/b.csv" in said
    assert "not read again: data/a.csv" in said


def test_what_is_meant_to_stay_unread_is_not_warned_of(run: Inside) -> None:
    made(run, "Append", {"b.csv": "b,1\n"}, "never")
    put(run, "a.csv", "a,1\n")
    put(run, "b.csv", "b,2\n")
    assert codes(run) == []
    assert "data/a.csv" in run("explain", "src").out


@pytest.mark.parametrize(
    ("merge", "rule"),
    [
        *(("Append", rule) for rule in ("late", "changed")),
        *(("ChangelogStream", rule) for rule in ("late", "changed")),
        *(("UpsertStream", "late"), ("Snapshot", "late"), ("Ledger", "changed")),
    ],
)
def test_a_rule_that_would_make_wrong_rows_is_refused_at_its_place(
    run: Inside, merge: str, rule: str
) -> None:
    definition = FILES_ROOT % MERGES[merge]
    if merge == "ChangelogStream":
        definition = definition.replace("[k STRING", "[op INT, k STRING")
    settings = f"odfbuild: 1\ndefaults:\n  '*': {{tags: [a]}}\n  src: {{reread: {rule}}}\n"
    lay_out(run.project, {"odfbuild.yaml": settings, "datasets/src.yaml": definition})
    for command in ("check", "plan"):
        done = run(command)
        assert done.code == 1
        assert "odfbuild.yaml:4:3: error[reread]" in done.out + done.err


def test_a_chain_that_was_set_back_has_its_files_read_as_it_says(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\n", "b.csv": "y,1\n"}, "changed")
    before = source(run).head()
    put(run, "a.csv", "x,5\n")
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 5, "y": 1}
    assert run("reset", "src", str(before), "--yes").code == 0
    assert table(run) == {"x": 1, "y": 1}
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 5, "y": 1}


def test_a_chain_that_was_set_back_and_goes_on_has_its_files_read_as_it_says(run: Inside) -> None:
    made(run, "UpsertStream", {"a.csv": "x,1\n", "b.csv": "y,1\n"}, "changed")
    before = source(run).head()
    put(run, "a.csv", "x,5\nz,1\n")
    assert run("apply", "--yes").code == 0
    assert run("reset", "src", str(before), "--yes").code == 0
    assert run("watermark", "src", "2030-01-01T00:00:00Z").code == 0
    assert run("plan", "--detailed-exitcode").code == 2
    assert run("apply", "--yes").code == 0
    assert table(run) == {"x": 5, "y": 1, "z": 1}
    assert run("plan", "--detailed-exitcode").code == 0


def test_a_compacted_chain_still_knows_its_files(run: Inside) -> None:
    made(run, "Append", {"a.csv": "x,1\n", "b.csv": "y,1\n", "c.csv": "z,1\n"})
    assert run("compact", "src", "--yes").code == 0
    assert codes(run) == []
    put(run, "b.csv", "y,5\n")
    assert codes(run) == ["changed-files"]


def test_without_the_memory_the_chain_says_which_files_were_read(run: Inside) -> None:
    made(run, "Append", {"b.csv": "b,1\n", "c.csv": "b,1\n"})
    shutil.rmtree(run.project / ".odfbuild" / "sources")
    put(run, "a.csv", "a,1\n")
    assert codes(run) == ["late-files"]
    put(run, "b.csv", "b,2\n")
    assert codes(run) == ["late-files", "changed-files"]


def test_a_damaged_memory_is_as_none(run: Inside) -> None:
    made(run, "Append", {"b.csv": "b,1\n"})
    (kept,) = (run.project / ".odfbuild" / "sources").iterdir()
    for content in (b"", b"\xff\0", b"00000000\n{}", kept.read_bytes()[:-2]):
        kept.write_bytes(content)
        assert codes(run) == []


@pytest.mark.parametrize("seed", range(6))
def test_any_history_of_files_leaves_what_they_say_in_order(run: Inside, seed: int) -> None:
    """An UpsertStream: whatever is corrected when, the rows are those of all files in order."""
    chance = random.Random(seed)
    names = ["a.csv", "b.csv", "c.csv", "d.csv", "e.csv"]

    def content() -> str:
        keys = chance.sample("uvwxyz", 3)
        return "".join(f"{key},{chance.randrange(100)}\n" for key in sorted(keys))

    files = {names[0]: content()}
    made(run, "UpsertStream", files, "changed")
    for name in names[1:]:
        if chance.random() < 0.7:
            again = chance.choice(sorted(files))
            kept = [line.split(",")[0] for line in files[again].split()]
            files[again] = "".join(f"{key},{chance.randrange(100)}\n" for key in kept)
            put(run, again, files[again])
        files[name] = content()
        put(run, name, files[name])
        assert run("apply", "--yes").code == 0
        expected: dict[str, int] = {}
        for each in sorted(files):
            expected |= {k: int(v) for k, v in (line.split(",") for line in files[each].split())}
        assert table(run) == expected


def test_files_that_are_read_again_together_are_not_parted(run: Inside) -> None:
    made(run, "UpsertStream", {"1.csv": "a,10\n", "2.csv": "a,20\n"}, "changed")
    put(run, "1.csv", "a,11\n")
    assert run("apply", "--yes").code == 0
    *_, before, inside, last = (hash for hash, _ in source(run).blocks())
    refused = run("reset", "src", str(inside), "--yes")
    assert (refused.code, table(run)) == (1, {"a": 20})
    assert f"odfbuild reset src {before.short()}, the last block before" in refused.err
    source(run).set_head(inside, last)
    assert "error[partial-input]: 'src' ends in the middle of an input" in both(run("plan"))
    assert "error[partial-input]" in both(run("run"))
    assert run("apply", "--yes").code == 1
    assert run("reset", "src", before.short(), "--yes").code == 0
    assert run("apply", "--yes").code == 0
    assert table(run) == {"a": 20}


def test_files_that_are_read_again_end_where_the_last_ones_change_nothing(run: Inside) -> None:
    made(run, "UpsertStream", {"1.csv": "a,10\n", "2.csv": "b,20\n"}, "changed")
    put(run, "1.csv", "a,11\n")
    assert run("apply", "--yes").code == 0
    assert codes(run) == []
    put(run, "3.csv", "c,30\n")
    assert run("apply", "--yes").code == 0
    assert table(run) == {"a": 11, "b": 20, "c": 30}


@pytest.mark.parametrize("planned", [0, 1, 2])
def test_a_correction_of_the_same_length_within_one_tick_of_the_clock_is_named(
    run: Inside, planned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 10**18
    lay_out(run.project, {"data/1.csv": "a,1\n"})
    os.utime(run.project / "data/1.csv", ns=(written, written))
    monkeypatch.setattr(source_files, "time_ns", lambda: written + 10_000_000)
    made(run, "Ledger", {})
    for _ in range(planned):  # nothing to tell of yet, and that is not remembered forever
        assert "changed-files" not in run("plan").out
    lay_out(run.project, {"data/1.csv": "a,7\n"})
    os.utime(run.project / "data/1.csv", ns=(written, written))
    monkeypatch.setattr(source_files, "time_ns", time_ns)
    for _ in range(2):
        assert "changed-files" in run("plan").out
