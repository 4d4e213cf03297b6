"""A server that means harm: whatever it sends, the client ends with an error of its own name."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.client import connect
from websockets.sync.server import Server, ServerConnection, serve
from websockets.utils import accept_key

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.repositories.protocol import ObjectFile, RangeRefusedError, SeedOverwriteError
from odfbuild.repositories.smart import client as client_module
from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.archive import UnsafeArchiveError, pack
from odfbuild.repositories.smart.client import SmartDataset, TransferPatience
from odfbuild.repositories.smart.messages import MalformedMessageError, encode
from odfbuild.repositories.smart.refusals import (
    DivergedIntervalError,
    NameCollisionError,
    RefCollisionError,
    RemoteFailureError,
    TransferTimeoutError,
    UncertainHeadError,
)
from odfbuild.repositories.smart.server_files import UnsafeUrlError
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.chain.objects import CorruptObjectError
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    UnreachableRepositoryError,
)
from odfbuild.state.workspace import Workspace
from tests.repositories.smart.test_archive import bomb, tar
from tests.serve.copies import made, pulled, update_of

PATIENCE = TransferPatience(connection=60, message=60, completion=60)
HURRY = TransferPatience(connection=60, message=0.5, completion=0.5)
Talk = Callable[[ServerConnection], None]
HASH = sha3_256(b"x")


class Scripted:
    """A server that follows a script on its WebSockets, and answers HTTP from a mapping."""

    def __init__(self) -> None:
        self.talk: Talk = lambda _: None
        self.files: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._server: Server = serve(
            self._talk,
            "127.0.0.1",
            0,
            process_request=self._http,
            compression=None,
            max_size=None,
            close_timeout=1,
        )
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}/rates/"

    def _talk(self, connection: ServerConnection) -> None:
        with suppress(Exception):
            self.talk(connection)

    def _http(self, _: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("upgrade"):
            return None
        path = request.path.removeprefix("/rates/")
        self.asked.append((path, dict(request.headers.raw_items())))
        status, body = self.files.get(path, (404, b"not here"))
        headers = Headers({"content-length": str(len(body)), "connection": "close"})
        return Response(status, "X", headers, body)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.close()


@pytest.fixture
def client(server: Scripted) -> Iterator[SmartDataset]:
    found = SmartDataset(f"odf+{server.url}", token="secret", patience=PATIENCE)
    yield found
    found.close()


@pytest.fixture
def hurried(server: Scripted) -> Iterator[SmartDataset]:
    """Return a client that soon gives a silent server up."""
    found = SmartDataset(f"odf+{server.url}", token="secret", patience=HURRY)
    yield found
    found.close()


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "here")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Return what an honest server would have."""
    return made(Workspace(tmp_path / "there"), "rates", 1)


def blocks_of(dataset: Dataset) -> list[tuple[Multihash, bytes]]:
    return [(hash, dataset.stores.blocks.get(hash)) for hash, _ in dataset.blocks()]


def plan(count: int) -> m.TransferPlan:
    return m.TransferPlan(
        num_blocks=m.U32(count),
        num_objects=m.U32(0),
        num_records=m.U64(0),
        bytes_in_raw_blocks=m.U64(1),
        bytes_in_raw_objects=m.U64(1),
    )


def gives(payload: bytes, count: int, *, planned: int | None = None, **more: str) -> Talk:
    """Return the script of a pull that gives an archive, and then nothing."""

    def talk(opened: ServerConnection) -> None:
        opened.recv(60)
        opened.send(encode(m.PullPlan(plan(count if planned is None else planned))))
        opened.recv(60)
        batch = m.MetadataBlocksBatch(num_blocks=m.U32(count), payload=payload, **more)
        opened.send(encode(m.PullBlocks(batch)))
        opened.recv(60)

    return talk


def says(*texts: str | bytes) -> Talk:
    """Return a script that answers each message with a text, and then waits."""

    def talk(opened: ServerConnection) -> None:
        for text in texts:
            opened.recv(60)
            opened.send(text)
        while True:
            opened.recv(60)

    return talk


def closes(code: int, reason: str) -> Talk:
    def talk(opened: ServerConnection) -> None:
        opened.recv(60)
        opened.close(code, reason)

    return talk


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


