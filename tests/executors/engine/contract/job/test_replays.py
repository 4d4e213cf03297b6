"""Replays and rebuilds whose steps go as jobs: what they find, and what is left if one fails."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.odf.events import ExecuteTransform
from tests.executors.engine.contract.job.test_projects import (
    RUN,
    scripted,
    sleeping,
)
from tests.executors.engine.contract.job.test_steps import (
    ELSEWHERE,
    LYING,
    PLACES,
    QUERIES,
    TAGS,
    Sales,
)
from tests.support.projects import Done, environment
from tests.support.servers.object_store import ObjectServer

VERIFY = ("verify", "--replay", "--recompute", "--placed")
FULL = "sys.exit('the cluster is full')"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
ALTERED = "import pyarrow.compute as pc\nrows = put('v', pc.add(rows['v'], 1000))"
FULL_AT_FIRST = f"""
begun = pathlib.Path(__file__).with_name('begun')
if not begun.exists():
    begun.touch()
    {FULL}
subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])
"""
OTHER_VERSION = """
there = "import odfbuild.executors.engine.protocol as p; p._installed = lambda _: '1.2.3'; "
there += "from odfbuild.cli.main import main; main()"
subprocess.run([sys.executable, "-c", there, "step", "run", sys.argv[1]])
"""


def built(
    folder: Path, steps: str, *more: str, objects: str = "", engine: str = "datafusion"
) -> Sales:
    """Return a project that grew twice, its steps carried out as they should be."""
    project = Sales(folder / "project", steps, more=objects, engine=engine)
    for _ in range(2):
        project.apply(*more)
    return project


def carried_out_by(project: Sales, command: list[str]) -> None:
    """Have jobs carried out by another command."""
    settings = project.folder / "odfbuild.yaml"
    settings.write_text(settings.read_text().replace(json.dumps(RUN), json.dumps(command)))


def heads(project: Sales) -> Mapping[str, object]:
    return {name: project.opened(name).head() for name in ("sales", *QUERIES)}


def nothing_left(project: Sales) -> bool:
    return list((project.folder / ".odfbuild" / "staging").iterdir()) == []


def places(done: Done) -> Mapping[str, set[str | None]]:
    """Return who ran the steps of each derivative, and its query in full."""
    found = {}
    for each in json.loads(done.out)["datasets"]:
        runs = [*each["steps"], *([each["recomputed"]] if each["recomputed"] else [])]
        if runs:
            found[each["name"]] = {one.get("place") for one in runs}
    return found


def given(project: Sales) -> Iterator[tuple[str, int]]:
    """Yield key and value of all rows of the files, as Python reads them."""
    for path in sorted((project.folder / "data").glob("*.csv")):
        with path.open() as file:
            yield from ((each["k"], int(each["v"])) for each in csv.DictReader(file))


def shown(project: Sales, name: str) -> Counter[tuple[Any, ...]]:
    """Return the current rows of a dataset without their times."""
    done = project("sql", f"select * from {name}", "-o", "ndjson", "--engine", "datafusion")
    assert done.code == 0, done.err
    rows = (json.loads(line) for line in done.out.splitlines())
    return Counter(tuple(row[n] for n in ("k", "v", "n") if n in row) for row in rows)


def expected(project: Sales) -> Mapping[str, Counter[tuple[Any, ...]]]:
    """Return the rows that the queries have, computed in Python."""
    rows = list(given(project))
    sums, counts = Counter[str](), Counter(key for key, _ in rows)
    for key, value in rows:
        sums[key] += value
    return {
        "large": Counter((key, 2 * value) for key, value in rows if value > 1),
        "totals": Counter((key, sums[key], counts[key]) for key in sums),
        "again": Counter((key, sums[key]) for key in sums if counts[key] > 1),
    }


def test_a_verification_is_done_here_unless_it_is_asked_for_elsewhere(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big], from: 1B}")
    carried_out_by(project, scripted(tmp_path, FULL))
    done = project("verify", "--replay", "--recompute", "-o", "json")
    assert done.code == 0, done.out
    assert places(done) == {name: {None} for name in QUERIES}


@pytest.mark.parametrize(("steps", "target", "where"), PLACES)
def test_steps_are_run_again_where_apply_runs_them(
    tmp_path: Path, steps: str, target: str, where: Mapping[str, str | None]
) -> None:
    project = built(tmp_path, steps, "--target", target)
    before = heads(project)
    done = project(*VERIFY, "-o", "json", "--target", target)
    assert done.code == 0, done.out
    assert places(done) == {name: {place} for name, place in where.items()}
    assert heads(project) == before
    assert nothing_left(project)


def test_a_verification_says_what_was_run_elsewhere(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [other]}")
    done = project(*VERIFY)
    assert done.code == 0, done.out
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert lines["totals"].endswith("2 steps run again, by batch, computed in full, by batch")
    assert lines["large"].endswith("2 steps run again, computed in full")


@pytest.mark.holds("engine-jobs")
def test_a_replay_finds_rows_that_a_job_alters(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big]}")
    carried_out_by(project, scripted(tmp_path, ELSEWHERE + LYING % ALTERED))
    before = heads(project)
    done = project("verify", "--replay", "--placed", "large", "-o", "json")
    assert done.code == 7
    (found,) = json.loads(done.out)["datasets"]
    first = found["steps"][0]
    assert "have the logical hash" in first["findings"][0]
    differing = first["first_difference"]
    assert differing["columns"] == ["v"]
    values = {2 * value for _, value in given(project) if value > 1}
    assert differing["recorded"]["v"] in values
    assert differing["computed"]["v"] == differing["recorded"]["v"] + 1000
    assert project("verify", "--replay", "--recompute").code == 0
    assert heads(project) == before
    assert nothing_left(project)


ASKED = "(pathlib.Path(__file__).parent / 'asked').write_bytes((job / 'request.json').read_bytes())"


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize(
    ("lie", "surplus", "missing"),
    [
        (ALTERED, 4, 4),
        ("rows = rows.slice(0, 0)", 4, 0),
        ("rows = pa.concat_tables([rows, rows.slice(2, 1)])", 0, 1),
        ("rows = pa.concat_tables([rows.slice(1), rows.slice(1, 1)])", 1, 1),
    ],
    ids=["other values", "no rows", "one twice", "one twice for another"],
)
def test_rows_of_the_query_in_full_are_compared_here(
    tmp_path: Path, lie: str, surplus: int, missing: int
) -> None:
    """A job is given no row of the dataset: it cannot say that nothing differs."""
    project = built(tmp_path, "{tags: [big]}")
    assert sum(expected(project)["large"].values()) == 4
    carried_out_by(project, scripted(tmp_path, f"{ELSEWHERE}{ASKED}\n{LYING % lie}"))
    done = project("verify", "--recompute", "--placed", "large", "-o", "json")
    assert done.code == 7
    (found,) = json.loads(done.out)["datasets"]
    full = found["recomputed"]
    assert full["findings"] == [
        f"of the current rows, {surplus} are not in the result of the query over all inputs, "
        f"and {missing} of its rows are missing"
    ]
    assert (full["first_surplus"] is None) == (surplus == 0)
    assert (full["first_missing"] is None) == (missing == 0)
    for row in (full["first_surplus"], full["first_missing"]):
        assert row is None or {*row} == {"t", "k", "v"}
    given_to_job = {each["path"] for each in json.loads((tmp_path / "asked").read_text())["files"]}
    assert given_to_job.isdisjoint(path.name for path in slices(project, "large"))


@pytest.mark.holds("engine-jobs")
def test_a_replay_here_finds_rows_that_a_job_altered_when_they_were_made(tmp_path: Path) -> None:
    """The same job gives the same rows again, so only another machine finds them."""
    project = Sales(tmp_path / "project", "{tags: [large]}")
    settings = project.folder / "odfbuild.yaml"
    tags = "defaults: {large: {tags: [large]}}"
    text = settings.read_text()
    settings.write_text(text.replace(TAGS, tags))
    carried_out_by(project, scripted(tmp_path, ELSEWHERE + LYING % ALTERED))
    project.grow()
    project.grow()
    assert project("apply", "--yes").code == 0
    assert shown(project, "large") != expected(project)["large"]
    assert project("verify", "--replay", "--placed").code == 0
    found = project("verify", "--replay", "large")
    assert found.code == 7
    assert "the first row that differs" in found.out
    assert project("verify", "--recompute", "large").code == 7


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (FULL, "ended with 1: the cluster is full"),
        (KILLED, "ended with -9"),
        (OTHER_VERSION, "answered with 1.2.3+odfbuild.5 of the engine, and the step is for"),
        (ELSEWHERE + LYING % "answer['engine'] = '0.1'", "answered with 0.1 of the engine"),
        (ELSEWHERE + LYING % "rows = rows.drop_columns(['t'])", "rows without the column 't'"),
    ],
    ids=["it fails", "it is killed", "an older engine", "another version", "other columns"],
)
def test_a_job_that_fails_is_a_finding_and_leaves_nothing(
    tmp_path: Path, script: str, said: str
) -> None:
    project = built(tmp_path, "{tags: [big]}")
    carried_out_by(project, scripted(tmp_path, script))
    before = heads(project)
    done = project(*VERIFY, "large")
    assert done.code == 7
    assert "Traceback" not in done.err
    lines = [line for line in done.out.splitlines() if said in line]
    assert len(lines) == 3, done.out
    assert "it cannot be rerun" in lines[0]
    assert "its query cannot be computed in full" in lines[-1]
    rebuilt = project("rebuild", "large", "--yes")
    assert rebuilt.code in (1, 4), rebuilt.out
    assert said in " ".join(rebuilt.err.split())
    assert heads(project) == before
    assert nothing_left(project)
    assert project("verify", "--replay", "--recompute").code == 0


@pytest.mark.holds("engine-commands")
@pytest.mark.parametrize(
    "command",
    [
        VERIFY,
        ("rebuild", "large", "--yes"),
        ("rebuild", "large", "totals", "--yes"),
        ("rebuild", "large", "--restore"),
    ],
)
def test_a_command_that_the_policy_refuses_is_not_run(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    project = built(tmp_path, "{tags: [big]}")
    project.policy.write_text("odfbuild_policy: 1\n")
    lose_slices(project, "large")
    before = heads(project)
    done = project(*command)
    assert done.code == 1
    assert "error[engine-not-permitted]" in done.err
    assert heads(project) == before
    assert not any(path.exists() for path in slices(project, "large"))


def slices(project: Sales, name: str) -> list[Path]:
    dataset = project.opened(name)
    events = (block.event for _, block in dataset.blocks())
    pieces = (each.new_data for each in events if isinstance(each, ExecuteTransform))
    return [dataset.data_path(each.physical_hash) for each in pieces if each is not None]


def lose_slices(project: Sales, name: str) -> None:
    for path in slices(project, name):
        path.unlink()


@pytest.mark.parametrize("names", [("large",), tuple(QUERIES)], ids=["one", "several"])
@pytest.mark.parametrize("full", [(), ("--full",)], ids=["its query", "its definition"])
def test_rebuilds_run_where_apply_runs_steps(
    tmp_path: Path, names: tuple[str, ...], full: tuple[str, ...]
) -> None:
    project = built(tmp_path, "{tags: [big]}")
    before = heads(project)
    done = project("rebuild", *names, "--yes", *full)
    assert done.code == 0, done.err
    ends = [line for line in done.out.splitlines() if "(was " in line]
    assert [line.split()[0] for line in ends] == [*names]
    assert all(line.endswith(", by batch") for line in ends)
    after = heads(project)
    assert {name for name in after if after[name] != before[name]} == {*names}
    wanted = expected(project)
    assert {name: shown(project, name) for name in names} == {n: wanted[n] for n in names}
    assert nothing_left(project)


def test_a_rebuild_that_fails_leaves_those_after_it_to_be_done(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big]}")
    before = heads(project)
    carried_out_by(project, scripted(tmp_path, FULL_AT_FIRST))
    done = project("rebuild", "large", "totals", "--yes")
    assert done.code == 4, done.err
    assert "the cluster is full" in done.out + done.err
    assert "interrupted" not in done.out + done.err
    after = heads(project)
    assert [name for name in after if after[name] != before[name]] == ["totals"]
    assert shown(project, "totals") == expected(project)["totals"]
    assert nothing_left(project)


def test_a_saved_rebuild_runs_where_apply_runs_steps(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big]}")
    assert project("rebuild", "large", "--out", "plan.json").code == 0
    done = project("apply", "plan.json", "--yes")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith(", by batch")
    assert shown(project, "large") == expected(project)["large"]


def test_lost_slices_are_restored_where_apply_runs_steps(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big]}")
    before, kept = heads(project), project.slices()
    for name in QUERIES:
        lose_slices(project, name)
    done = project("rebuild", "--restore")
    assert done.code == 0, done.out
    restored = [line for line in done.out.splitlines() if "missing" in line]
    assert len(restored) == sum(len(kept[name]) for name in QUERIES)
    assert all(line.endswith(", restored, by batch") for line in restored)
    assert project.slices() == kept
    assert heads(project) == before


@pytest.mark.holds("engine-jobs")
def test_rows_that_a_job_alters_are_not_put_in_place_of_lost_ones(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [big]}")
    carried_out_by(project, scripted(tmp_path, ELSEWHERE + LYING % ALTERED))
    lose_slices(project, "large")
    for more in ((), ("--reencode",)):
        done = project("rebuild", "large", "--restore", "-o", "json", *more)
        assert done.code == 1
        files = json.loads(done.out)["files"]
        assert len(files) == 2
        assert {each["place"] for each in files} == {"batch"}
        assert all("gives other rows now" in each["why"] for each in files)
        assert not any(path.exists() for path in slices(project, "large"))
    assert nothing_left(project)


def test_replays_and_rebuilds_use_the_files_in_a_store(
    tmp_path: Path, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    prefix = f"jobs/{request.node.name}"
    objects = f", objects: '{store.url(prefix)}'"
    project = built(tmp_path, "{tags: [big]}", objects=objects)
    done = project(*VERIFY, "-o", "json")
    assert done.code == 0, done.out
    assert places(done) == {name: {"batch"} for name in QUERIES}
    lose_slices(project, "totals")
    assert project("rebuild", "totals", "--restore").code == 0
    assert project("rebuild", "totals", "--yes").out.rstrip().endswith(", by batch")
    assert shown(project, "totals") == expected(project)["totals"]
    left = [each["path"] for page in store.store(prefix).list() for each in page]
    assert left
    assert all(path.startswith("files/f1620") for path in left)


def test_a_workspace_in_a_store_is_replayed_and_rebuilt_by_jobs(
    tmp_path: Path, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    objects = f", objects: '{store.url(name)}'"
    project = Sales(tmp_path / "project", "{tags: [big]}", more=objects)
    settings = project.folder / "odfbuild.yaml"
    workspace = f"dev: {{workspace: '{store.url(f'{name}-workspace')}'}}"
    settings.write_text(settings.read_text().replace("dev: {}", workspace))
    for _ in range(2):
        project.apply()
    other = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = project(*VERIFY, "-o", "json", **other)
    assert done.code == 0, done.out
    assert places(done) == {name: {"batch"} for name in QUERIES}
    rebuilt = project("rebuild", *QUERIES, "--yes", **other)
    assert rebuilt.code == 0, rebuilt.err
    assert rebuilt.out.count(", by batch (command:") == len(QUERIES)
    assert rebuilt.out.count("), by batch\n") == len(QUERIES)
    wanted = expected(project)
    assert {each: shown(project, each) for each in QUERIES} == dict(wanted)


def test_an_interrupted_replay_ends_the_commands_of_its_steps(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    project = built(tmp_path, "{tags: [big]}")
    carried_out_by(project, scripted(tmp_path, sleeping(mark)))
    command = [sys.executable, "-m", "odfbuild", *VERIFY, "large", "-j", "1"]
    env = environment(ODFBUILD_POLICY=str(project.policy), CI="")
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=project.folder, env=env, stdout=nothing, stderr=nothing
    ) as process:
        end = time.monotonic() + 120
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) not in (0, 7)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    assert nothing_left(project)


def test_only_steps_that_are_run_can_be_placed(tmp_path: Path) -> None:
    project = Sales(tmp_path / "project", "{tags: [big]}")
    done = project("verify", "--placed")
    assert done.code == 64
    assert "--placed needs --replay or --recompute" in " ".join(done.err.split())


@pytest.mark.parametrize(
    "command", [VERIFY, ("rebuild", "large", "--yes"), ("rebuild", "large", "--restore")]
)
def test_steps_are_not_run_here_because_tags_cannot_be_read(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    project = built(tmp_path, "{tags: [big]}")
    (project.folder / "datasets" / "again.yaml").unlink()  # odfbuild.yaml still has defaults of it
    lose_slices(project, "large")
    before = heads(project)
    done = project(*command)
    assert done.code not in (0, 7)
    assert "again" in done.err
    assert heads(project) == before
    assert not any(path.exists() for path in slices(project, "large"))


@pytest.mark.spark
def test_checkpoints_are_read_and_restored_by_jobs(tmp_path: Path) -> None:
    project = built(tmp_path, "{tags: [other]}", "sales", "totals", engine="spark")
    done = project(*VERIFY, "totals", "-o", "json")
    assert done.code == 0, done.out
    assert places(done) == {"totals": {"batch"}}
    dataset = project.opened("totals")
    events = [block.event for _, block in dataset.blocks()]
    left = [e.new_checkpoint for e in events if isinstance(e, ExecuteTransform)]
    paths = [dataset.checkpoint_path(each.physical_hash) for each in left if each is not None]
    assert len(paths) == 2
    kept = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    restored = project("rebuild", "totals", "--restore")
    assert restored.code == 0, restored.out
    assert restored.out.count("restored, by batch") == 2
    assert [path.read_bytes() for path in paths] == kept


@pytest.mark.parametrize("shared", [False, True], ids=["folder", "store"])
def test_a_slice_that_was_restored_with_other_bytes_is_read_by_jobs(
    tmp_path: Path, store: ObjectServer, request: pytest.FixtureRequest, *, shared: bool
) -> None:
    objects = f", objects: '{store.url(f'jobs/{request.node.name}')}'" if shared else ""
    project = built(tmp_path, "{tags: [big]}", objects=objects)
    for path in slices(project, "totals"):
        before = path.read_bytes()
        pq.write_table(pq.read_table(path), path, compression="zstd", row_group_size=3)
        assert path.read_bytes() != before
    done = project("verify", "again", "--replay", "--placed", "-o", "json")
    assert done.code == 0, done.out
    assert places(done) == {"again": {"batch"}}
    project.apply()
    assert shown(project, "again") == expected(project)["again"]
