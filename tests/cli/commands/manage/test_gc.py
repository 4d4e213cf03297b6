"""odfbuild gc: what is told and deleted in a whole workspace, and that all goes on after it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from odfbuild.state.files.lock import locked, open_locked
from tests.state.test_gc import folder_of, objects, reached
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.market import dataset, workspace

OLD = "f1620" + "0" * 64


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Give the root two more slices, and merge them with the first."""
    inside = Inside(project, capsys, monkeypatch, FakeEngine())
    for day in ("3", "4"):
        lay_out(project, {f"data/{day}.csv": f"t,k,v\n2024-01-0{day},k{day},1\n"})
        assert inside("apply", "--yes").code == 0
    return inside


def told(run: Inside, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run("gc", "--older-than", "0", "-o", "json", *arguments)
    assert (done.code, done.err) == (code, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def used(project: Path) -> int:
    found = (project / ".odfbuild" / "datasets").rglob("*")
    return sum(each.stat().st_size for each in found if each.is_file())


def test_nothing_goes_where_all_is_in_use(run: Inside, project: Path) -> None:
    before = used(project)
    run("gc", "--older-than", "0")
    assert run("gc", "--older-than", "0").out == "Nothing to free in 2 datasets.\n"
    assert used(project) == before


def test_what_was_compacted_and_made_anew_is_freed(run: Inside, project: Path) -> None:
    run("compact", "src", "--yes")
    run("rebuild", "out", "--yes")
    before = used(project)
    foreseen = told(run, "--dry-run")
    assert used(project) == before
    said = run("gc", "--older-than", "0", "--dry-run").out.splitlines()
    assert said[0].split() == ["dataset", "blocks", "files", "bytes"]
    assert [line.split()[0] for line in said[2:4]] == ["src", "out"] or [
        line.split()[0] for line in said[2:4]
    ] == ["out", "src"]
    assert said[-1].startswith("Would free ")
    assert said[-1].endswith(". Nothing was deleted.")
    freed = told(run)
    assert freed == {**foreseen, "dry_run": False}
    by_name = {each["dataset"]: each for each in freed["datasets"]}
    assert by_name["src"]["files"] == by_name["out"]["files"] == 3
    assert before - used(project) == sum(each["bytes"] for each in freed["datasets"]) > 0
    for name in ("src", "out"):
        folder = folder_of(dataset(project, name))
        assert objects(folder) == reached(folder)
    assert run("verify").code == 0
    assert "No changes" in run("plan").out
    lay_out(project, {"data/9.csv": "t,k,v\n2024-01-09,z,9\n"})
    assert run("apply", "--yes").code == 0


def test_what_a_step_read_is_kept_for_verifying_it(run: Inside, project: Path) -> None:
    run("compact", "src", "--yes")  # and out still stands on what it read
    before = used(project)
    assert told(run)["bytes"] == 0
    assert used(project) == before


def test_what_is_young_is_kept_and_told(run: Inside, project: Path) -> None:
    run("compact", "src", "--yes")
    run("rebuild", "out", "--yes")
    before = used(project)
    done = run("gc")
    assert "younger than 1 day (--older-than)" in done.out
    assert done.out.endswith("Nothing to free in 2 datasets.\n")
    assert used(project) == before


def test_work_that_was_cut_off_is_cleared_away_and_work_that_goes_on_is_not(
    run: Inside, project: Path
) -> None:
    root = project / ".odfbuild"
    mine, theirs = root / "staging" / "aa", root / "staging" / "bb"
    lay_out(root, {"staging/aa/slice": "x" * 1_000, "staging/bb/slice": "x" * 2_000})
    (root / "odfbuild.yaml").unlink()
    with locked(theirs, timeout=0):
        found = told(run)
        assert [(each["kind"], each["bytes"] > 1_000) for each in found["leftovers"]] == [
            ("staging", True)
        ]
    assert not mine.exists()
    assert (theirs / "slice").exists()
    assert "interrupted work: 1, " in run("gc", "--dry-run").out


def test_unfinished_files_and_creations_go_when_they_are_old(run: Inside, project: Path) -> None:
    root = project / ".odfbuild"
    folder = folder_of(dataset(project, "src"))
    unfinished = folder / "blocks" / ".pending-0123456789abcdef"
    unfinished.write_text("half")
    creation = root / "datasets" / ("fed01" + "ab" * 32)
    (creation / "blocks").mkdir(parents=True)
    (creation / "blocks" / OLD).write_text("first")
    assert told(run, "--older-than", "1h")["leftovers"] == []
    opened = open_locked(creation)
    assert opened is not None
    kinds = [each["kind"] for each in told(run)["leftovers"]]
    assert kinds == ["unfinished"]
    os.close(opened)
    assert [each["kind"] for each in told(run)["leftovers"]] == ["creation"]
    assert not creation.exists()
    assert not unfinished.exists()


def test_unfinished_records_and_notes_go(run: Inside, project: Path) -> None:
    root = project / ".odfbuild"
    gone, near = "fed01" + "ef" * 32, ".pending-0123456789abcdef"
    left = [root / "runs" / "00000000a-abc" / near, root / "cache" / "applied" / near]
    left += [root / "cache" / name / gone for name in ("drift", "locks")]
    for each in left:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("x")
    assert {each["path"] for each in told(run)["leftovers"]} == {str(each) for each in left}
    assert not any(each.exists() for each in left)


def test_an_unfinished_file_goes_whatever_folder_it_is_in(run: Inside, project: Path) -> None:
    root, near = project / ".odfbuild", ".pending-0123456789abcdef"
    dataset(project, "src")
    made_later = ("cache/files", "cache/origins", "cache/leases", "disabled", "sources")
    for name in made_later:
        (root / name).mkdir(parents=True, exist_ok=True)
    passed_over = {root, root / "staging", root / "datasets"}
    inside = [each for each in root.rglob("*") if each.is_dir() and each not in passed_over]
    left = {
        folder / near
        for folder in inside
        if folder.parent != root / "datasets" and "spark" not in folder.parts
    }
    assert len(left) > len(made_later) + 5
    for each in left:
        each.write_text("half")
    assert {each["path"] for each in told(run)["leftovers"]} == set(map(str, left))
    assert not any(each.exists() for each in left)


def test_a_cache_of_a_dataset_that_is_gone_goes_whatever_cache_it_is(
    run: Inside, project: Path
) -> None:
    mine = dataset(project, "src").id.multibase
    caches = ("origins", "accepted-inputs", "empty-steps", "files", "one-that-comes-later")
    left, kept = [
        {project / ".odfbuild" / "cache" / each / name for each in caches}
        for name in ("fed01" + "cd" * 32, mine)
    ]
    for each in left | kept:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("x")
    assert {each["path"] for each in told(run)["leftovers"]} == set(map(str, left))
    assert not any(each.exists() for each in left)
    assert all(each.exists() for each in kept)


def test_a_dataset_whose_head_was_lost_is_no_leftover(run: Inside, project: Path) -> None:
    folder = folder_of(dataset(project, "src"))
    (folder / "refs" / "head").unlink()
    before = objects(folder)
    assert told(run)["leftovers"] == []
    assert objects(folder) == before


def test_caches_of_datasets_and_processes_that_are_gone_go(run: Inside, project: Path) -> None:
    cache = project / ".odfbuild" / "cache"
    gone = "fed01" + "cd" * 32
    mine = dataset(project, "src").id.multibase
    lay_out(
        cache,
        {
            f"fetch/{gone}/piece": "x",
            f"merge/{mine}/piece": "x",
            f"spark/{os.getpid()}-01234567/x": "x",
            "spark/999999999-01234567/x": "x",
        },
    )
    found = {Path(each["path"]).name for each in told(run)["leftovers"]}
    assert found == {gone, "999999999-01234567"}
    assert not (cache / "fetch" / gone).exists()
    assert (cache / "merge" / mine / "piece").exists()
    assert (cache / "spark" / f"{os.getpid()}-01234567").exists()


def test_old_records_of_runs_go(run: Inside, project: Path) -> None:
    folder = project / ".odfbuild" / "runs"
    names = [f"00000000{n}-abc" for n in range(4)]
    lay_out(folder, {f"{name}/summary.json": "{}" for name in names})
    (folder / "odfbuild.yaml").unlink()
    (folder / "datasets").rmdir()
    there = sorted(each.name for each in folder.iterdir())
    keep = str(len(there) - 2)
    found = told(run, "--keep-runs", keep)["runs"]
    assert found == {"deleted": names[:2], "bytes": 4}
    assert sorted(each.name for each in folder.iterdir()) == there[2:]


def test_a_dataset_that_cannot_be_looked_at_is_told_and_the_others_are_cleared(
    run: Inside, project: Path
) -> None:
    run("compact", "src", "--yes")
    run("rebuild", "out", "--yes")
    with dataset(project, "src").stores.heads.lock():
        done = run("gc", "--older-than", "0")
    assert done.code == 4
    assert "skipped: src: " in done.out
    assert "is locked by process" in done.out
    assert "Freed " in done.out
    folder = folder_of(dataset(project, "out"))
    assert objects(folder) == reached(folder)
    assert run("gc", "--older-than", "0").code == 0


def test_a_chain_without_a_name_is_kept_and_told(run: Inside, project: Path) -> None:
    (project / ".odfbuild" / "names" / "out").unlink()
    before = heads(project)
    done = run("gc", "--older-than", "0")
    assert "has a head but no name; odfbuild import names it" in done.out
    assert heads(project) == before
    (folder,) = set(heads(project)) - {dataset(project, "src").id.multibase}
    place = workspace(project).root / "datasets" / folder
    assert run("import", str(place), "out", "--no-definition").code == 0
    assert "No changes" in run("plan").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--older-than", "soon"), "--older-than soon: not a length of time"),
        (("--keep-runs", "-1"), "keep-runs"),
    ],
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...], says: str, run: Inside) -> None:
    done = run("gc", *arguments)
    assert done.code == 64
    assert says in done.err


def test_a_protected_target_is_named(run: Inside, project: Path) -> None:
    text = "odfbuild: 1\nname: test\ntargets:\n  dev: {protect: true}\n"
    (project / "odfbuild.yaml").write_text(text)
    assert run("gc").code == 64
    assert run("gc", "--dry-run").code == 0
    assert run("gc", "--target", "dev").code == 0