PULLS: dict[str, tuple[Callable[[list[tuple[Multihash, bytes]]], Talk], type[OdfBuildError]]] = {
    "names with dots": (lambda b: gives(tar((f"../{b[0][0]}", b"x")), 1), UnsafeArchiveError),
    "a bomb": (lambda b: gives(bomb(1 << 30), 1), UnsafeArchiveError),
    "more than announced": (lambda b: gives(pack(b), 1), UnsafeArchiveError),
    "fewer than announced": (lambda b: gives(pack(b), 9), UnsafeArchiveError),
    "another number than planned": (
        lambda b: gives(pack(b), len(b), planned=7),
        BrokenSourceError,
    ),
    "another encoding": (lambda b: gives(pack(b), len(b), encoding="x"), BrokenSourceError),
    "wrong hashes": (lambda b: gives(pack([(b[0][0], changed(b[0][1]))]), 1), CorruptObjectError),
    "another chain": (lambda b: gives(pack(b[:1]), 1), BrokenSourceError),
    "a chain with a gap": (lambda b: gives(pack([b[0], b[-1]]), 2), BrokenSourceError),
    "a chain turned round": (lambda b: gives(pack(b[::-1]), len(b)), BrokenSourceError),
    "no block": (lambda b: says(encode(m.PullPlan(plan(0)))), BrokenSourceError),
    "no JSON": (lambda b: says("x"), MalformedMessageError),
    "another message": (lambda b: says('{"Ok":{}}'), MalformedMessageError),
    "a form without end": (lambda b: says('{"a":[' + "[]," * 8_000_000), MalformedMessageError),
    "a close at once": (lambda b: closes(1000, ""), UnreachableRepositoryError),
    "a late failure": (
        lambda b: closes(1011, encode(m.TransferFailed(error_message="no disk"))),
        RemoteFailureError,
    ),
    "a failure that is cut off": (
        lambda b: closes(1011, '{"Err":{"Internal":{"error_mess'),
        RemoteFailureError,
    ),
    "a failure": (
        lambda b: says(encode(m.TransferFailed(error_message="no disk"))),
        RemoteFailureError,
    ),
    "a failure that nobody knows": (
        lambda b: says('{"Err":{"Quota":{"left":0}}}'),
        RemoteFailureError,
    ),
    "another seed": (lambda b: says(encode(m.SeedBlockOverwriteRestricted())), RemoteFailureError),
    "no interval": (lambda b: says(encode(m.InvalidInterval(HASH, HASH))), DivergedIntervalError),
    "bytes": (
        lambda b: says(b"{}"),
        MalformedMessageError,
    ),
}


@pytest.mark.holds("serving-clients")
@pytest.mark.parametrize(("make", "error"), PULLS.values(), ids=PULLS)
def test_a_pull_from_a_hostile_server_ends_with_its_error(
    server: Scripted,
    client: SmartDataset,
    dataset: Dataset,
    here: Workspace,
    make: Callable[[list[tuple[Multihash, bytes]]], Talk],
    error: type[OdfBuildError],
) -> None:
    server.files["refs/head"] = (200, str(dataset.head()).encode())
    server.talk = make(blocks_of(dataset))
    with pytest.raises((error, BrokenSourceError)) as caught:
        pulled(client, here, "rates")
    assert isinstance(caught.value, error) or error is CorruptObjectError
    assert "secret" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"
    assert not here.heads()
    assert [*(here.root / "staging").iterdir()] == []


