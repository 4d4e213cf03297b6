"""What a server answers over HTTP, and to whom: statuses, caching, parts of files."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.catalogue import entry_of, read_index
from odfbuild.repositories.signatures.signing import find_signing_key, sign_move
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import VERSION_HEADER, Visibility
from odfbuild.repositories.transports.odf_server import OdfServer
from odfbuild.serve.tokens import TokenFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import RefusedByRepositoryError, UnreachableRepositoryError
from odfbuild.state.workspace import Workspace
from tests.repositories.signatures.signing import day
from tests.serve.copies import content, grow, made, pulled, push, update_of
from tests.support.effort import examples
from tests.support.servers.datasets import DatasetServer, serving_datasets

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
VERSION = {VERSION_HEADER: "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    with serving_datasets(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def dataset(server: DatasetServer) -> Dataset:
    return made(server.workspace, "rates", 2)


@pytest.fixture(scope="module")
def token(server: DatasetServer) -> str:
    return server.token("read", "write", "create")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def reader(server: DatasetServer, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=bearer(token)) as found:
        yield found


def test_every_file_is_served_with_its_own_bytes(reader: httpx.Client, dataset: Dataset) -> None:
    for path, data in content(dataset).items():
        answer = reader.get(f"rates/{path}")
        assert (answer.status_code, answer.content) == (200, data), path
        assert answer.headers["content-length"] == str(len(data))
        head = reader.head(f"rates/{path}")
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(data)))


def test_what_a_hash_names_is_kept_and_a_reference_is_asked_for_anew(
    reader: httpx.Client, dataset: Dataset
) -> None:
    for path in content(dataset):
        answer = reader.get(f"rates/{path}")
        tag = answer.headers["etag"]
        again = reader.get(f"rates/{path}", headers={"if-none-match": f'"x", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        is_ref = path.startswith("refs/")
        assert ("immutable" in answer.headers["cache-control"]) != is_ref
        assert tag.strip('"') == (answer.text if is_ref else path.rpartition("/")[2])


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=5-", 5, None),
        ("bytes=-7", -7, None),
        ("bytes=3-99999999", 3, None),
        ("bytes=0-0", 0, 1),
        ("bytes=-99999999", 0, None),
    ],
)
def test_a_part_of_a_file_is_served(
    reader: httpx.Client, dataset: Dataset, asked: str, start: int, end: int | None
) -> None:
    path, data = next((k, v) for k, v in content(dataset).items() if k.startswith("data/"))
    answer = reader.get(f"rates/{path}", headers={"range": asked})
    assert (answer.status_code, answer.content) == (206, data[start:end])
    first = start % len(data) if start < 0 else start
    assert answer.headers["content-range"] == (
        f"bytes {first}-{first + len(answer.content) - 1}/{len(data)}"
    )


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0", "bytes=5-4"])
def test_a_part_that_is_not_there_is_416(
    reader: httpx.Client, dataset: Dataset, asked: str
) -> None:
    path = next(each for each in content(dataset) if each.startswith("data/"))
    assert reader.get(f"rates/{path}", headers={"range": asked}).status_code == 416


@pytest.mark.parametrize(
    "headers",
    [
        {"range": "bytes=0-1,3-4"},
        {"range": "lines=1-2"},
        {"range": f"bytes={'9' * 30}-"},
        {"range": "bytes=0-9", "if-range": '"other"'},
    ],
    ids=str,
)
def test_a_part_that_is_not_understood_is_all_of_it(
    reader: httpx.Client, dataset: Dataset, headers: dict[str, str]
) -> None:
    path, data = next((k, v) for k, v in content(dataset).items() if k.startswith("data/"))
    answer = reader.get(f"rates/{path}", headers=headers)
    assert (answer.status_code, answer.content) == (200, data)


@pytest.mark.holds("serving-files")
@pytest.mark.parametrize(
    "path",
    [
        "rates/refs/other",
        "rates/refs/..%2Fhead",
        "rates/blocks/head",
        "rates/blocks/..%2Frefs%2Fhead",
        "rates/data/%2e%2e%2frefs%2fhead",
        "rates/blocks/f1620" + "00" * 32,
        "rates/keys/f1620" + "00" * 32,
        "rates/info/config",
        "..%2Fkeys/refs/head",
        "..%2F..%2Fetc/data/passwd",
        "names/rates",
        "other/refs/head",
        "rates/attestations/f1620" + "00" * 32,
        "rates/attestations/delegations",
        "datasets/did:odf:fed01" + "00" * 32,
        "datasets/x",
        ".odfbuild/",
        ".odfbuild/start.js",
        "index.sqlite",
        "team/rates/refs/head",
    ],
)
def test_nothing_else_is_served(reader: httpx.Client, dataset: Dataset, path: str) -> None:
    answer = reader.get(path)
    assert answer.status_code == 404, answer.text


@pytest.mark.holds("serving-files")
def test_a_link_in_the_place_of_an_object_is_not_followed(
    reader: httpx.Client, server: DatasetServer, tmp_path: Path
) -> None:
    dataset = made(server.workspace, "linked", 1)
    path = next(each for each in content(dataset) if each.startswith("data/"))
    file = server.folder / "datasets" / dataset.id.multibase / path
    aside = tmp_path / "aside"
    file.rename(aside)
    file.symlink_to(aside)
    assert reader.get(f"linked/{path}").status_code == 404


def test_a_server_says_how_many_tenants_it_has(server: DatasetServer) -> None:
    assert httpx.get(f"{server.url}info").json() == {"isMultiTenant": False}


def test_a_dataset_is_found_by_its_id(reader: httpx.Client, dataset: Dataset) -> None:
    found = reader.get(f"datasets/{dataset.id}").json()
    assert (found["id"], found["datasetName"]) == (str(dataset.id), "rates")
    assert set(found["owner"]) == {"accountName", "accountId"}


def test_the_index_lists_what_may_be_read(
    reader: httpx.Client, server: DatasetServer, dataset: Dataset, token: str
) -> None:
    grown = made(server.workspace, "grown", 1)
    repository = mock.Mock(spec=OdfServer, get=lambda path, _: reader.get(path).content)
    for _ in range(2):
        grow(server.workspace, grown, 1)
        found = read_index(repository)
        for each in (dataset, grown):
            name = DatasetAlias.parse("rates" if each is dataset else "grown")
            head = each.head()
            assert head is not None
            source = SmartDataset(server.of(str(name)), token=token)
            assert found[name] == entry_of(source.blocks(head, None), name, head, "")
            source.close()
    narrow = server.token("read", datasets="nothing.*")
    empty = httpx.get(f"{server.url}.odfbuild/index.json", headers=bearer(narrow))
    assert empty.json()["datasets"] == []


# who may do what


@pytest.mark.holds("serving-readers")
@pytest.mark.parametrize("path", ["rates/refs/head", "other/refs/head", "accounts/me"])
def test_nobody_reads_without_a_token(server: DatasetServer, dataset: Dataset, path: str) -> None:
    answer = httpx.get(server.url + path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.holds("serving-readers")
@pytest.mark.parametrize(
    "given", ["Bearer odfb_wrong", "Basic YTpi", "Bearer", "odfb_x", "bearer x y"]
)
def test_a_token_that_is_not_good_is_401(
    server: DatasetServer, dataset: Dataset, given: str
) -> None:
    headers = {"authorization": given}
    assert httpx.get(f"{server.url}rates/refs/head", headers=headers).status_code == 401


@pytest.mark.holds("serving-readers")
def test_a_dataset_that_a_token_does_not_name_is_404(
    server: DatasetServer, dataset: Dataset
) -> None:
    headers = bearer(server.token("read", datasets="other.*"))
    assert httpx.get(f"{server.url}rates/refs/head", headers=headers).status_code == 404


STATUSES = {
    "a pull without a token": ("rates/pull", None, VERSION, 401),
    "a push without a token": ("rates/push", None, VERSION, 401),
    "a push of a reader": ("rates/push", ("read",), VERSION, 403),
    "a push of who cannot read it": ("rates/push", ("create",), VERSION, 404),
    "a new dataset of who cannot create": ("new/push", ("read", "write"), VERSION, 403),
    "a pull of what is not there": ("new/pull", ("read",), VERSION, 404),
    "a pull without a version": ("rates/pull", ("read",), {}, 400),
    "a pull of another version": ("rates/pull", ("read",), {VERSION_HEADER: "2"}, 400),
    "a pull of no version": ("rates/pull", ("read",), {VERSION_HEADER: "x"}, 400),
    "a pull": ("rates/pull", ("read",), VERSION, 101),
}


@pytest.mark.holds("serving-writers")
@pytest.mark.parametrize(("path", "scopes", "more", "status"), STATUSES.values(), ids=STATUSES)
def test_a_transfer_is_refused_with_a_status(
    server: DatasetServer,
    dataset: Dataset,
    path: str,
    scopes: tuple[str, ...] | None,
    more: dict[str, str],
    status: int,
) -> None:
    headers = {**UPGRADE, **more, **({} if scopes is None else bearer(server.token(*scopes)))}
    assert upgraded(server, path, headers).startswith(f"HTTP/1.1 {status} ")


def upgraded(server: DatasetServer, path: str, headers: dict[str, str]) -> str:
    """Ask for a WebSocket; return the beginning of the answer."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as opened:
        lines = [f"GET /{path} HTTP/1.1", f"host: {url.host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        opened.sendall("\r\n".join([*lines, "", ""]).encode())
        return opened.recv(4_096).decode()


def test_a_client_hears_why_it_is_refused(
    server: DatasetServer, dataset: Dataset, tmp_path: Path
) -> None:
    nobody = SmartDataset(server.of("rates"))
    with pytest.raises(RefusedByRepositoryError, match=r"\(401\): A token is needed\.$"):
        nobody.head()
    head = dataset.head()
    assert head is not None
    with pytest.raises(RefusedByRepositoryError, match="401"):
        list(nobody.blocks(head, None))
    narrow = SmartDataset(server.of("rates"), token=server.token("write", datasets="other"))
    assert narrow.head() is None
    with pytest.raises(UnreachableRepositoryError, match="404"):
        list(narrow.blocks(head, None))
    nobody.close()
    narrow.close()


@pytest.mark.holds("serving-writers")
def test_a_file_is_taken_only_while_a_push_waits_for_it(
    server: DatasetServer, dataset: Dataset, token: str
) -> None:
    path = next(each for each in content(dataset) if each.startswith("data/"))
    for name in ("rates", "new"):
        answer = httpx.put(f"{server.url}{name}/{path}", content=b"x", headers=bearer(token))
        assert answer.status_code == 409
    assert httpx.put(f"{server.url}rates/{path}", content=b"x").status_code == 401
    block = next(each for each in content(dataset) if each.startswith("blocks/"))
    answer = httpx.put(f"{server.url}rates/{block}", content=b"x", headers=bearer(token))
    assert answer.status_code == 405


def head_of(dataset: Dataset) -> Multihash:
    head = dataset.head()
    assert head is not None
    return head


def test_an_attestation_that_holds_is_taken_for_a_block_of_the_chain_if_it_is_no_older(
    server: DatasetServer, dataset: Dataset, token: str
) -> None:
    url = f"{server.url}rates/attestations/"
    reads = bearer(server.token("read"))
    assert httpx.put(f"{url}{dataset.head()}", content=b"{}").status_code == 401
    assert httpx.put(f"{url}{dataset.head()}", content=b"{}", headers=reads).status_code == 403
    may = bearer(token)
    assert httpx.put(f"{url}f1620{'00' * 32}", content=b"{}", headers=may).status_code == 409
    assert httpx.put(f"{url}delegations", content=b"{}", headers=may).status_code == 400
    large = b" " * ((1 << 20) + 1)
    assert httpx.put(f"{url}{dataset.head()}", content=large, headers=may).status_code == 413
    key = find_signing_key(server.workspace.keys, dataset, day(0))
    envelopes = [sign_move(dataset, key, day(number), None) for number in (2, 1)]
    dataset.stores.attestations.path(head_of(dataset)).unlink()
    other = made(server.workspace, "other", 2)
    stranger = sign_move(
        other, find_signing_key(server.workspace.keys, other, day(0)), day(3), None
    )
    kept = None
    for sent in (b"{1}", *envelopes, b"", stranger, envelopes[0].replace(b'"sig":"', b'"sig":"A')):
        is_good = sent in envelopes
        answer = httpx.put(f"{url}{dataset.head()}", content=sent, headers=may)
        assert answer.status_code == (201 if is_good else 400)
        kept = kept or (sent if is_good else None)
        assert dataset.stores.attestations.get(head_of(dataset)) == kept
    assert httpx.get(f"{url}{dataset.head()}", headers=may).content == envelopes[0]


# anonymous readers, several tenants


@pytest.mark.holds("serving-readers")
def test_anybody_reads_what_is_not_private_when_asked_for(tmp_path: Path) -> None:
    here = Workspace(tmp_path / "here")
    with serving_datasets(tmp_path / "server", "--anonymous-read") as server:
        own = made(server.workspace, "own", 1)
        token = server.token("read", "write", "create")
        for visibility in Visibility:
            name = visibility.value.lower()
            client = SmartDataset(server.of(name), token=token, visibility=visibility)
            push(made(here, name, 1), client)
            client.close()
        for name, seen in (("own", True), ("public", True), ("private", False)):
            anybody = SmartDataset(server.of(name))
            assert (anybody.head() is not None) == seen
            anybody.close()
        listed = httpx.get(f"{server.url}.odfbuild/index.json").json()["datasets"]
        assert {each["alias"] for each in listed} == {"own", "public"}
        anybody = SmartDataset(server.of("own"))
        assert content(pulled(anybody, here, "own")) == content(own)
        grow(here, here.dataset(own.id), 1)
        with pytest.raises(RefusedByRepositoryError, match="401"):
            anybody.push(update_of(here.dataset(own.id), anybody), lambda _: None)
        anybody.close()


@pytest.mark.holds("serving-writers")
def test_tenants_write_their_own_datasets_only(tmp_path: Path) -> None:
    here = Workspace(tmp_path / "here")
    with serving_datasets(tmp_path / "server", "--multi-tenant") as server:
        made(server.workspace, "nobody", 1)
        alice = server.token("read", "write", "create", account="alice")
        bob = server.token("read", "write", "create", account="bob")
        dataset = made(here, "alice/rates", 1)
        for who, status in ((bob, "403"), (alice, None)):
            client = SmartDataset(server.of("alice/rates"), token=who)
            if status is None:
                push(dataset, client)
            else:
                with pytest.raises(RefusedByRepositoryError, match=status):
                    push(dataset, client)
            client.close()
        assert server.workspace.names()[DatasetAlias("alice", "rates")] == dataset.id
        assert httpx.get(f"{server.url}info").json() == {"isMultiTenant": True}
        me = httpx.get(f"{server.url}accounts/me", headers=bearer(alice)).json()
        assert me["accountName"] == "alice"
        found = httpx.get(f"{server.url}datasets/{dataset.id}", headers=bearer(bob)).json()
        assert found["owner"]["accountName"] == "alice"
        answer = httpx.get(f"{server.url}nobody/refs/head", headers=bearer(alice))
        assert answer.status_code == 404


# the process


@pytest.mark.holds("serving-tokens")
def test_a_server_ends_in_order_on_a_signal(tmp_path: Path) -> None:
    with serving_datasets(tmp_path) as server:
        made(server.workspace, "rates", 1)
        headers = bearer(server.token("read"))
        httpx.get(f"{server.url}rates/refs/head?secret=x", headers=headers)
        assert server.stop() == 0
    log = (tmp_path / "log").read_text()
    assert '127.0.0.1 test "GET /rates/refs/head" 200' in log
    assert "secret" not in log
    assert "Traceback" not in log


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from odfbuild.cli.main import program; program()"),
                *("serve", "--port", str(taken.getsockname()[1]), "--workspace", str(tmp_path)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "unusable-port" in done.stderr


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path: Path) -> None:
    program = "import sys; sys.modules['uvicorn'] = None; from odfbuild.cli.main import program; "
    done = subprocess.run(
        [sys.executable, "-c", f"{program}program()", "serve", "--workspace", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "missing-extra" in done.stderr
    assert "odfbuild[serve]" in done.stderr


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("0.0.0.0", True)])  # noqa: S104
def test_a_server_that_others_reach_without_tls_warns(
    tmp_path: Path, host: str, warns: bool
) -> None:
    with serving_datasets(tmp_path, "--host", host) as server:
        assert server.url.startswith("http")
    assert ("no-tls" in (tmp_path / "log").read_text()) == warns


# names that come from outside

_PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "refs", "head", "%2e%2e", "nul", "a" * 255]),
    st.integers(1, 400).map(lambda length: "a" * length),
    st.text("aB-./%~\\\0\n\x7fé", max_size=300),
)


