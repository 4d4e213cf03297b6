"""Events of an apply: in a file, at a server, complete, without secrets, and never in the way."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odfbuild import app
from odfbuild.executors.ingest.fetch.secrets import secrets_of
from odfbuild.executors.runs.lineage import lineage_of
from odfbuild.executors.runs.openlineage.listener import openlineage_events
from odfbuild.executors.runs.openlineage.model import EventType, Job, Moment, Run, run_event
from odfbuild.executors.runs.openlineage.subjects import source_of
from odfbuild.executors.runs.report import Interrupted
from odfbuild.executors.runs.scheduler import Unwatched
from odfbuild.odf.events import (
    EnvVar,
    ExecuteTransform,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MqttTopicSubscription,
    RequestHeader,
)
from odfbuild.odf.timestamp import Timestamp
from tests.support.engines import FakeEngine
from tests.support.openlineage import check_event
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.projects.market import FILES, dataset, workspace
from tests.support.projects.texts import GOOD, derivative, root, url
from tests.support.servers.http import Page, serving
from tests.support.servers.receiver import taking

Event = dict[str, Any]
SPACE = "odf://market/dev"
STEPS = [
    *(f"append:{name}" for name in ("acme/side", "out", "report", "src")),
    *("ingest:acme/side", "ingest:src", "transform:out", "transform:report"),
]
RUNS = ["ingest:src", "transform:out", "transform:report"]
NEWS = {"data/2.csv": "t,k,v\n2024-01-03,c,0\n2024-01-04,d,4\n"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the market after its first apply, with the events of that in a file."""
    project = lay_out(tmp_path_factory.mktemp("first") / "market", FILES)
    done = without_jvm("apply", "--yes", "--report", "openlineage=events", cwd=project)
    assert (done.code, "warning" in done.err) == (0, False)
    return project


@pytest.fixture
def news(ask: Inside) -> Inside:
    """Run commands of the market, applied; its source has new rows."""
    lay_out(ask.project, NEWS)
    return ask


def events_in(file: Path) -> list[Event]:
    """Return the events of a file, all of them valid."""
    found = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for each in found:
        check_event(each)
    return found


def told(project: Inside, *arguments: str) -> list[Event]:
    """Apply, and return the events of that."""
    file = project.project / "events.ndjson"
    done = project("apply", "--yes", "--report", f"openlineage={file}", *arguments)
    assert done.code == 0, done.err
    return events_in(file)


def one(events: list[Event], job: str, type: str = "COMPLETE") -> Event:
    (found,) = (e for e in events if e["job"]["name"] == job and e["eventType"] == type)
    return found


