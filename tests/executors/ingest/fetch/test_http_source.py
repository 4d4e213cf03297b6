"""Datasets that are fetched over HTTP, from a real server on loopback, command after command."""

import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.events import AddData, SourceState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import derivative, root, url
from tests.support.servers.http import Page, Server, serving

FIRST, SECOND = b"k,v\na,1\nb,2\n", b"k,v\na,1\nb,2\nc,3\n"
NOON, LATER = Timestamp.parse("2030-05-01T12:00:00Z"), Timestamp.parse("2030-05-02T12:00:00Z")


@dataclass
class AskedEngine(FakeEngine):
    """Remembers what it is asked to do."""

    def prepare(
        self,
        planned_bytes: int | None = None,
        queries: Collection[str] = (),
        *,
        merges: bool = True,
    ) -> None:
        self.asked.append("prepare")

    def transform(self, work: TransformWork) -> Frame:
        self.asked.append("transform")
        return super().transform(work)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def engine() -> AskedEngine:
    return AskedEngine()


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Path:
    """Return a project of one fetched root, and a derivative of it."""
    columns = "k STRING NOT NULL, v BIGINT"
    source = root(fetch=url(f"{server.url}/data.csv"), columns=columns)
    return lay_out(
        tmp_path / "project",
        {"datasets/src.yaml": source, "datasets/out.yaml": derivative(query="select * from src")},
    )