@settings(deadline=None, max_examples=examples(15, 500))
@given(parts=st.lists(_PARTS, min_size=1, max_size=3), method=st.sampled_from(["GET", "PUT"]))
def test_a_path_of_any_text_is_answered_and_is_no_fault_of_the_server(
    server: DatasetServer, narrow: str, parts: list[str], method: str
) -> None:
    path = "/".join(quote(each, safe="") for each in parts)
    hash = Multihash.parse("f1620" + 64 * "0")
    with httpx.Client(base_url=server.url, headers={**bearer(narrow), **VERSION}) as client:
        for end in ("", "refs/head", f"data/{hash}"):
            found = client.request(method, f"{path}/{end}", content=b"x")
            assert found.status_code < 500, found.text
    for end in ("pull", "push"):  # of datasets that are not there, and cannot be made
        headers = {**bearer(narrow), **VERSION, **UPGRADE}
        found = httpx.get(f"{server.url}{path}/{end}", headers=headers)
        assert 400 <= found.status_code < 500, found.text


@pytest.fixture(scope="module")
def narrow(server: DatasetServer) -> str:
    return server.token("read", "write")


WORDS = (
    *("datasets", "system", "runs", "status", "health", "info", "query", "verify", "accounts"),
    *("me", "tail", "metadata", "history", "refs", "head", "blocks", "data", "pull", "push"),
)


