"""What the live page asks for: datasets as they are now, history, rows by a block, runs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.lease import Worker, take_lease
from odfbuild.state.runs import RunSummary, list_runs
from tests.serve.conftest import AT_ONCE
from tests.serve.live.projects import BIG, HIGH, READINGS, build, files_of_a_day
from tests.support.servers.datasets import DatasetServer, serving_datasets


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, store_url: str | None
) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("live")
    files_of_a_day(folder, 1)
    workspace = store_url or "workspace"
    assert build(folder, workspace=workspace) == 0
    files_of_a_day(folder, 2)
    assert build(folder, READINGS, workspace=workspace) == 0
    with serving_datasets(folder, store=store_url, limits=AT_ONCE) as found:
        yield found


def asking(server: DatasetServer, **token: Any) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.token('read', **token)}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def client(server: DatasetServer) -> Iterator[httpx.Client]:
    with asking(server) as found:
        yield found


def got(client: httpx.Client, path: str, **parameters: Any) -> Any:
    answered = client.get(path, params=parameters)
    assert answered.status_code == 200, answered.text
    return answered.json()


def recorded(server: DatasetServer) -> tuple[RunSummary, ...]:
    """Return the runs of a workspace, newest first."""
    workspace = server.workspace
    workspace.bring_runs()
    return list_runs(workspace.root).runs


@contextmanager
def changing(server: DatasetServer, name: str) -> Iterator[None]:
    """Change a dataset for the length of a block: under its lock, in a store with its lease."""
    workspace, alias = server.workspace, DatasetAlias.parse(name)
    dataset = workspace.open(alias)
    assert dataset is not None
    worker = Worker(user="a", host="b", pid=1, since="2026-08-01T00:00:00Z", command="apply")
    far = workspace.far_leases
    lease, _ = take_lease(workspace.root, worker, written=[alias], far=far)
    with dataset.stores.heads.lock():
        yield
    lease.release()


def slices(server: DatasetServer, name: str) -> list[list[dict[str, Any]]]:
    """Read the rows of a dataset, one list for each block that has some."""
    dataset = server.workspace.open(DatasetAlias.parse(name))
    assert dataset is not None
    return [pq.read_table(path).to_pylist() for _, path in dataset.slices()]


def test_the_status_has_lag_and_inputs(server: DatasetServer, client: httpx.Client) -> None:
    found = {each["alias"]: each for each in got(client, "/system/status")["datasets"]}
    assert [*found] == [HIGH, READINGS]
    unread = len(slices(server, READINGS)[1])
    assert (found[HIGH]["behind"], found[READINGS]["behind"]) == (unread, None)
    assert found[HIGH]["inputs"] == [found[READINGS]["id"]]
    assert found[READINGS]["records"] == sum(map(len, slices(server, READINGS)))
    assert found[READINGS]["watermark"] == "2031-01-02T00:00:59Z"


def test_a_status_that_has_not_changed_is_not_sent_again(
    server: DatasetServer, client: httpx.Client
) -> None:
    first = client.get("/system/status")
    tag = {"if-none-match": first.headers["etag"]}
    again = client.get("/system/status", headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    with asking(server, datasets=HIGH) as other:
        assert other.get("/system/status", headers=tag).status_code == 200
    assert httpx.get(f"{server.url}system/status", headers=tag).status_code == 401
    with changing(server, HIGH):
        assert client.get("/system/status", headers=tag).json()["datasets"][0]["locked"]
    assert client.get("/system/status", headers=tag).status_code == 304


def test_what_somebody_may_not_read_is_counted_nowhere(server: DatasetServer) -> None:
    with asking(server, datasets=HIGH) as other:
        (only,) = got(other, "/system/status")["datasets"]
        assert (only["alias"], only["inputs"], only["behind"]) == (HIGH, [], None)
        assert other.get(f"/{READINGS}/history").status_code == 404
        assert other.get("/system/runs").status_code == 403
        run = recorded(server)[0]
        assert other.get(f"/system/runs/{run.id}").status_code == 403


@pytest.mark.parametrize(
    ("pattern", "scope", "status"),
    [("*", "read", 200), ("**", "read", 200), ("*", "write", 403), ("team.*", "read", 403),
     ("*.*", "read", 403), ("*e*", "read", 403), ("*/*", "read", 403)],
)  # fmt: skip
def test_runs_are_shown_to_who_may_read_any_name_whatever_is_there(
    server: DatasetServer, pattern: str, scope: str, status: int
) -> None:
    headers = {"authorization": f"Bearer {server.token(scope, datasets=pattern)}"}
    run = recorded(server)[0]
    for path in ("/system/runs", f"/system/runs/{run.id}"):
        assert httpx.get(f"{server.url.rstrip('/')}{path}", headers=headers).status_code == status


def test_nobody_without_a_token_sees_anything_but_the_empty_page(server: DatasetServer) -> None:
    with httpx.Client(base_url=server.url) as nobody:
        for path in ("/system/status", "/system/runs", f"/{READINGS}/history"):
            assert nobody.get(path).status_code == 401, path
        for path in ("/", "/.odfbuild/live.js", "/.odfbuild/live.css"):
            page = nobody.get(path)
            assert page.status_code == 200
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert READINGS not in page.text
            again = nobody.get(path, headers={"if-none-match": page.headers["etag"]})
            assert (again.status_code, again.text) == (304, "")


def test_history_is_the_whole_chain_in_pages(server: DatasetServer, client: httpx.Client) -> None:
    dataset = server.workspace.open(DatasetAlias.parse(READINGS))
    assert dataset is not None
    expected = [(str(hash), block.sequence_number) for hash, block in dataset.blocks()][::-1]
    for limit in (1, 3, 200):
        found: list[tuple[str, int]] = []
        start: str | None = expected[0][0]
        while start is not None:
            page = got(client, f"/{READINGS}/history", limit=limit, **{"from": start})
            assert len(page["blocks"]) <= limit
            found += [(each["hash"], each["sequenceNumber"]) for each in page["blocks"]]
            start = page["next"]
        assert found == expected
    assert got(client, f"/{READINGS}/history")["blocks"][0]["event"]["kind"] == "AddData"


def test_a_page_has_limited_bytes_and_all_pages_together_the_whole(
    server: DatasetServer, client: httpx.Client
) -> None:
    history = got(client, f"/{READINGS}/history")["blocks"]
    run = got(client, "/system/runs")["runs"][0]["id"]
    events = got(client, f"/system/runs/{run}")["events"]
    longest = max(len(json.dumps(each)) for each in (*history, *events))
    for size in (1, 1_000, longest):
        limits = {"page": size}
        serving = serving_datasets(server.project, limits=limits, store=server.store)
        with serving as other, asking(other) as there:
            found: list[Any] = []
            start: dict[str, str] | None = {}
            while start is not None:
                page = got(there, f"/{READINGS}/history", **start)
                assert_is_page(page["blocks"], size)
                found += page["blocks"]
                start = {"from": page["next"]} if page["next"] else None
            assert found == history
            read: list[Any] = []
            more = True
            while more:
                page = got(there, f"/system/runs/{run}", after=len(read))
                assert_is_page(page["events"], size)
                read += page["events"]
                more = page["more"]
            assert read == events


def assert_is_page(found: list[Any], size: int) -> None:
    assert len(found) == 1 or sum(len(json.dumps(each)) for each in found) <= size


def test_rows_by_a_block_are_those_that_were_there_then(
    server: DatasetServer, client: httpx.Client
) -> None:
    then, now = slices(server, READINGS)
    blocks = got(client, f"/{READINGS}/history")["blocks"]
    committed = [each["hash"] for each in blocks if each["event"].get("newData")]
    for block, rows in ((committed[1], then), (committed[0], then + now)):
        for skip, limit in ((0, 7), (3, 5), (0, 1000)):
            found = client.get(
                f"/{READINGS}/tail",
                params={"block": block, "skip": skip, "limit": limit, "dataFormat": "JsonSoA"},
            )
            kept = rows[: len(rows) - skip][-limit:]
            data = json.loads(found.text)["output" if "output" in found.json() else "data"]
            assert data["offset"] == [each["offset"] for each in kept]
            assert data["v"] == [each["v"] for each in kept]
    assert BIG in [each["v"] for each in now]


@pytest.mark.parametrize("name", [READINGS, HIGH])
@pytest.mark.parametrize(
    ("parameter", "value", "status"),
    [("from", "nonsense", 400), ("from", "f1620" + "0" * 64, 404), ("limit", "-1", 400),
     ("limit", "1e3", 400), ("limit", "\u0663", 400), ("limit", "9" * 5_000, 400)],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(
    client: httpx.Client, name: str, parameter: str, value: str, status: int
) -> None:
    answered = client.get(f"/{name}/history", params={parameter: value})
    assert answered.status_code == status, answered.text
    assert answered.json()["message"]
    if parameter == "from":
        assert client.get(f"/{name}/tail", params={"block": value}).status_code == status


def test_a_block_of_another_dataset_is_not_there(client: httpx.Client) -> None:
    other = got(client, f"/{HIGH}/history")["blocks"][0]["hash"]
    assert client.get(f"/{READINGS}/history", params={"from": other}).status_code == 404
    assert client.get(f"/{READINGS}/tail", params={"block": other}).status_code == 404


def test_runs_are_those_of_the_records(server: DatasetServer, client: httpx.Client) -> None:
    expected = [each.id for each in recorded(server)]
    found = got(client, "/system/runs")
    assert ([each["id"] for each in found["runs"]], found["damaged"]) == (expected, [])
    assert {each["outcome"] for each in found["runs"]} == {"done"}
    whole = got(client, f"/system/runs/{expected[0]}")["events"]
    assert (whole[0]["event"], whole[-1]["event"]) == ("run_started", "summary")
    rest = got(client, f"/system/runs/{expected[0]}", after=2)["events"]
    assert rest == whole[2:]
    assert client.get("/system/runs/nothing").status_code == 404


def test_a_damaged_record_of_a_run_is_said_to_be_so(
    server: DatasetServer, client: httpx.Client
) -> None:
    first = recorded(server)[-1].id
    summary = server.folder / "runs" / first / "summary.json"
    before = summary.read_bytes()
    summary.write_text("{}")
    assert got(client, "/system/runs")["damaged"] == [first]
    assert client.get(f"/system/runs/{first}").status_code == 500
    summary.write_bytes(before)


def test_events_that_cannot_be_read_are_said_to_be_damaged(
    server: DatasetServer, client: httpx.Client
) -> None:
    first = recorded(server)[-1].id
    events = server.folder / "runs" / first / "events.ndjson"
    before = events.read_bytes()
    events.unlink()
    events.mkdir()
    answered = client.get(f"/system/runs/{first}")
    assert (answered.status_code, answered.text) == (500, "The run cannot be read: damaged-run.\n")
    events.rmdir()
    events.write_bytes(before)
