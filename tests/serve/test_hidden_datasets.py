"""What a server reveals of datasets that a caller may not read: nothing, whole or damaged."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.repositories.smart.messages import VERSION_HEADER
from odfbuild.state.chain.dataset import Dataset
from tests.serve.copies import made, note
from tests.support.servers.datasets import DatasetServer, serving_datasets

SEEN = "seen.rates"
LISTS = ("system/status", "system/runs", ".odfbuild/index.json")
ABSENT = Multihash.parse(f"f1620{'ab' * 32}")
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    VERSION_HEADER: "1",
}
CALLERS: Mapping[str, tuple[tuple[str, ...], str] | None] = {
    "nobody": None,
    "reader": (("read",), "seen.*"),
    "writer": (("read", "write"), "seen.*"),
    "creator": (("read", "create"), "seen.*"),
    "only writes": (("write",), "seen.*"),
}


def rooms(dataset: Dataset) -> tuple[Path, Path, Path]:
    """Return the files of a dataset's head and of the block at it, and the folder of its slices."""
    head = dataset.head()
    assert head is not None
    block = dataset.stores.blocks.path(head)
    folder = block.parent.parent
    return folder / "refs" / "head", block, folder / "data"


def replaced(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def name_file(dataset: Dataset) -> Path:
    """Return the file of a dataset's name."""
    names = rooms(dataset)[0].parents[3] / "names"
    return next(each for each in names.iterdir() if str(dataset.id) in each.read_text())


def deleted(dataset: Dataset) -> None:
    name_file(dataset).unlink()
    shutil.rmtree(rooms(dataset)[2].parent)


STATES: Mapping[str, Callable[[Dataset], object]] = {
    "whole": lambda _: None,
    "no-head": lambda each: rooms(each)[0].unlink(),
    "head-of-rubbish": lambda each: replaced(rooms(each)[0], b"rubbish"),
    "empty-head": lambda each: replaced(rooms(each)[0], b""),
    "head-of-no-block": lambda each: replaced(rooms(each)[0], str(ABSENT).encode()),
    "short-block": lambda each: replaced(rooms(each)[1], rooms(each)[1].read_bytes()[:30]),
    "no-block": lambda each: rooms(each)[1].unlink(),
    "name-of-rubbish": lambda each: replaced(name_file(each), b"rubbish"),
    "no-slices": lambda each: shutil.rmtree(rooms(each)[2]),
    "no-folder": lambda each: shutil.rmtree(rooms(each)[2].parent),
    "absent": deleted,
}
ASKED = {"whole", "no-head", "head-of-rubbish", "absent"}  # states that queries are tried with


@dataclass(frozen=True)
class Hidden:
    """A dataset that no caller may read, as it was before it was damaged."""

    name: str
    id: str
    head: str
    slice: str

    def without_names(self, text: str) -> str:
        """Return a text with other words for what names the dataset."""
        for each, word in ((self.name, "NAME"), (self.id, "ID"), (self.head, "HEAD")):
            text = text.replace(each, word)
        return text


@pytest.fixture(
    scope="module", params=[(), ("--anonymous-read",)], ids=["with-tokens", "anonymous-read"]
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DatasetServer]:
    with serving_datasets(tmp_path_factory.mktemp("hidden"), *request.param) as found:
        made(found.workspace, SEEN, 1)
        yield found


@pytest.fixture(scope="module")
def hidden(server: DatasetServer) -> Mapping[str, Hidden]:
    """Make a private dataset of each state, and return them by their states."""
    found = {}
    for state, damage in STATES.items():
        dataset = made(server.workspace, f"hidden.{state}", 2)
        slice = dataset.slices()[0][0].physical_hash
        found[state] = Hidden(f"hidden.{state}", str(dataset.id), str(dataset.head()), str(slice))
        damage(dataset)
    private = json.dumps({"private": [each.id for each in found.values()]})
    server.tokens.parent.mkdir(exist_ok=True)
    server.tokens.with_name("private.json").write_text(private)
    return found


def readings(each: Hidden) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests that read a hidden dataset: method, path and options."""
    for path in (
        *("tail", f"tail?block={each.head}", "metadata", "metadata?include=Refs", "history"),
        *(f"history?from={each.head}", "refs/head", f"blocks/{each.head}", f"data/{each.slice}"),
        *(f"checkpoints/{each.slice}", f"attestations/{each.head}", "attestations/delegations"),
    ):
        yield "GET", f"{each.name}/{path}", {}
    yield "HEAD", f"{each.name}/refs/head", {}
    yield "GET", f"{each.name}/pull", {"headers": UPGRADE}
    yield "GET", f"datasets/{each.id}", {}


def changes(each: Hidden) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests that change a hidden dataset."""
    for kind in ("data", "blocks", "attestations"):
        yield "PUT", f"{each.name}/{kind}/{each.head}", {"content": b"{}"}
    yield "GET", f"{each.name}/push", {"headers": UPGRADE}


def questions(each: Hidden) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield queries that name a hidden dataset."""
    query = f'select 1 from "{SEEN}" a, "{each.name}" b'
    yield "POST", "query", {"json": {"query": query}}
    pinned = {"id": each.id, "alias": "x", "blockHash": each.head}
    yield "POST", "query", {"json": {"query": "select 1 from x", "datasets": [pinned]}}


@pytest.mark.holds("serving-files")
@pytest.mark.parametrize("caller", CALLERS)
def test_a_hidden_dataset_is_like_one_that_does_not_exist(
    server: DatasetServer, hidden: Mapping[str, Hidden], caller: str
) -> None:
    rights = CALLERS[caller]
    token = None if rights is None else server.token(*rights[0], datasets=rights[1])
    own = {} if token is None else {"authorization": f"Bearer {token}"}
    found: dict[str, list[Any]] = {}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for state, each in hidden.items():
            asked = questions(each) if caller == "reader" and state in ASKED else ()
            read = readings(each) if caller in ("nobody", "reader") else ()
            for method, path, options in (*changes(each), *read, *asked):
                headers = {**own, **options.get("headers", {})}
                answer = client.request(method, path, **{**options, "headers": headers})
                said = answer.status_code, answer.headers.get("www-authenticate"), answer.text
                found.setdefault(state, []).append(
                    each.without_names(f"{method} {path} {options}: {said}")
                )
        listed = [client.get(path, headers=own).text for path in LISTS]
    for state, all_said in found.items():
        assert all_said == found["absent"][: len(all_said)], state
    assert "hidden" not in "".join(listed)


SHOWN = {
    "whole": None,
    "no-head": "missing-head",
    "head-of-rubbish": "corrupt-head",
    "empty-head": "corrupt-head",
    "head-of-no-block": "missing-object",
    "short-block": "corrupt-object",
    "no-block": "missing-object",
    "name-of-rubbish": "corrupt-name",
    "no-slices": None,  # files of rows are not read for a list
    "no-folder": "missing-head",
}


def test_damaged_datasets_are_shown_as_that_to_who_may_read_them(
    server: DatasetServer, hidden: Mapping[str, Hidden]
) -> None:
    def listed(datasets: str | None) -> dict[str, Any]:
        token = None if datasets is None else server.token("read", datasets=datasets)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        answer = httpx.get(f"{server.url}system/status", headers=headers, timeout=60)
        found = answer.json()["datasets"] if answer.status_code == 200 else []
        return {each["alias"]: each for each in found}

    found = listed("*")
    of_hidden = {name.removeprefix("hidden."): each for name, each in found.items()}
    assert [*found] == sorted(found)
    assert {n: each["damage"] for n, each in of_hidden.items() if n != SEEN} == SHOWN
    for state, code in SHOWN.items():
        each = of_hidden[state]
        is_named = state != "name-of-rubbish"
        assert each["id"] == (hidden[state].id if is_named else None)
        if code is not None:
            assert {each[name] for name in ("head", "records", "size", "kind", "behind")} == {None}
            assert each["inputs"] == [] and each["locked"] is False
    assert {*listed("hidden.no-*")} - {SEEN} == {
        f"hidden.{state}" for state in SHOWN if state.startswith("no-")
    }
    assert {*listed("seen.*")} == {SEEN}
    assert {*listed(None)} <= {SEEN}


def test_a_dataset_that_was_mended_or_removed_is_shown_as_that(server: DatasetServer) -> None:
    dataset = made(server.workspace, "mended.rates", 2)
    other = made(server.workspace, "removed.rates", 2)
    headers = {"authorization": f"Bearer {server.token('read', datasets='*.rates')}"}

    def damage() -> Mapping[str, Any]:
        answer = httpx.get(f"{server.url}system/status", headers=headers, timeout=60).json()
        return {each["alias"]: each["damage"] for each in answer["datasets"]}

    whole = {"mended.rates": None, "removed.rates": None, SEEN: None}
    assert damage() == whole
    head = rooms(dataset)[0]
    for path, code, data in (
        (head, "corrupt-head", head.read_bytes()),
        (name_file(dataset), "corrupt-name", name_file(dataset).read_bytes()),
    ):
        replaced(path, b"rubbish")
        assert damage() == {**whole, "mended.rates": code}, path
        replaced(path, data)
        assert damage() == whole
    deleted(other)
    assert damage() == {"mended.rates": None, SEEN: None}
    note(dataset, "so that it is read again")
    replaced(rooms(dataset)[1], b"rubbish")
    assert damage() == {"mended.rates": "corrupt-object", SEEN: None}
    deleted(dataset)


@pytest.mark.parametrize(
    ("scope", "method", "path", "status"),
    [
        ("read", "GET", "history", 500),
        ("read", "GET", "refs/head", 500),
        ("write", "PUT", f"data/{ABSENT}", 500),
        ("create", "PUT", f"data/{ABSENT}", 409),  # as for an unused name
    ],
)
def test_a_damaged_dataset_is_named_to_who_may_read_or_change_it(
    server: DatasetServer,
    hidden: Mapping[str, Hidden],
    scope: str,
    method: str,
    path: str,
    status: int,
) -> None:
    headers = {"authorization": f"Bearer {server.token(scope)}"}
    for state in ("head-of-rubbish", "name-of-rubbish"):
        url = f"{server.url}{hidden[state].name}/{path}"
        answer = httpx.request(method, url, headers=headers, content=b"")
        assert answer.status_code == status, (state, answer.text)
        assert ("corrupt-" in answer.text) == (status == 500)