@pytest.mark.parametrize("options", [(), ("--multi-tenant",)], ids=["one", "several"])
def test_datasets_may_be_named_like_any_word_of_a_route(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    accounts = ("datasets", "system", "accounts") if options else (None,)
    names = [str(DatasetAlias(account, name)) for account in accounts for name in WORDS]
    with serving_datasets(tmp_path, *options) as server:
        datasets = {name: made(server.workspace, name) for name in names}
        headers = bearer(server.token("read"))
        with httpx.Client(base_url=server.url, headers=headers) as client:
            for name, dataset in datasets.items():
                head, id = str(dataset.head()), str(dataset.id)
                assert client.get(f"{name}/refs/head").text == head
                assert client.get(f"{name}/blocks/{head}").status_code == 200
                assert client.get(f"{name}/history").json()["blocks"][0]["hash"] == head
                seed = client.get(f"{name}/metadata").json()["output"]["seed"]
                assert seed["datasetId"] == id
                assert "limit" in client.get(f"{name}/tail?limit=x").json()["message"]
                assert client.get(f"datasets/{id}").json()["datasetName"] == dataset_name(name)
            for path in ("info", "system/health", "system/status", "system/runs"):
                assert client.get(path).status_code == 200
            assert client.get("system/runs/none").text == "There is no such run.\n"


def dataset_name(name: str) -> str:
    return DatasetAlias.parse(name).name


def test_a_token_that_is_revoked_ends_a_transfer_before_its_next_piece(tmp_path: Path) -> None:
    size = 64 << 20
    with serving_datasets(tmp_path) as server:
        dataset = made(server.workspace, "long")
        hash = Multihash.parse(f"f1620{'ab' * 32}")
        with dataset.stores.data.path(hash).open("wb") as file:
            file.truncate(size)
        token, other = server.token("read"), server.token("read")
        with httpx.stream("GET", f"{server.url}long/data/{hash}", headers=bearer(token)) as answer:
            assert answer.headers["content-length"] == str(size)
            pieces = answer.iter_raw(1 << 16)
            got = len(next(pieces))
            TokenFile(server.tokens).revoke(sha256(token.encode()).hexdigest()[:12])
            with pytest.raises(httpx.RemoteProtocolError):
                got += sum(map(len, pieces))
        assert got < size // 2
        again = httpx.get(f"{server.url}long/data/{hash}", headers=bearer(token))
        assert again.status_code == 401
        rest = httpx.get(f"{server.url}long/data/{hash}", headers=bearer(other))
        assert len(rest.content) == size
    assert "Traceback" not in (tmp_path / "log").read_text()