@pytest.fixture
def run(
    project: Path,
    engine: AskedEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    return Inside(project, capsys, monkeypatch, engine)


def serve(server: Server, body: bytes, changed: Timestamp, *, etag: bool = True) -> None:
    server.put_file("/data.csv", body, changed=changed.nanos / 1e9, etag=etag)


def apply(run: Inside) -> None:
    done = run("apply", "--yes")
    assert done.code == 0, done.err


def rows(run: Inside, name: str) -> list[tuple[Any, ...]]:
    """Return event time, key and value of all rows."""
    found = json.loads(run("show", name, "-o", "json", "-n", "1000").out)
    return [(row["t"], row["k"], row["v"]) for row in found]


def added(project: Path) -> list[AddData]:
    dataset = Workspace(project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert dataset is not None
    return [block.event for _, block in dataset.blocks() if isinstance(block.event, AddData)]


def test_a_plan_asks_no_server(run: Inside, server: Server) -> None:
    serve(server, FIRST, NOON)
    done = run("plan")
    assert done.code == 0
    assert f"{server.url}/data.csv has to be checked" in done.out
    assert server.asked == []


def test_what_is_fetched_has_the_time_that_the_server_gives(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, FIRST, NOON)
    apply(run)
    at = "2030-05-01T12:00:00.000Z"
    assert rows(run, "src") == [(at, "a", 1), (at, "b", 2)]
    assert rows(run, "out") == rows(run, "src")
    assert [event.new_watermark for event in added(project)] == [NOON]


def test_the_state_is_the_etag_if_there_is_one(run: Inside, server: Server, project: Path) -> None:
    server.put("/data.csv", Page(body=FIRST, headers={"ETag": '"one"'}))
    apply(run)
    (event,) = added(project)
    assert event.new_source_state == SourceState("default", "odf/etag", '"one"')


def test_the_state_is_the_time_of_change_if_there_is_no_etag(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, FIRST, NOON, etag=False)
    apply(run)
    (event,) = added(project)
    assert event.new_source_state == SourceState("default", "odf/last-modified", str(NOON))


@pytest.mark.parametrize("etag", [True, False], ids=["etag", "last-modified"])
def test_what_is_unchanged_commits_nothing_and_starts_no_engine(
    run: Inside, server: Server, project: Path, engine: AskedEngine, *, etag: bool
) -> None:
    serve(server, FIRST, NOON, etag=etag)
    apply(run)
    assert engine.asked == ["prepare", "select * from src", "ingest", "transform"]
    before = heads(project)
    engine.asked.clear()
    plan = run("plan")
    assert "No changes. 2 datasets match the project. 2 steps only to check" in plan.out
    done = run("apply", "--yes")
    assert done.code == 0
    assert "0 blocks committed" in done.out
    assert engine.asked == []
    assert heads(project) == before
    condition = "if-none-match" if etag else "if-modified-since"
    assert condition in server.asked[-1].headers


def test_asking_for_news_needs_no_answer_from_the_user(run: Inside, server: Server) -> None:
    serve(server, FIRST, NOON)
    apply(run)
    done = run("apply")
    assert done.code == 0, done.err


def test_what_changed_is_one_block_and_one_step_downstream(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, FIRST, NOON)
    apply(run)
    serve(server, SECOND, LATER)
    apply(run)
    assert len(added(project)) == 2
    assert rows(run, "src")[2:] == [("2030-05-02T12:00:00.000Z", "c", 3)]
    assert rows(run, "out") == rows(run, "src")


def test_a_new_version_without_new_rows_moves_the_state_only(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, FIRST, NOON)
    apply(run)
    serve(server, FIRST[:4] + b"b,2\na,1\n", LATER)
    apply(run)
    first, second = added(project)
    assert second.new_data is None
    assert second.new_source_state != first.new_source_state


def test_without_versions_every_apply_reads_and_adds_nothing(
    run: Inside, server: Server, project: Path
) -> None:
    server.put("/data.csv", Page(body=FIRST))
    apply(run)
    before = heads(project)
    apply(run)
    assert heads(project) == before
    assert len(server.asked) == 2


def kept(project: Path) -> set[str]:
    """Return the names of the files that fetches left in the cache."""
    found = (project / ".odfbuild" / "cache" / "fetch").glob("*/*")
    return {each.name for each in found} - {"version.json"}


def test_a_download_that_cannot_be_read_is_kept_and_named_until_one_can(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, b"k,v\na,many\n", NOON)
    for _ in range(2):
        done = run("apply", "--yes")
        assert done.code in {1, 4}
        (path,) = (project / ".odfbuild" / "cache" / "fetch").glob("*/fetched-data.csv")
        assert f"stored for inspection: {path}" in " ".join(done.err.split())
        assert path.read_bytes() == b"k,v\na,many\n"
        assert kept(project) == {"fetched-data.csv"}
    serve(server, FIRST, LATER)
    apply(run)
    assert kept(project) == set()


def test_what_a_command_said_is_kept_with_the_download(
    run: Inside, server: Server, project: Path
) -> None:
    command = "{kind: Pipe, command: [sh, -c, 'echo no good >&2; exit 3']}"
    where = url(f"{server.url}/data.csv")
    columns = "k STRING, v BIGINT"
    lay_out(project, {"datasets/src.yaml": root(fetch=where, columns=columns, prepare=command)})
    serve(server, FIRST, NOON)
    assert run("plan").code == 0
    assert server.asked == []
    done = run("apply", "--yes")
    assert done.code == 4  # the definition was written
    assert "ended with exit code 3" in done.err
    assert "it printed: no good" in done.err
    assert kept(project) == {"fetched-data.csv", "stderr.txt"}
    command = "{kind: Pipe, command: [sed, 's/b/z/']}"
    lay_out(project, {"datasets/src.yaml": root(fetch=where, columns=columns, prepare=command)})
    apply(run)
    assert [key for _, key, _ in rows(run, "src")] == ["a", "z"]
    assert kept(project) == set()


def test_a_download_that_breaks_off_goes_on_in_the_next_run(
    run: Inside, server: Server, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda _: None)
    whole = Page(body=FIRST, headers={"ETag": '"1"'}, ranges=True)
    cut = replace(whole, cut=6)
    server.put("/data.csv", cut, *[Page(status=503)] * 4, whole)
    assert run("apply", "--yes").code == 4  # the definition was written
    assert kept(project) == {"fetched-data.csv.part", "fetched-data.csv.part.json"}
    apply(run)
    assert server.asked[-1].headers["range"] == "bytes=6-"
    assert [key for _, key, _ in rows(run, "src")] == ["a", "b"]
    assert kept(project) == set()


def test_a_source_that_is_cached_for_ever_is_asked_until_it_answered_once(
    run: Inside, server: Server, project: Path, engine: AskedEngine
) -> None:
    def declare(path: str) -> None:
        fetch = f"{{kind: Url, url: '{server.url}{path}', cache: {{kind: Forever}}}}"
        lay_out(project, {"datasets/src.yaml": root(fetch=fetch, columns="k STRING, v BIGINT")})

    declare("/data.csv")
    server.put("/data.csv", Page(status=404))
    assert run("apply", "--yes").code == 4  # the definition was written
    assert "has to be checked" in run("plan").out
    server.put("/data.csv", Page(body=FIRST), Page(body=SECOND))
    apply(run)
    asked = len(server.asked)
    assert "No changes. 2 datasets match the project." in run("plan").out
    assert "has to be checked" not in run("plan").out
    apply(run)
    assert len(server.asked) == asked
    declare("/other.csv")
    server.put("/other.csv", Page(status=404))
    assert run("apply", "--yes").code == 4
    server.put("/other.csv", Page(body=SECOND))
    apply(run)
    assert [key for _, key, _ in rows(run, "src")] == ["a", "b", "c"]
    assert "has to be checked" not in run("plan").out


def test_a_file_that_is_cached_for_ever_is_read_once(run: Inside, project: Path) -> None:
    fetch = "{kind: Url, url: 'file:one.csv', cache: {kind: Forever}}"
    source = root(fetch=fetch, columns="k STRING, v BIGINT")
    lay_out(project, {"datasets/src.yaml": source, "one.csv": FIRST})
    apply(run)
    before = heads(project)
    lay_out(project, {"one.csv": SECOND})
    assert "No changes. 2 datasets match the project." in run("plan").out
    apply(run)
    assert heads(project) == before


def test_both_versions_of_a_source_are_sent_while_the_cache_knows_them(
    run: Inside, server: Server, project: Path
) -> None:
    serve(server, FIRST, NOON)
    apply(run)
    before = heads(project)
    apply(run)
    sent = server.asked[-1].headers
    assert sent["if-none-match"].startswith('"')
    assert sent["if-modified-since"] == "Wed, 01 May 2030 12:00:00 GMT"
    serve(server, FIRST, NOON, etag=False)  # a server that gives up its ETags
    apply(run)
    assert heads(project) == before
    shutil.rmtree(project / ".odfbuild" / "cache")
    apply(run)
    assert "if-none-match" in server.asked[-1].headers
    assert "if-modified-since" not in server.asked[-1].headers


def test_a_secret_is_sent_and_never_shown(
    run: Inside, server: Server, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    where = f"{server.url}/data.csv?key=${{{{ env.API_KEY }}}}"
    lay_out(project, {"datasets/src.yaml": root(fetch=url(where), columns="k STRING, v BIGINT")})
    echoed = {"ETag": '"hunter2hunter2"'}
    refused = Page(status=403, body=b"bad key hunter2hunter2")
    server.put("/data.csv", Page(body=FIRST, headers=echoed), refused)
    said = [run("plan"), run("apply", "--yes"), run("apply", "--yes"), run("log", "src")]
    assert [done.code for done in said] == [0, 0, 1, 0]
    assert server.asked[0].path == "/data.csv?key=hunter2hunter2"
    assert "hunter2" not in "".join(done.out + done.err for done in said)
    stored = [path for path in project.rglob("*") if path.is_file()]
    assert not [path for path in stored if b"hunter2" in path.read_bytes()]


def test_a_time_of_change_in_another_form_is_understood(
    run: Inside, server: Server, project: Path
) -> None:
    changed = formatdate(NOON.nanos / 1e9, localtime=False)  # ends in -0000, not GMT
    server.put("/data.csv", Page(body=FIRST, headers={"Last-Modified": changed}))
    apply(run)
    assert [event.new_watermark for event in added(project)] == [NOON]
