"""odfbuild doctor: what is well is said to be, and what is not has a way out."""

import grp
import json
import os
import pwd
import shutil
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.odf.events import SetInfo, SqlQueryStep, TransformSql
from odfbuild.planner.diff.query_change import upgraded
from odfbuild.state.chain.commit_request import CommitRequest
from tests.support.process.inside import Inside, lay_out
from tests.support.process.within import Within
from tests.support.projects import odfbuild, probe
from tests.support.projects.market import LATER, append, dataset, workspace
from tests.support.projects.texts import derivative, root

NAMES = {
    *("java", "engine", "archive", "programs", "temporary", "project", "workspace", "cache"),
    *("datasets", "clock", "locks", "leftovers", "keys"),
}


@pytest.fixture(autouse=True)
def _own_classes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no test see the class archive of the run, which fails where the machine is too slow."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


def told(ask: Inside, *, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Return the checks by name."""
    done = ask("doctor", "-o", "json")
    assert (done.code, done.err) == (code, "")
    found = json.loads(done.out)
    assert found["healthy"] == (code == 0)
    by_name: dict[str, list[dict[str, Any]]] = {}
    for each in found["checks"]:
        assert set(each) == {"name", "health", "what", "fix"}
        assert bool(each["fix"]) == (each["health"] != "ok")
        by_name.setdefault(each["name"], []).append(each)
    return by_name


def only(found: dict[str, list[dict[str, Any]]], name: str, health: str) -> dict[str, Any]:
    (each,) = (each for each in found[name] if each["health"] == health)
    assert {every["health"] for key, all in found.items() if key != name for every in all} == {"ok"}
    return each


def test_a_project_that_is_well_is_said_to_be(ask: Inside) -> None:
    found = told(ask)
    assert set(found) == NAMES
    assert {each["health"] for all in found.values() for each in all} == {"ok"}
    assert found["java"][0]["what"].startswith(find_java().version)
    assert found["datasets"][0]["what"] == "4, each with a name and a head"
    assert found["keys"][0]["what"] == "4, which only you can read"
    lines = ask("doctor").out.splitlines()
    assert {line.split()[1] for line in lines[:-1]} == NAMES
    assert lines[-1] == f"{len(NAMES)} checks, 0 bad, 0 warnings."


def test_nothing_in_the_workspace_changes(ask: Inside, market: Path) -> None:
    ask("plan")
    before = {
        each: each.stat().st_mtime_ns for each in market.rglob("*") if "index" not in str(each)
    }
    ask("doctor")
    after = {
        each: each.stat().st_mtime_ns for each in market.rglob("*") if "index" not in str(each)
    }
    changed = {each for each in before if before[each] != after.get(each)}
    assert before.keys() == after.keys()
    assert changed <= {market / ".odfbuild"}  # where the journal of the index comes and goes


def test_without_a_project_the_machine_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Within(tmp_path, capsys, monkeypatch)("doctor")
    assert done.code == 0
    assert f"warn  project     there is none in {tmp_path}\n" in done.out
    assert "fix: change to the folder of a project" in done.out
    assert "ok    clock " in done.out


def test_settings_that_cannot_be_read_are_bad(ask: Inside, market: Path) -> None:
    (market / "odfbuild.yaml").write_text("odfbuild: 1\nnmae: x\n")
    each = only(told(ask, code=1), "project", "bad")
    assert "nmae" in each["what"]
    assert "odfbuild check" in each["fix"]


@pytest.mark.parametrize(
    ("engine", "files", "is_needed"),
    [
        ("{ingest: arrow}", {"a": root(), "b": derivative("b", engine="datafusion")}, False),
        ("{ingest: arrow}", {"a": root(query="select * from input")}, True),
        ("{ingest: arrow}", {"a": root(), "b": derivative("b")}, True),
        ("{ingest: spark}", {"a": root()}, True),
        ("{ingest: spark}", {"a": "kind: ["}, True),
        ("{spark: {master: 'sc://127.0.0.1:9'}}", {"a": root(), "b": derivative("b")}, False),
    ],
)
def test_java_is_missed_only_where_a_step_needs_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    files: dict[str, str],
    is_needed: bool,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    texts = {f"datasets/{name}.yaml": text for name, text in files.items()}
    settings = f"odfbuild: 1\nengine: {engine}\n"
    folder = lay_out(tmp_path / "project", {"odfbuild.yaml": settings, **texts})
    found = json.loads(odfbuild("doctor", "-o", "json", cwd=folder).out)["checks"]
    (java,) = (each for each in found if each["name"] == "java")
    assert (java["health"] == "bad") == is_needed
    assert ("no step of this project needs it" in java["what"]) != is_needed


def test_a_java_that_is_of_no_use_is_bad(
    ask: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    each = only(told(ask, code=1), "java", "bad")
    assert "holds no working Java" in each["what"]
    assert "JAVA_HOME" in each["fix"]


def test_an_engine_that_is_missing_is_bad(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("odfbuild.app.inspection.doctor.engine_version", missing)
    assert "pyspark is not installed" in only(told(ask, code=1), "engine", "bad")["what"]


_IMAGE = f"ghcr.io/acme/engine@sha256:{'0c1f5b3a' * 8}"
_EXTRAS = {
    "address": ('engines: {there: {address: "127.0.0.1:2884", engine: flink}}', {"engine"}),
    "image": (f'engines: {{there: {{image: "{_IMAGE}", engine: flink}}}}', {"engine"}),
    "command": ('engines: {there: {command: [run, "{request}"], engine: spark}}', set()),
    "objects": (
        'engines: {there: {command: [run, "{request}"], engine: spark, objects: "s3://acme/p"}}',
        {"s3"},
    ),
    "Spark": ('engine: {spark: {master: "spark://h:7077", objects: "s3://acme/p"}}', {"s3"}),
}


@pytest.mark.parametrize(("settings", "extras"), _EXTRAS.values(), ids=list(_EXTRAS))
def test_an_engine_whose_packages_are_missing_is_bad(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    extras: set[str],
) -> None:
    files = {"odfbuild.yaml": f"odfbuild: 1\n{settings}\n", "datasets/src.yaml": root()}
    ask = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch)
    said = {}
    for missing in (False, True):
        for name in ("grpc", "obstore") if missing else ():
            monkeypatch.setitem(sys.modules, name, None)
        checks = json.loads(ask("doctor", "-o", "json").out)["checks"]
        said[missing] = [each for each in checks if each["name"] == "engines"]
    assert {each["health"] for each in said[False]} == ({"ok"} if extras else set())
    assert {each["health"] for each in said[True]} == ({"bad"} if extras else set())
    assert {each["fix"] for each in said[True]} == {
        f"pip install 'odfbuild[{each}]'" for each in extras
    }
    where = "engine spark: " if "master" in settings else "engine there: "
    assert all(each["what"].startswith(where) for each in said[True])


def test_a_query_without_a_version_is_of_its_engine(ask: Inside, market: Path) -> None:
    out = dataset(market, "out")
    state = out.state()
    assert state is not None and state.transform is not None
    query = state.transform.transform
    assert isinstance(query, TransformSql)
    other = replace(state.transform, transform=replace(query, engine="other", version=None))
    out.commit(CommitRequest((other,), LATER), on=state)
    (each,) = (each for each in told(ask, code=1)["engine"] if each["health"] == "warn")
    assert each["what"] == "made by other: out"


def test_what_another_engine_made_is_told(ask: Inside, market: Path) -> None:
    out = dataset(market, "out")
    state = out.state()
    assert state is not None
    other = upgraded(state, "4.0.0+odfbuild.1")
    assert other is not None
    out.commit(CommitRequest((other,), LATER), on=state)
    ahead = told(ask, code=1)
    (each,) = (each for each in ahead["engine"] if each["health"] == "warn")
    assert each["what"] == "made by spark 4.0.0+odfbuild.1: out"
    assert "odfbuild engine upgrade" in each["fix"]


def test_what_an_earlier_version_may_have_spoilt_is_told(ask: Inside, market: Path) -> None:
    out = dataset(market, "out")
    state = out.state()
    assert state is not None and state.transform is not None
    alias = state.transform.inputs[0].alias
    query = f"select k, count(*) as c from (select * except (k), 1 as k from `{alias}`) group by k"
    sql = TransformSql(
        engine="spark", version="4.3.0+odfbuild.1", queries=(SqlQueryStep(query=query),)
    )
    out.commit(CommitRequest((replace(state.transform, transform=sql),), LATER), on=state)
    (each,) = told(ask, code=1)["rows"]  # the clock is behind that block
    assert each["health"] == "warn"
    assert each["what"] == (
        "may be wrong, as an earlier version confused columns of its query: out"
    )
    assert "odfbuild rebuild NAME" in each["fix"]


def test_a_clock_that_is_behind_is_bad(ask: Inside, market: Path) -> None:
    append(market, "src", SetInfo(description="written in 2040"), at=LATER)
    each = only(told(ask, code=1), "clock", "bad")
    assert "the newest block is of 2040-01-01T00:00:00Z" in each["what"]


def test_a_clock_of_long_ago_is_bad(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.app.inspection.doctor.time_ns", lambda: 10**9)
    each = only(told(ask, code=1), "clock", "bad")
    assert "1970-01-01T00:00:01Z" in each["what"]


@pytest.mark.parametrize(("free", "health", "code"), [(1 << 30, "warn", 0), (1 << 20, "bad", 1)])
def test_a_disk_that_is_nearly_full_is_told(
    free: int, health: str, code: int, ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr("odfbuild.app.inspection.doctor.shutil.disk_usage", lambda _: usage)
    found = told(ask, code=code)
    assert {name for name, all in found.items() if all[0]["health"] == health} == {
        *("temporary", "workspace", "cache"),
    }
    assert "odfbuild gc" in found["workspace"][0]["fix"]


def test_a_workspace_that_cannot_be_written_is_bad(
    ask: Inside, market: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.access

    def access(path: Path, mode: int) -> bool:
        return Path(path) != market / ".odfbuild" and real(path, mode)

    monkeypatch.setattr("odfbuild.app.inspection.doctor.os.access", access)
    each = only(told(ask, code=1), "workspace", "bad")
    assert each["what"] == f"{market / '.odfbuild'} cannot be written to"


def test_a_workspace_that_is_a_file_is_bad(ask: Inside, market: Path) -> None:
    (market / ".odfbuild").rename(market / "aside")
    (market / ".odfbuild").write_text("a file")
    each = told(ask, code=1)["workspace"][0]
    assert each["what"] == f"{market / '.odfbuild'} is a file, but must be a folder"


def test_a_workspace_that_is_not_there_yet_is_well(ask: Inside, market: Path) -> None:
    shutil.rmtree(market / ".odfbuild")
    found = told(ask)
    assert found["workspace"][0]["what"].endswith("not there yet")
    assert found["keys"][0]["what"] == "none here"
    assert not (market / ".odfbuild" / "datasets").exists()


def test_datasets_without_a_head_or_a_name_are_told(ask: Inside, market: Path) -> None:
    found = workspace(market)
    lost = found.root / "datasets" / dataset(market, "src").id.multibase / "refs" / "head"
    nameless = dataset(market, "report").id
    lost.unlink()
    (found.root / "names" / "report").unlink()
    checks = told(ask, code=1)["datasets"]
    assert [(each["health"], each["what"]) for each in checks] == [
        ("bad", "without a head: src"),
        ("warn", f"with a head but no name: {nameless}"),
    ]


def test_a_damaged_name_is_bad(ask: Inside, market: Path) -> None:
    (market / ".odfbuild" / "names" / "src").write_text("nonsense")
    assert "is damaged" in told(ask, code=1)["datasets"][0]["what"]


def test_who_holds_a_lock_is_told(ask: Inside, market: Path) -> None:
    with dataset(market, "src").stores.heads.lock():
        held = told(ask)["locks"][0]["what"]
    assert held.startswith(f"held: src by process {os.getpid()} on ")
    assert told(ask)["locks"][0]["what"] == "none is held"


def test_a_note_of_a_lock_that_is_free_is_no_lock(ask: Inside, market: Path) -> None:
    note = f".odfbuild/cache/locks/{dataset(market, 'src').id.multibase}"
    lay_out(market, {note: '{"pid": 1, "host": "h", "since": "s"}'})
    assert told(ask)["locks"][0]["what"] == "none is held"


def test_leftovers_are_told(ask: Inside, market: Path) -> None:
    lay_out(market, {".odfbuild/staging/aa/slice": "x" * 3_000_000})
    each = only(told(ask), "leftovers", "warn")
    assert each["what"] == "1 of interrupted work, 3.0 MB"
    assert each["fix"] == "odfbuild gc deletes them"


def test_keys_that_others_can_read_are_bad(ask: Inside, market: Path) -> None:
    key = next((market / ".odfbuild" / "keys").iterdir())
    key.chmod(0o644)
    each = only(told(ask, code=1), "keys", "bad")
    assert str(key) in each["what"]
    key.chmod(0o600)
    key.parent.chmod(0o755)
    assert only(told(ask), "keys", "warn")["fix"] == f"chmod 700 {key.parent}"


@pytest.mark.holds("local-workspace")
@pytest.mark.parametrize(
    ("mode", "health"), [(0o700, None), (0o705, "warn"), (0o701, "warn"), (0o702, "bad")]
)
def test_a_workspace_that_is_open_to_others_is_told(
    mode: int, health: str | None, ask: Inside, market: Path
) -> None:
    root = market / ".odfbuild"
    root.chmod(mode)
    found = told(ask, code=int(health == "bad"))
    if health is None:
        assert {each["health"] for all in found.values() for each in all} == {"ok"}
        return
    each = only(found, "workspace", health)
    assert f"others can {'write to' if health == 'bad' else 'read'} {root}" in each["what"]
    assert each["fix"].startswith(f"chmod 700 {root}")
    assert root.stat().st_mode & 0o777 == mode


@pytest.mark.holds("local-workspace")
@pytest.mark.parametrize(("members", "healths"), [([], ["ok"]), (["eve"], ["ok", "bad"])])
def test_a_group_counts_as_others_unless_its_owner_is_alone_in_it(
    members: list[str], healths: list[str], ask: Inside, market: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    name = pwd.getpwuid(os.getuid()).pw_name
    group = grp.struct_group((name, "x", os.getgid(), members))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    (market / ".odfbuild").chmod(0o770)
    found = told(ask, code=len(healths) - 1)
    assert [each["health"] for each in found["workspace"]] == healths


def test_no_engine_is_started_or_loaded(market: Path) -> None:
    modules, started = probe("doctor", cwd=market)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"java"}  # asked for its version, where it has no release file


@pytest.mark.spark
def test_the_engine_is_tried_when_asked(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Within(market, capsys, monkeypatch)("doctor", "--engine")
    assert done.code == 0, done.out
    assert "ok    started     the engine answered a query with 1 row in " in done.out
