"""Datasets behind a web server that answers as it is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.odf.identity import sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.download import download_file
from odfbuild.repositories.protocol import ObjectFile
from odfbuild.repositories.transports.http import HttpRepository, dataset_at
from odfbuild.repositories.transports.ipfs import gateway_url
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    UnreachableRepositoryError,
)
from tests.support.servers.http import Page, Server, serving

DATA = bytes(range(256)) * 400
FILE = ObjectFile("data", sha3_256(DATA), len(DATA))
HEAD = sha3_256(b"head")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def room(tmp_path: Path) -> Path:
    for kind in ("data", "checkpoints"):
        (tmp_path / kind).mkdir()
    return tmp_path


def fetch(server: Server, room: Path, file: ObjectFile = FILE) -> list[int]:
    moved: list[int] = []
    download_file(dataset_at(f"{server.url}/"), file, room, moved.append)
    return moved


def path_of(file: ObjectFile) -> str:
    return f"/{file.kind}/{file.hash}"


def test_a_head_that_is_known_is_asked_for_by_its_tag(server: Server) -> None:
    server.put_file("/refs/head", str(HEAD).encode(), changed=1.0)
    source = dataset_at(f"{server.url}/")
    assert source.head() == source.head() == HEAD
    assert "if-none-match" in server.asked[-1].headers


def test_what_is_not_there_is_none(server: Server) -> None:
    source = dataset_at(f"{server.url}/")
    assert source.head() is None
    assert source.attestation(HEAD) is None


def test_a_file_goes_on_where_it_broke_off(server: Server, room: Path) -> None:
    server.put(
        path_of(FILE), Page(body=DATA, ranges=True, cut=70_000), Page(body=DATA, ranges=True)
    )
    moved = fetch(server, room)
    assert (room / "data" / str(FILE.hash)).read_bytes() == DATA
    assert sum(moved) == len(DATA)
    assert server.asked[-1].headers.get("range", "").startswith("bytes=")


def test_what_an_earlier_attempt_left_is_hashed_again(server: Server, room: Path) -> None:
    (room / "data" / str(FILE.hash)).write_bytes(b"x" * 1000)
    server.put(path_of(FILE), Page(body=DATA, ranges=True))
    assert sum(fetch(server, room)) == len(DATA)
    assert (room / "data" / str(FILE.hash)).read_bytes() == DATA


def test_a_server_without_ranges_is_asked_from_the_beginning(server: Server, room: Path) -> None:
    (room / "data" / str(FILE.hash)).write_bytes(DATA[:500])
    server.put(path_of(FILE), Page(body=DATA))
    fetch(server, room)
    assert (room / "data" / str(FILE.hash)).read_bytes() == DATA


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"y" * len(DATA), "with bytes of another hash"),
        (DATA + b"more", "returned more bytes"),
        (DATA[:100], "returned 100 bytes"),
        (b"", "returned 0 bytes"),
    ],
)
def test_other_bytes_more_and_fewer_are_refused(
    server: Server, room: Path, body: bytes, says: str
) -> None:
    server.put(path_of(FILE), Page(body=body))
    with pytest.raises(BrokenSourceError, match=says):
        fetch(server, room)


def test_an_error_page_is_never_taken_for_a_file(server: Server, room: Path) -> None:
    server.put(path_of(FILE), Page(status=500, body=DATA))
    with pytest.raises(UnreachableRepositoryError, match="answers 500"):
        fetch(server, room)
    with pytest.raises(BrokenSourceError, match="is missing"):
        fetch(server, room, ObjectFile("data", HEAD, 1))


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_read_is_told_so(server: Server, status: int) -> None:
    server.put("/refs/head", Page(status=status, body=b"the secret of the server"))
    with pytest.raises(RefusedByRepositoryError) as caught:
        dataset_at(f"{server.url}/", "t0ken").head()
    assert "t0ken" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"


@pytest.mark.holds("server-token")
def test_a_token_goes_to_its_server_and_to_no_other(server: Server) -> None:
    with serving() as other:
        other.put("/refs/head", Page(body=str(HEAD).encode()))
        server.put("/refs/head", Page(status=302, headers={"Location": f"{other.url}/refs/head"}))
        assert dataset_at(f"{server.url}/", "t0ken").head() == HEAD
        assert server.asked[0].headers["authorization"] == "Bearer t0ken"
        assert "authorization" not in other.asked[0].headers


def test_redirects_end(server: Server) -> None:
    server.put("/refs/head", Page(status=302, headers={"Location": "/refs/head"}))
    with pytest.raises(UnreachableRepositoryError, match="redirects more than 5 times"):
        dataset_at(f"{server.url}/").head()
    server.put("/refs/other", Page(status=302, headers={"Location": "file:///etc/passwd"}))
    with pytest.raises(UnreachableRepositoryError, match="redirects from http to file"):
        dataset_at(f"{server.url}/").head("other")


def test_a_head_without_end_is_not_read_to_its_end(server: Server) -> None:
    server.put("/refs/head", Page(body=b"f" * 10_000))
    with pytest.raises(UnreachableRepositoryError, match="more than 256 bytes"):
        dataset_at(f"{server.url}/").head()


def test_a_server_that_is_not_there_is_said_to_be(server: Server) -> None:
    with pytest.raises(UnreachableRepositoryError):
        dataset_at("http://127.0.0.1:9/").head()


def test_a_web_server_does_not_say_what_it_has(server: Server) -> None:
    repository = HttpRepository(f"{server.url}/")
    with pytest.raises(UnreachableRepositoryError, match="does not say which datasets"):
        repository.names()
    server.put("/acme/x/refs/head", Page(body=str(HEAD).encode()))
    assert repository.dataset(DatasetAlias("acme", "x")).head() == HEAD


@pytest.mark.parametrize(
    ("url", "gateway", "found"),
    [
        ("ipfs://bafy/x/", None, "http://127.0.0.1:8080/ipfs/bafy/x/"),
        (
            "ipns://data.example.org/",
            "https://gw.example",
            "https://gw.example/ipns/data.example.org/",
        ),
        ("ipfs+https://gw.example/ipfs/bafy/", None, "https://gw.example/ipfs/bafy/"),
        ("ipns+http://gw.example/ipns/k51/x/", "http://other", "http://gw.example/ipns/k51/x/"),
    ],
)
def test_ipfs_is_read_through_a_gateway(url: str, gateway: str | None, found: str) -> None:
    assert gateway_url(url, gateway) == found