def facet(of: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = {**of.get("facets", {}), **of.get("outputFacets", {})}[name]
    return {key: value for key, value in found.items() if not key.startswith("_")}


def named(subjects: list[Event]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in subjects]


def test_each_step_begins_and_ends_within_the_apply(first: Path) -> None:
    events = events_in(first / "events")
    types: dict[str, list[str]] = {}
    for each in events:
        types.setdefault(each["job"]["name"], []).append(each["eventType"])
    assert types.pop("apply") == ["START", "COMPLETE"]
    assert {name: kinds for name, kinds in types.items() if kinds != ["START", "COMPLETE"]} == {}
    assert sorted(types) == STEPS
    assert (events[0]["job"]["name"], events[-1]["job"]["name"]) == ("apply", "apply")
    runs = {each["job"]["name"]: each["run"]["runId"] for each in events}
    assert len(set(runs.values())) == len(runs) == 9
    assert {UUID(each).version for each in runs.values()} == {4}
    above = {facet(e["run"], "parent")["run"]["runId"] for e in events[1:-1]}
    assert above == {runs["apply"]}
    assert {each["job"]["namespace"] for each in events} == {SPACE}


def test_jobs_join_datasets_and_sources_as_the_definitions_do(first: Path) -> None:
    events = events_in(first / "events")
    edges = {
        each["job"]["name"]: (named(each["inputs"]), named(each["outputs"]))
        for each in events
        if each["eventType"] == "COMPLETE" and not each["job"]["name"].startswith("append")
    }
    assert edges == {
        "apply": ([], []),
        "ingest:src": ([(SPACE, "file:data/*.csv")], [(SPACE, "src")]),
        "ingest:acme/side": ([(SPACE, "file:side/*.csv")], [(SPACE, "acme/side")]),
        "transform:out": ([(SPACE, "src")], [(SPACE, "out")]),
        "transform:report": ([(SPACE, "out")], [(SPACE, "report")]),
    }


def test_outputs_tell_block_columns_and_how_much_was_added(news: Inside) -> None:
    before = dataset(news.project, "src").head()
    events = told(news)
    src = dataset(news.project, "src")
    (slice,) = (s for s, _ in src.slices() if s.offset_interval.start == 2)
    (output,) = one(events, "ingest:src")["outputs"]
    assert facet(output, "version") == {"datasetVersion": str(src.head())}
    assert facet(output, "dataSource") == {"name": SPACE, "uri": str(src.id)}
    assert facet(output, "outputStatistics") == {"rowCount": 2, "size": slice.size}
    assert [each["name"] for each in facet(output, "schema")["fields"]] == ["t", "k", "v"]
    (begun,) = one(events, "ingest:src", "START")["outputs"]
    assert facet(begun, "version") == {"datasetVersion": str(before)}
    assert "outputFacets" not in begun


def test_inputs_tell_the_block_that_was_read(first: Path) -> None:
    (read,) = one(events_in(first / "events"), "transform:report")["inputs"]
    blocks = [block.event for _, block in dataset(first, "report").blocks()]
    (ran,) = (each for each in blocks if isinstance(each, ExecuteTransform))
    assert facet(read, "version") == {"datasetVersion": str(ran.query_inputs[0].new_block_hash)}
    assert [each["name"] for each in facet(read, "schema")["fields"]] == ["t", "k", "v"]


def test_columns_are_told_for_values_and_for_rows(first: Path) -> None:
    events = events_in(first / "events")
    assert facet(one(events, "transform:report")["job"], "sql") == {
        "query": "select t, k, v as total from src where v > 0"
    }
    (output,) = one(events, "transform:report")["outputs"]
    found = {
        column: {
            each["field"]: [how["type"] for how in each["transformations"]]
            for each in made["inputFields"]
            if (each["namespace"], each["name"]) == (SPACE, "out")
        }
        for column, made in facet(output, "columnLineage")["fields"].items()
    }
    assert found == {
        "t": {"t": ["DIRECT"], "v": ["INDIRECT"]},
        "k": {"k": ["DIRECT"], "v": ["INDIRECT"]},
        "total": {"v": ["DIRECT", "INDIRECT"]},
    }


def test_homes_are_namespaces(news: Inside) -> None:
    store = lineage_of(workspace(news.project))
    store.set_home("https://repository.example", dataset(news.project, "src").id)
    store.close()
    assert named(one(told(news), "transform:out")["inputs"]) == [
        ("https://repository.example", "src")
    ]


def test_nothing_to_do_leaves_no_events(ask: Inside) -> None:
    (ask.project / "events.ndjson").write_text("events of an earlier run")
    assert told(ask) == []


def test_a_saved_plan_is_told_just_so(news: Inside) -> None:
    plan = news.project / "plan.json"
    assert news("plan", "--out", str(plan)).code == 0
    assert {each["job"]["name"] for each in told(news, str(plan))} == {"apply", *RUNS}


def test_a_server_gets_what_the_file_gets(news: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_TOKEN", "s3cr3t-t0ken")
    with taking(201) as server:
        setting = (
            f"openlineage: {{url: '{server.base}', token_env: LINEAGE_TOKEN, namespace: prod}}"
        )
        lay_out(news.project, {"odfbuild.yaml": f"{FILES['odfbuild.yaml']}{setting}\n"})
        planned = news("plan", "-o", "json")
        done = news("apply", "--yes", "--report", f"openlineage={news.project / 'events'}")
    assert (done.code, "warning" in done.err) == (0, False)
    file = (news.project / "events").read_text("utf-8")
    assert [body.decode() for _, body, _ in server.asked] == file.splitlines()
    assert {path for path, _, _ in server.asked} == {"/api/v1/lineage"}
    assert {headers["authorization"] for *_, headers in server.asked} == {"Bearer s3cr3t-t0ken"}
    assert {each["job"]["namespace"] for each in events_in(news.project / "events")} == {"prod"}
    for text in (file, planned.out, planned.err, done.out, done.err):
        assert "s3cr3t-t0ken" not in text
    kept = news.project / ".odfbuild"
    assert not [p for p in kept.rglob("*") if p.is_file() and b"s3cr3t-t0ken" in p.read_bytes()]


def test_a_server_can_be_given_by_the_usual_variables(
    news: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taking(200) as server:
        monkeypatch.setenv("OPENLINEAGE_URL", server.base)
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "elsewhere")
        assert news("apply", "--yes").code == 0
    events = [json.loads(body) for _, body, _ in server.asked]
    assert {each["job"]["name"] for each in events} == {"apply", *RUNS}
    assert {each["job"]["namespace"] for each in events} == {"elsewhere"}


@pytest.mark.parametrize("status", [500, 403, None])
def test_a_server_that_fails_is_told_and_nothing_else_suffers(
    news: Inside, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    with taking(status or 200) as server:
        monkeypatch.setenv("OPENLINEAGE_URL", server.base)
        if status is not None:
            done = news("apply", "--yes")
    if status is None:
        done = news("apply", "--yes")
    assert done.code == 0
    assert f"warning[openlineage]: 8 of 8 events were not taken by {server.base}/api" in done.err
    assert dataset(news.project, "report").slices()[-1][0].offset_interval.end == 3
    assert "No changes" in news("plan").out


@pytest.mark.parametrize("token", ["s3cr\u00e9t", "s3cr\u0007t", "s3cr3t\nX-Other: 1"])
def test_neither_a_password_nor_a_token_of_a_server_is_told(
    news: Inside, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    with taking(401) as server:
        there = server.base.replace("//", "//augusta:l0velace@")
        monkeypatch.setenv("OPENLINEAGE_URL", there)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", token)
        done = news("apply", "--yes", "--report", f"openlineage={news.project / 'events'}")
    assert done.code == 0
    assert f"8 of 8 events were not taken by {server.base}/api" in done.err
    for secret in ("s3cr", "l0velace", "augusta"):
        assert secret not in done.out + done.err + (news.project / "events").read_text("utf-8")


def test_a_step_that_fails_is_told_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = lay_out(tmp_path / "market", FILES)
    engine = FakeEngine(failing=frozenset({"select t, k, v from src"}))
    ask = Inside(project, capsys, monkeypatch, engine)
    file = project / "events"
    assert ask("apply", "--yes", "--report", f"openlineage={file}").code == 4
    events = events_in(file)
    failed = one(events, "transform:out", "FAIL")
    assert facet(failed["run"], "errorMessage") == {
        "message": "it broke: the test asked for it",
        "programmingLanguage": "Python",
    }
    assert facet(failed["outputs"][0], "outputStatistics")["rowCount"] == 0
    assert not [each for each in events if each["job"]["name"] == "transform:report"]
    assert one(events, "ingest:src")
    assert one(events, "apply", "FAIL")


def test_no_event_holds_what_is_secret_in_a_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k3y/of&mine")
    with serving() as server:
        server.put(
            "/rows.csv", Page(status=403, body=b"bad key k3y/of&mine k3y%2Fof%26mine hunter2")
        )
        host = server.url.removeprefix("http://")
        there = f"http://augusta:hunter2@{host}/rows.csv?key=${{{{ env.API_KEY }}}}&who=augusta"
        source = root(fetch=url(there))
        project = lay_out(tmp_path / "p", {"datasets/src.yaml": source, "data/1.csv": GOOD})
        ask = Inside(project, capsys, monkeypatch, FakeEngine())
        file = project / "events"
        assert ask("apply", "--yes", "--report", f"openlineage={file}").code == 4
    events = events_in(file)
    message = facet(one(events, "ingest:src", "FAIL")["run"], "errorMessage")["message"]
    assert "403" in message
    assert named(one(events, "ingest:src", "FAIL")["inputs"]) == [(f"http://{host}", "/rows.csv")]
    for secret in ("hunter2", "k3y", "augusta", "API_KEY"):
        assert secret not in file.read_text("utf-8")


def test_what_is_interrupted_is_told_as_aborted(market: Path, tmp_path: Path) -> None:
    lay_out(market, NEWS)
    project = app.open_project(market)
    step, other = app.make(project).steps[:2]
    file = tmp_path / "events"

    def interrupted() -> None:
        with openlineage_events(project, Unwatched(), file) as told:
            told.progress.started(step)
            told.progress.started(other)
            told.progress.finished(other, Interrupted(()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    types = [(each["job"]["name"], each["eventType"]) for each in events_in(file)]
    assert types == [
        ("apply", "START"),
        ("ingest:src", "START"),
        ("transform:out", "START"),
        ("transform:out", "ABORT"),
        ("ingest:src", "ABORT"),
        ("apply", "ABORT"),
    ]


@pytest.mark.parametrize(
    ("report", "code", "word"),
    [
        ("sarif=x", 64, "error[usage]"),
        ("openlineage", 64, "error[usage]"),
        ("openlineage=-", 64, "error[usage]"),
        ("openlineage=nowhere/events", 64, "error[usage]"),
        ("openlineage=/proc/self/events", 1, "error[events-file]"),
    ],
)
def test_what_cannot_be_reported_is_refused_before_anything_is_done(
    news: Inside, monkeypatch: pytest.MonkeyPatch, report: str, code: int, word: str
) -> None:
    monkeypatch.chdir(news.project)
    before = heads(news.project)
    done = news("apply", "--yes", "--report", report)
    assert (done.code, word in done.err) == (code, True)
    assert heads(news.project) == before


def test_a_full_disk_is_told_and_nothing_else_suffers(news: Inside) -> None:
    if not Path("/dev/full").exists():  # there is none outside Linux
        return
    done = news("apply", "--yes", "--report", "openlineage=/dev/full")
    assert (done.code, "warning[openlineage]: /dev/full does not hold all events" in done.err) == (
        0,
        True,
    )


def test_a_query_that_names_no_column_has_no_column_lineage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = derivative(query="select t, k, v, parse_url(k, 'HOST') from src")
    files = {"datasets/src.yaml": root(), "datasets/out.yaml": odd, "data/1.csv": GOOD}
    ask = Inside(lay_out(tmp_path / "p", files), capsys, monkeypatch, FakeEngine())
    (output,) = one(told(ask), "transform:out")["outputs"]
    assert "schema" in output["facets"]
    assert "columnLineage" not in output["facets"]


SOURCES = [
    (FetchStepFilesGlob(path="/srv/data/*.csv"), ("file", "/srv/data/*.csv")),
    (FetchStepFilesGlob(path="in/*.csv"), ("here", "file:in/*.csv")),
    (
        FetchStepUrl(url="https://u:p@one.example:8443/a b/c.csv?key=1#x"),
        ("https://one.example:8443", "/a b/c.csv"),
    ),
    (
        FetchStepUrl(url="https://one.example/${{ env.KEY }}/c.csv"),
        ("https://one.example", "/${{ env.KEY }}/c.csv"),
    ),
    (FetchStepUrl(url="${{ env.WHERE }}"), ("url", "${{ env.WHERE }}")),
    (FetchStepUrl(url="file:///srv/c.csv"), ("file", "/srv/c.csv")),
    (FetchStepUrl(url="ftp://one.example"), ("ftp://one.example", "/")),
    (FetchStepContainer(image="one.example/fetch:1"), ("container", "one.example/fetch:1")),
    (
        FetchStepMqtt(
            host="one.example",
            port=1883,
            username="u",
            password="p",
            topics=(MqttTopicSubscription(path="t"),),
        ),
        ("mqtt://one.example:1883", "t"),
    ),
    (
        FetchStepEthereumLogs(chain_id=1, node_url="https://node.example/key"),
        ("ethereum", "1"),
    ),
]


@pytest.mark.parametrize(("fetch", "expected"), SOURCES)
def test_sources_are_named_by_where_they_are(fetch: FetchStep, expected: tuple[str, str]) -> None:
    found = source_of(fetch, "here")
    assert (found.named.namespace, found.named.name) == expected
    job = Job(named=found.named, kind="INGEST")
    moment = Moment(EventType.START, Timestamp(0))
    check_event(run_event(moment, Run(UUID(int=1), found.named), job, inputs=[found]))


def test_secrets_of_a_source_are_its_values_and_what_its_templates_use() -> None:
    headers = (RequestHeader("a", "literal"), RequestHeader("b", "x ${{ env.OTHER }}"))
    sources = (
        FetchStepUrl(url="https://ada:pw1@one.example/?k=${{ env.KEY }}", headers=headers),
        FetchStepContainer(image="i", env=(EnvVar(name="TAKEN"), EnvVar("GIVEN", "given"))),
    )
    env = {"KEY": "a/b c", "OTHER": "other", "TAKEN": "taken", "UNUSED": "unused"}
    found = set(secrets_of(sources, env))
    assert {"a/b c", "ada", "pw1", "literal", "other"} <= found
    assert {"taken", "given"} <= found
    assert not {"", "unused", "TAKEN", "KEY", "one.example", "i"} & found
