"""A server of a workspace in a store: what it asks of the store, and what becomes of outages."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import Visibility
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.workspace import BucketWorkspace
from odfbuild.state.workspace import Workspace
from tests.serve.copies import content, grow, made, note, push, update_of
from tests.serve.query.test_routes import FIRST, built
from tests.serve.races import at_once
from tests.support.data.disks import verified
from tests.support.servers.datasets import DatasetServer, serving_datasets
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import (
    CREDENTIALS,
    KilledServer,
    ObjectServer,
)

CITIES = "team.cities"


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"served-{abs(hash(request.node.nodeid))}"


@contextmanager
def reading(server: DatasetServer, *scopes: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.token(*(scopes or ('read',)))}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as found:
        yield found


def eventually(holds: Any, seconds: float = 30) -> None:
    """Return once something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def cities(url: str, folder: Path) -> Dataset:
    """Build a dataset with rows that may be asked about."""
    built(folder / "project", FIRST, workspace=url)
    found = BucketWorkspace(url).open(DatasetAlias.parse(CITIES))
    assert found is not None
    return found


def files_of(dataset: Dataset) -> list[str]:
    return [f"data/{each.physical_hash}" for each in dataset.data_slices()]


def test_requests_to_the_store_do_not_grow_with_readers(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    dataset = made(BucketWorkspace(store.url(prefix)), "rates", 3)
    paths = ["system/status", "rates/refs/head", "rates/history", ".odfbuild/index.json"]
    paths += [f"rates/{each}" for each in files_of(dataset)]
    costs = []
    with (
        serving_datasets(tmp_path, store=store.url(prefix, proxy.port)) as server,
        reading(server) as client,
    ):
        assert [client.get(path).status_code for path in paths] == [200] * len(paths)
        for readers in (1, 12):
            time.sleep(2.5)
            proxy.asked.clear()
            end = time.monotonic() + 5

            def read(end: float = end) -> None:
                while time.monotonic() < end:
                    for path in paths:
                        assert client.get(path).status_code == 200

            threads = [threading.Thread(target=read) for _ in range(readers)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            costs.append(len(proxy.asked))
        time.sleep(1)
        proxy.asked.clear()
        time.sleep(3)
        assert not proxy.asked
    one, many = costs
    assert 0 < many <= one + 8  # a period more, as the last answers come later


@pytest.mark.holds("serving-stores")
@pytest.mark.parametrize("how", ["500", "cut", "silent"])
def test_an_outage_is_said_and_ends_without_a_restart(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path, how: str
) -> None:
    dataset = cities(store.url(prefix), tmp_path)
    asked = {"query": 'select count(*) as n from "team.cities"'}
    own = ["refs/head", "history", "tail", "metadata", "origins?offset=0", files_of(dataset)[0]]
    own += ["attestations/delegations", f"changes?since={next(iter(dataset.blocks()))[0]}"]
    paths = ["system/status", "system/runs", ".odfbuild/index.json"]
    paths += [f"{CITIES}/{each}" for each in own]
    with (
        serving_datasets(tmp_path, store=store.url(prefix, proxy.port)) as server,
        reading(server) as client,
    ):
        good = {path: client.get(path) for path in paths}
        assert client.post("query", json=asked).status_code == 200
        head = dataset.head()
        time.sleep(5.1)
        held = threading.Event()

        def altered(method: str, path: str, status: int, data: bytes) -> tuple[int, bytes]:
            if how == "silent":
                proxy.lock.release()
                held.wait(60)
                proxy.lock.acquire()
            return (503, b"away") if how == "500" else (status, data)

        proxy.alters = None if how == "cut" else altered
        proxy.fault = None
        if how == "cut":
            proxy.loses += [(method, "/") for method in ("GET", "HEAD") * 5_000]
        begun = time.monotonic()
        for path in paths:
            answered = client.get(path)
            if path != f"team.cities/{files_of(dataset)[0]}" or answered.status_code != 200:
                assert answered.status_code == 503, (path, answered.text)
                assert "store of the workspace does not answer" in answered.text
                assert answered.headers["retry-after"]
                assert not any(each in answered.text for each in ("127.0.0.1", "/", "odf"))
        assert client.post("query", json=asked).status_code == 503
        assert client.get("system/health").status_code == 200
        assert time.monotonic() - begun < 45
        proxy.alters = None
        held.set()
        proxy.loses.clear()
        eventually(lambda: client.get("system/status").status_code == 200)
        for path, before in good.items():
            assert client.get(path).status_code == before.status_code, path
        assert client.get("team.cities/refs/head").text == str(head)
        assert client.post("query", json=asked).status_code == 200
    log = (tmp_path / "log").read_text()
    assert "unreachable-repository" in log
    assert not any(each in log for each in CREDENTIALS.values())


def test_a_store_that_is_killed_and_comes_back_is_served_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "store").mkdir()
    killed = KilledServer(tmp_path / "store")
    try:
        killed.wait()
        url = killed.server.url("lake")
        dataset = made(BucketWorkspace(url), "rates", 2)
        with serving_datasets(tmp_path / "server", store=url) as server, reading(server) as client:
            assert client.get("system/status").status_code == 200
            killed.kill()
            eventually(lambda: client.get("rates/refs/head").status_code == 503, 10)
            killed.wait()
            eventually(lambda: client.get("rates/refs/head").status_code == 200)
            assert client.get("rates/refs/head").text == str(dataset.head())
    finally:
        killed.close()


@pytest.mark.holds("serving-stores")
def test_a_process_of_a_question_has_no_credentials(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    cities(store.url(prefix), tmp_path)
    with serving_datasets(tmp_path, store=store.url(prefix)) as server, reading(server) as client:
        answered = client.post("query", json={"query": 'select count(*) as n from "team.cities"'})
        assert answered.json()["output"]["data"] == [{"n": 2}]
        eventually(lambda: children(server.process.pid))
        found = [
            Path(f"/proc/{each}/environ").read_bytes() for each in children(server.process.pid)
        ]
        for each in found:
            assert b"PATH=" in each
            assert not any(value.encode() in each for value in CREDENTIALS.values())


def children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for at in threads for each in (at / "children").read_text().split()]


@pytest.mark.holds("serving-stores")
def test_an_object_is_served_by_the_dataset_that_has_it_alone(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    workspace = BucketWorkspace(store.url(prefix))
    one, two = made(workspace, "one", 2), made(workspace, "two", 1)
    paths = [*files_of(one)[1:], f"blocks/{one.head()}"]
    with serving_datasets(tmp_path, store=store.url(prefix)) as server, reading(server) as client:
        for path in paths:
            assert client.get(f"one/{path}").status_code == 200
            assert client.get(f"two/{path}").status_code == 404
        assert client.get(f"two/blocks/{two.head()}").status_code == 200
        assert client.get(f"two/history?from={one.head()}").status_code == 404


@pytest.mark.holds("serving-stores")
def test_other_bytes_under_a_hash_are_not_served(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    workspace = BucketWorkspace(store.url(prefix))
    dataset = made(workspace, "rates", 2)
    names = [f"blocks/{dataset.head()}", files_of(dataset)[0]]
    for name in names:
        key = f"datasets/{dataset.id.multibase}/{name}"
        kept = workspace.client.get(key, 1 << 20)
        assert kept is not None
        workspace.client.put(key, kept[:-1] + b"?")
    made(workspace, "sound", 1)
    with (
        serving_datasets(
            tmp_path, store=store.url(prefix), env={"XDG_CACHE_HOME": str(tmp_path)}
        ) as server,
        reading(server) as client,
    ):
        for name in names:
            answered = client.get(f"rates/{name}")
            assert (answered.status_code, "corrupt-object" in answered.text) == (500, True)
        assert client.get("rates/tail").status_code == 500
        status = client.get("system/status").json()["datasets"]
        assert {each["alias"]: each["damage"] for each in status} == {
            "rates": "corrupt-object",
            "sound": None,
        }
        assert client.get("sound/tail").status_code == 200


def test_objects_that_are_too_long_damage_what_they_are_of_alone(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    workspace = BucketWorkspace(store.url(prefix))
    long, sound = made(workspace, "long", 1), made(workspace, "sound", 1)
    with serving_datasets(tmp_path, store=store.url(prefix)) as server, reading(server) as client:
        assert client.get("system/status").status_code == 200
        for key in (f"datasets/{long.id.multibase}/refs/head", "names/sound.too", "leases/sound"):
            workspace.client.put(key, b"x" * 200_000)
        made(workspace, "later", 1)
        damage = {"long": "broken-source", "sound.too": "corrupt-name", "sound": None}

        def found() -> dict[str, str | None]:
            listed = client.get("system/status").json()["datasets"]
            return {each["alias"]: each["damage"] for each in listed}

        eventually(lambda: found() == {**damage, "later": None})
        assert client.get("sound/refs/head").text == str(sound.head())
        assert client.get("long/refs/head").status_code == 500
    assert workspace.names().keys() == set(map(DatasetAlias.parse, ("long", "sound", "later")))
    assert workspace.heads().keys() >= {sound.id}


def test_the_cache_of_a_server_keeps_its_limit(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    workspace = BucketWorkspace(store.url(prefix))
    dataset = grow(workspace, made(workspace, "rates"), 12, rows=2_000)
    sizes = [each.size for each in dataset.data_slices()]
    limit = 3 * max(sizes)
    env = {"ODFBUILD_CACHE_SIZE": str(limit), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (
        serving_datasets(tmp_path, store=store.url(prefix), env=env) as server,
        reading(server) as client,
    ):
        found = [client.get(f"rates/{path}") for path in files_of(dataset) * 2]
        assert [len(each.content) for each in found] == sizes * 2
        kept = [*(tmp_path / "cache").glob("odfbuild/served/*/*/files/*/*")]
        assert 0 < sum(each.stat().st_size for each in kept) <= limit
        refused = client.get("rates/tail")
        assert refused.status_code == 400
        assert "cache of the server" in refused.json()["message"]
        chain = [str(hash) for hash, _ in dataset.blocks()]
        assert client.get(f"rates/tail?block={chain[2]}").status_code == 200


def test_servers_of_one_workspace_agree(store: ObjectServer, prefix: str, tmp_path: Path) -> None:
    here = Workspace(tmp_path / "here")
    url = store.url(prefix)
    with (
        serving_datasets(tmp_path / "1", "--anonymous-read", store=url) as one,
        serving_datasets(tmp_path / "2", "--anonymous-read", store=url) as two,
    ):
        for name, visibility in (("open", Visibility.PUBLIC), ("closed", Visibility.PRIVATE)):
            dataset = made(here, name, 1)
            token = one.token("read", "write", "create")
            client = SmartDataset(one.of(name), token=token, visibility=visibility)
            client.push(update_of(dataset, client), lambda _: None)
            client.close()
        for server in (one, two):

            def known(server: DatasetServer = server) -> list[str]:
                found = httpx.get(f"{server.url}.odfbuild/index.json").json()["datasets"]
                return [each["alias"] for each in found]

            eventually(lambda known=known: known() == ["open"], 10)
            assert httpx.get(f"{server.url}closed/refs/head").status_code == 404
            assert httpx.get(f"{server.url}open/refs/head").status_code == 200
            with reading(server) as reader:
                assert reader.get("closed/refs/head").status_code == 200


def test_of_pushes_to_two_servers_exactly_one_wins(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    url = store.url(prefix)
    with (
        serving_datasets(tmp_path / "1", store=url) as one,
        serving_datasets(tmp_path / "2", store=url) as two,
    ):
        for number in range(6):
            name = f"race-{number}"
            first = made(Workspace(tmp_path / f"a{number}"), name, 1)
            tokens = [each.token("read", "write", "create") for each in (one, two)]
            clients = [
                SmartDataset(server.of(name), token=token)
                for server, token in zip((one, two), tokens, strict=True)
            ]
            push(first, clients[0])
            shutil.copytree(tmp_path / f"a{number}", tmp_path / f"b{number}")
            copies = [
                Workspace(tmp_path / f"{each}{number}").open(DatasetAlias.parse(name))
                for each in "ab"
            ]
            for each, copy in enumerate(copies):
                assert copy is not None
                note(copy, f"pusher {each}")
            results = at_once([each for each in copies if each is not None], clients)
            assert sum(each is None for each in results) == 1, results
            (lost,) = (each for each in results if each is not None)
            assert isinstance(lost, HeadMovedError), repr(lost)
            there = BucketWorkspace(url).open(DatasetAlias.parse(name))
            winner = copies[results.index(None)]
            assert there is not None
            assert winner is not None
            assert content(there) == content(winner)
            verified(there)
            for client in clients:
                client.close()