@pytest.mark.holds("serving-clients")
def test_a_huge_frame_is_not_taken(
    server: Scripted, client: SmartDataset, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odfbuild.repositories.smart.client.LARGEST_FRAME", 1 << 20)
    server.talk = says(" " * (2 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BrokenSourceError, match="an invalid message"):
            list(client.blocks(HASH, None))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_server_of_2024_is_asked_for_all_where_the_chains_diverged(
    server: Scripted, client: SmartDataset, dataset: Dataset
) -> None:
    """It ignores that all blocks are asked for by force."""
    blocks = blocks_of(dataset)
    asked: list[m.PullRequest] = []

    def talk(opened: ServerConnection) -> None:
        request = m.decode(m.PullRequest, opened.recv(60))
        asked.append(request)
        if request.begin_after is not None:
            opened.send(encode(m.InvalidInterval(blocks[-1][0], request.begin_after)))
            return
        opened.send(encode(m.PullPlan(plan(len(blocks)))))
        opened.recv(60)
        batch = m.MetadataBlocksBatch(num_blocks=m.U32(len(blocks)), payload=pack(blocks))
        opened.send(encode(m.PullBlocks(batch)))

    server.talk = talk
    assert list(client.blocks(blocks[-1][0], HASH)) == blocks[::-1]
    assert [each.begin_after for each in asked] == [HASH, None]


# heads and files


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"no hash", BrokenSourceError),
        (200, b"\xff\xfe", BrokenSourceError),
        (200, b"f" * 10_000, BrokenSourceError),
        (302, b"", UnreachableRepositoryError),
        (401, b"who?", RefusedByRepositoryError),
        (403, b"no", RefusedByRepositoryError),
        (500, b"oh", UnreachableRepositoryError),
    ],
)
def test_a_head_that_is_none_is_an_error(
    server: Scripted,
    client: SmartDataset,
    status: int,
    body: bytes,
    error: type[OdfBuildError],
) -> None:
    server.files["refs/head"] = (status, body)
    with pytest.raises(error) as refused:
        client.head()
    if error is RefusedByRepositoryError:  # none was sent
        assert "no token was sent, or" in refused.value.why


def test_the_body_of_a_refusal_is_never_taken_for_a_file(
    server: Scripted, client: SmartDataset
) -> None:
    file = ObjectFile("data", HASH, 10)
    for status, error in (
        (500, UnreachableRepositoryError),
        (404, BrokenSourceError),
        (302, UnreachableRepositoryError),
        (403, RefusedByRepositoryError),
    ):
        server.files[f"data/{HASH}"] = (status, b"0123456789")
        with pytest.raises(error), client.read(file, 0) as pieces:
            list(pieces)
    server.files[f"data/{HASH}"] = (200, b"0123456789")
    with pytest.raises(RangeRefusedError), client.read(file, 5) as pieces:
        list(pieces)
    server.files[f"data/{HASH}"] = (206, b"56789")
    with pytest.raises(RangeRefusedError), client.read(file, 5) as pieces:
        list(pieces)


def places(*urls: m.TransferUrl) -> str:
    reference = m.ObjectFileReference(
        object_type=m.ObjectType.DATA_SLICE, physical_hash=HASH, size=m.U64(10)
    )
    strategies = (m.PullStrategy(object_file=reference, download_from=each) for each in urls)
    return encode(m.PullObjects(tuple(strategies)))


@contextmanager
def asked(
    server: Scripted, client: SmartDataset, dataset: Dataset, answer: str
) -> Iterator[ObjectFile]:
    """Pull blocks, and ask where a file is."""
    blocks = blocks_of(dataset)

    def talk(opened: ServerConnection) -> None:
        opened.recv(60)
        opened.send(encode(m.PullPlan(plan(len(blocks)))))
        opened.recv(60)
        batch = m.MetadataBlocksBatch(num_blocks=m.U32(len(blocks)), payload=pack(blocks))
        opened.send(encode(m.PullBlocks(batch)))
        opened.recv(60)
        opened.send(answer)

    server.talk = talk
    list(client.blocks(blocks[-1][0], None))
    file = ObjectFile("data", HASH, 10)
    client.expect([file])
    yield file


@pytest.mark.holds("serving-clients")
def test_a_file_is_read_where_the_server_says_with_its_headers_alone(
    server: Scripted, client: SmartDataset, dataset: Dataset
) -> None:
    where = m.TransferUrl(
        url=f"{server.url}elsewhere?signature=1", headers=(m.HeaderRow("x-own", "1"),)
    )
    server.files["elsewhere?signature=1"] = (200, b"0123456789")
    with asked(server, client, dataset, places(where)) as file, client.read(file, 0) as pieces:
        assert b"".join(pieces) == b"0123456789"
    path, headers = server.asked[-1]
    assert path == "elsewhere?signature=1"
    given = {name.lower(): value for name, value in headers.items()}
    assert given["x-own"] == "1"
    assert "authorization" not in given


def test_an_address_that_is_over_is_not_asked(
    server: Scripted, client: SmartDataset, dataset: Dataset
) -> None:
    over = datetime.now(UTC) - timedelta(seconds=1)
    where = m.TransferUrl(url=f"{server.url}over", headers=(), expires_at=over)
    server.files[f"data/{HASH}"] = (200, b"0123456789")
    with asked(server, client, dataset, places(where)) as file, client.read(file, 0) as pieces:
        assert b"".join(pieces) == b"0123456789"
    assert server.asked[-1][0] == f"data/{HASH}"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "", "http://", "gopher://x", "http://[::1"]
)
def test_an_address_that_is_none_of_http_is_not_asked(
    server: Scripted, client: SmartDataset, dataset: Dataset, url: str
) -> None:
    where = m.TransferUrl(url=url, headers=())
    with pytest.raises(UnsafeUrlError), asked(server, client, dataset, places(where)):
        pass


@pytest.mark.holds("serving-clients")
@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("https://hub.example.org/d/", "http://hub.example.org/d/data/x"),
        ("https://hub.example.org/d/", "https://127.0.0.1/x"),
        ("http://hub.example.org/d/", "http://169.254.169.254/latest/meta-data"),
        ("http://hub.example.org/d/", "http://10.0.0.1/x"),
        ("http://hub.example.org/d/", "http://[::1]/x"),
        ("http://hub.example.org/d/", "http://localhost/x"),
    ],
)
def test_a_server_elsewhere_sends_nobody_into_this_network(own: str, other: str) -> None:
    client = SmartDataset(own)
    with pytest.raises(UnsafeUrlError):
        client._files.checked(other)
    for fine in (f"{own}data/x", "https://bucket.example.com/x?X-Amz-Signature=1"):
        assert client._files.checked(fine) == fine


# push

ACCEPTED = encode(m.PushAccepted())
PUSHES: dict[str, tuple[Talk, type[OdfBuildError]]] = {
    "another head": (says(encode(m.InvalidHead(None, HASH))), HeadMovedError),
    "another seed": (
        says(ACCEPTED, encode(m.SeedBlockOverwriteRestricted())),
        SeedOverwriteError,
    ),
    "a ref collision": (says(ACCEPTED, ACCEPTED, encode(m.RefCollision("x"))), RefCollisionError),
    "a name collision": (
        says(ACCEPTED, ACCEPTED, encode(m.NameCollision("a/b"))),
        NameCollisionError,
    ),
    "a late name collision": (
        closes(1011, encode(m.NameCollision("a" * 200))[:120]),
        NameCollisionError,
    ),
    "a late lost race": (
        closes(1011, encode(m.TransferFailed(error_message="head-moved"))),
        HeadMovedError,
    ),
    "a late lost race of the reference": (
        closes(1011, encode(m.InvalidHead(HASH, HASH))[:120]),
        HeadMovedError,
    ),
    "silence about a file": (
        says(ACCEPTED, ACCEPTED, encode(m.PushObjects(()))),
        BrokenSourceError,
    ),
    "a progress that is none": (says(ACCEPTED, "5"), MalformedMessageError),
}


@pytest.mark.holds("serving-clients")
@pytest.mark.parametrize(("talk", "error"), PUSHES.values(), ids=PUSHES)
def test_a_push_to_a_hostile_server_ends_with_its_error(
    server: Scripted,
    client: SmartDataset,
    dataset: Dataset,
    talk: Talk,
    error: type[OdfBuildError],
) -> None:
    server.talk = talk
    with pytest.raises(error):
        client.push(update_of(dataset, client), lambda _: None)


def test_a_server_that_is_silent_is_left_in_time(
    server: Scripted, hurried: SmartDataset, dataset: Dataset, here: Workspace
) -> None:
    server.files["refs/head"] = (200, str(dataset.head()).encode())
    server.talk = says()
    with pytest.raises(TransferTimeoutError):
        pulled(hurried, here, "rates")
    assert not here.heads()
    del server.files["refs/head"]
    with pytest.raises(TransferTimeoutError):
        hurried.push(update_of(dataset, hurried), lambda _: None)


def skipping(opened: ServerConnection, *, confirms: int, waits: bool = True) -> None:
    """Follow a push whose files are all there, and confirm it so often."""
    opened.recv(60)
    opened.send(ACCEPTED)
    opened.recv(60)
    opened.send("{}")  # as in 2024
    asked = m.decode(m.PushObjectsRequest, opened.recv(60))
    strategies = tuple(
        m.PushStrategy(object_file=each, push_strategy=m.PushMethod.SKIP)
        for each in asked.object_files
    )
    opened.send(encode(m.PushObjects(strategies)).removeprefix('{"Ok":').removesuffix("}"))
    while not isinstance(m.decode(m.PushProgress, opened.recv(60)).details, m.UploadsComplete):
        pass
    m.decode(m.PushCompleteRequest, opened.recv(60))
    for _ in range(confirms):
        opened.send("{}")
    if waits:
        opened.recv(60)


def test_a_push_to_a_server_of_2024_is_done(
    server: Scripted, client: SmartDataset, dataset: Dataset
) -> None:
    moved: list[int] = []
    update = update_of(dataset, client)

    def talk(opened: ServerConnection) -> None:
        server.files["refs/head"] = (200, str(update.head).encode())
        skipping(opened, confirms=1)

    server.talk = talk
    client.push(update, moved.append)
    assert sum(moved) == sum(each.size for each in update.files)


def test_a_question_that_crosses_the_end_of_the_uploads_is_no_confirmation(
    server: Scripted, client: SmartDataset, dataset: Dataset
) -> None:
    def talk(opened: ServerConnection) -> None:
        skipping(opened, confirms=1, waits=False)
        opened.close(1011, encode(m.TransferFailed(error_message="no disk")))

    server.talk = talk
    with pytest.raises(RemoteFailureError, match="no disk"):
        client.push(update_of(dataset, client), lambda _: None)
    server.talk = lambda opened: skipping(opened, confirms=2)  # it was led on since
    client.push(update_of(dataset, client), lambda _: None)


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "ended"])
def test_a_push_whose_confirmation_is_lost_looks_at_the_head(
    server: Scripted, dataset: Dataset, is_silent: bool
) -> None:
    hasty = TransferPatience(connection=60, message=60, completion=0.5 if is_silent else 60)
    client = SmartDataset(f"odf+{server.url}", patience=hasty)
    update = update_of(dataset, client)

    def talk(opened: ServerConnection) -> None:
        server.files["refs/head"] = (200, str(update.head).encode())
        skipping(opened, confirms=0, waits=is_silent)

    server.talk = talk
    client.push(update, lambda _: None)
    del server.files["refs/head"]
    server.talk = lambda opened: skipping(opened, confirms=0, waits=is_silent)
    with pytest.raises(UncertainHeadError):
        client.push(update, lambda _: None)
    client.close()


def test_a_server_that_takes_no_connection_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = SmartDataset(f"odf+http://127.0.0.1:{port}/rates/", patience=PATIENCE)
    with pytest.raises(UnreachableRepositoryError):
        client.head()
    with pytest.raises(UnreachableRepositoryError):
        list(client.blocks(HASH, None))


def test_a_server_that_accepts_and_says_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        patience = TransferPatience(connection=0.5, message=0.5)
        client = SmartDataset(f"odf+http://127.0.0.1:{port}/rates/", patience=patience)
        with pytest.raises(TransferTimeoutError):
            list(client.blocks(HASH, None))


@contextmanager
def upgrading() -> Iterator[int]:
    """Give the port of a server that accepts a WebSocket, and neither reads nor says more."""
    held: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                line, _ = listening.accept()
                held.append(line)
                asked = line.recv(9_999).decode().split("\r\n")
                key = next(each[19:] for each in asked if each.startswith("Sec-WebSocket-Key: "))
                answer = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                line.sendall(f"{answer}Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1]
    for line in held:
        line.close()


@pytest.mark.parametrize("size", [0, 9 << 20], ids=["a question", "a message of megabytes"])
def test_a_server_that_accepts_a_conversation_and_is_silent_is_left_without_a_word(
    size: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "encode", lambda _: "x" * size or "{}")
    pinging = partial(connect, ping_interval=0.1)
    monkeypatch.setattr("websockets.sync.client.connect", pinging)
    began = time.monotonic()
    with upgrading() as port:
        patience = TransferPatience(connection=20, message=1)
        client = SmartDataset(f"odf+http://127.0.0.1:{port}/rates/", patience=patience)
        with pytest.raises(TransferTimeoutError, match="for 1 seconds"):
            list(client.blocks(HASH, None))
    assert time.monotonic() - began < 20
    assert not caplog.records


def test_a_place_shows_no_credentials() -> None:
    client = SmartDataset("odf+https://user:secret@hub.example.org/a/b", token="odfb_secret")
    assert client.place == "odf+https://hub.example.org/a/b/"
