"""Servers that answer anything: clients end with an error of a name, never with a mistake of ours.

Addresses and headers are drawn from grammars that have what libraries stumble over: ports out of
range, hosts that cannot be looked up, numbers without end, tags that cannot be sent back.  Each
answer meets each question that a client asks, over the simple protocol and the smart one.
"""

import io
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.cli.commands.share import search
from odfbuild.errors import InternalError, OdfBuildError
from odfbuild.host.pace import LEAST_RATE, WINDOW, SlowError, paced
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories import addresses
from odfbuild.repositories.catalogue import entries, find_alias
from odfbuild.repositories.protocol import ObjectFile
from odfbuild.repositories.remotes import open_repository
from odfbuild.repositories.smart.client import SmartDataset, TransferPatience
from odfbuild.repositories.smart.server_files import ServerFiles
from odfbuild.repositories.transports.http import WebServer
from odfbuild.state.remote.errors import UnreachableRepositoryError
from tests.support.effort import examples
from tests.support.servers.babbling import HEADS, babbling
from tests.support.servers.http import Page, serving

HASH = sha3_256(b"x")
FILE = ObjectFile("data", HASH, 10)

HOSTS = st.sampled_from(
    [
        "h.invalid", "a" * 300 + ".com", "a" * 64 + ".invalid", "xn--a", "xn--",
        "xn--bcher-kva.invalid", "b\u00fccher.invalid", "\u0080", "\u2028", "h..invalid", ".h",
        "-", "*", "%zz", "%00", "a b", "", "[", "[::1", "[::1]", "[v1.x]", "[fe80::1%25lo]",
        "::1", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost.", "999.999.999.999",
        "1.2.3.4.5", "user:pass@h.invalid", "@", "h\\x",
    ]
)  # fmt: skip
PORTS = st.sampled_from(
    [
        "", ":", ":0", ":1", ":99999", ":-1", ":x", ":1e3", ":" + "9" * 5000, ":\u0661",
    ]
)  # fmt: skip
SCHEMES = st.sampled_from(
    [
        "http://", "https://", "HTTP://", "http:", "http:/", "//", "ftp://", "file://",
        "javascript:", "", "http:///",
    ]
)  # fmt: skip
PATHS = st.sampled_from(
    [
        "", "/", "/x", "/../..", "/%", "/\u00e4", "?", "?\u00df#", "#", "/" + "y" * 9000,
    ]
)  # fmt: skip
URLS = st.tuples(SCHEMES, HOSTS, PORTS, PATHS).map("".join)
NUMBERS = st.sampled_from(["0", "3", "-1", "9" * 5000, "1e9", "\u0663", "", " ", "0x1", "+3"])
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=20)
HEADERS = st.one_of(
    st.tuples(st.just("Location"), URLS | VALUES),
    st.tuples(st.just("ETag"), VALUES | st.just('"\u00e4"') | st.just('"' + "t" * 9000 + '"')),
    st.tuples(
        st.just("Content-Range"),
        st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda n: f"bytes {n[0]}-{n[1]}/{n[2]}") | VALUES,
    ),
    st.tuples(st.just("Content-Length"), NUMBERS),
    st.tuples(st.just("Transfer-Encoding"), st.sampled_from(["chunked", "gzip", "x", ""])),
    st.tuples(st.just("Content-Encoding"), st.sampled_from(["gzip", "br", "deflate", "x"])),
    st.tuples(st.just("Upgrade"), st.sampled_from(["websocket", "x"])),
    st.tuples(st.just("Sec-WebSocket-Accept"), VALUES),
    st.tuples(VALUES, VALUES),
)
STATUSES = st.sampled_from([101, 200, 204, 206, 301, 302, 307, 304, 401, 404, 416, 500, 999, 42])
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["", "x", "1e9", str(HASH)])
    | st.integers(-(10**400), 10**400),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
FIELDS = ("id", "alias", "kind", "head", "sequenceNumber", "records", "size", "time")
GOOD = {
    "id": str(DatasetId(HASH.digest)), "alias": "x", "kind": "root", "head": str(HASH),
    "sequenceNumber": 1, "records": 1, "size": 1, "time": "2024-01-01T00:00:00Z",
}  # fmt: skip
ENTRIES = st.dictionaries(st.sampled_from(FIELDS), _JSON, max_size=2).map(lambda each: GOOD | each)


def _index(listed: list[dict[str, Any]]) -> bytes:
    import json

    return json.dumps({"version": 1, "datasets": listed, "isMultiTenant": True}).encode()


BODIES = st.one_of(
    st.binary(max_size=100),
    st.just(str(HASH).encode()),
    st.lists(ENTRIES, max_size=2).map(_index),
    st.sampled_from([b"[" * 100_000, b'{"datasetName": 1, "owner": []}', b"\x1f\x8b\x08\x00"]),
)


def _answer(
    parts: tuple[int, list[tuple[str, str]], bytes, bool],
) -> bytes:
    """Return the bytes of an answer; some have a length that is right."""
    status, headers, body, honest = parts
    if honest:
        headers = [("Content-Length", str(len(body))), *headers]
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + body


ANSWERS = st.tuples(STATUSES, st.lists(HEADERS, max_size=3), BODIES, st.booleans()).map(_answer)


class RawServer:
    """Answers every request with the same bytes."""

    def __init__(self) -> None:
        self.answer = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(2)
                asked = b""
                while b"\r\n\r\n" not in asked and (piece := connection.recv(1 << 16)):
                    asked += piece
                connection.sendall(self.answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    found = RawServer()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look up what is on this machine only, as the library does that encodes names before."""
    usual = socket.getaddrinfo

    def lookup(host: Any, *more: Any, **options: Any) -> Any:
        name = host.encode("idna") if isinstance(host, str) else host
        if name not in (b"127.0.0.1", b"localhost", b"::1"):
            raise socket.gaierror(-2, "Name or service not known")
        return usual(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


def questions(url: str) -> Iterator[Callable[[], object]]:
    """Yield all that is asked of a repository at a URL and of a dataset in it."""
    repository = open_repository(RepositorySettings(name="srv", url=url))
    dataset = repository.dataset(DatasetAlias.parse("acme/x"))
    with ExitStack() as opened:
        if isinstance(dataset, SmartDataset):
            dataset.close()
            dataset = SmartDataset(dataset.url, patience=TransferPatience(connection=2, message=2))
        opened.callback(getattr(dataset, "close", lambda: None))
        yield lambda: entries(repository)
        yield lambda: find_alias(repository, DatasetId(HASH.digest))
        yield dataset.head
        yield dataset.head
        yield lambda: list(itertools.islice(dataset.blocks(HASH, None), 3))
        yield lambda: dataset.attestation(HASH)
        for start in (0, 3):
            yield lambda start=start: _read(dataset, start)  # type: ignore[misc]


def _read(dataset: Any, start: int) -> None:
    with dataset.read(FILE, start) as pieces:
        for _ in itertools.islice(pieces, 100):
            pass


@contextmanager
def ends_by_name() -> Iterator[None]:
    """Let a question be answered, or refused with an error of its own name."""
    try:
        yield
    except OdfBuildError as error:
        assert not isinstance(error, InternalError)
        assert len(error.what) < 20_000


QUICK = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.holds("serving-clients")
@pytest.mark.parametrize("scheme", ["", "odf+"])
@settings(QUICK, max_examples=examples(25, 1_000))
@given(answer=ANSWERS)
def test_whatever_a_server_answers_has_an_error_of_a_name(
    server: RawServer, scheme: str, answer: bytes
) -> None:
    server.answer = answer
    with redirect_stderr(io.StringIO()):
        for ask in questions(f"{scheme}{server.url}"):
            with ends_by_name():
                ask()


@pytest.mark.holds("serving-clients")
@settings(QUICK, max_examples=examples(25, 1_000))
@given(target=URLS)
def test_wherever_a_redirect_leads_has_an_error_of_a_name(server: RawServer, target: str) -> None:
    server.answer = f"HTTP/1.1 302 X\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
    for ask in itertools.islice(questions(server.url), 2, 3):
        with ends_by_name():
            ask()


@settings(QUICK, max_examples=40)
@given(url=URLS, scheme=st.sampled_from(["", "odf+"]))
def test_an_address_of_a_user_that_is_none_has_an_error_of_a_name(url: str, scheme: str) -> None:
    with ends_by_name():
        for ask in questions(f"{scheme}http{url.removeprefix('http')}/"):
            with ends_by_name():
                ask()


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(url=URLS)
def test_what_is_an_address_can_be_asked(url: str) -> None:
    """An oracle that reads it otherwise: the library that asks."""
    import httpx

    if addresses.parsed(url) is not None:
        found = httpx.URL(url)
        assert found.scheme in ("http", "https")
        assert found.host
        assert found.port is None or 0 < found.port < 65536
        found.host.encode("idna")


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True), ("127.1", True), ("0x7f.1", True), ("2130706433", True), ("::1", True),
        ("localhost", True), ("LOCALHOST.", True), ("x.localhost", True), ("10.0.0.1", True),
        ("169.254.169.254", True), ("::ffff:10.0.0.1", True), ("0", True), ("fe80::1", True),
        ("8.8.8.8", False), ("example.com", False), ("2606:4700::1111", False),
        ("localhost.com", False),
    ],
)  # fmt: skip
def test_what_is_inside_of_a_network_is_found_in_every_spelling(host: str, inside: bool) -> None:
    assert addresses.is_inside(host) is inside


@pytest.mark.holds("serving-clients")
@settings(QUICK, max_examples=examples(60, 2_000))
@given(listed=st.lists(ENTRIES, max_size=2))
def test_what_an_index_says_can_be_shown_or_is_left_out(
    listed: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    class Indexed:
        place = "https://h.invalid/"

        def names(self) -> list[DatasetAlias]:
            return [DatasetAlias.parse("x")]

        def get(self, path: str, most: int) -> bytes | None:
            return _index(listed)

        def put(self, path: str, data: bytes) -> None:
            raise AssertionError

        def dataset(self, alias: DatasetAlias) -> Any:
            raise AssertionError

    found = [("srv", each) for each in entries(Indexed())]
    for output in ("table", "json"):
        search._print(found, output)
    assert "srv/x" in capsys.readouterr().out


# pace


@given(sizes=st.lists(st.integers(1, 4096), min_size=1, max_size=400), pause=st.floats(0.1, 59))
def test_who_sends_less_than_the_least_rate_is_not_waited_for(
    sizes: list[int], pause: float
) -> None:
    now = itertools.count()
    clock = lambda: (next(now) + 1) // 2 * pause  # noqa: E731
    taken: list[bytes] = []
    slow = False
    try:
        taken.extend(paced((bytes(each) for each in sizes), clock))
    except SlowError:
        slow = True
    waited = (len(taken) + slow) * pause
    if waited > 2 * WINDOW and max(sizes) < LEAST_RATE * pause / 2:
        assert slow
    if min(sizes) >= LEAST_RATE * pause * 2:
        assert not slow
    if not slow:
        assert b"".join(taken) == bytes(sum(sizes))


GIVEN_UP = "did not begin in 1 seconds|too long|too many|exceed"
BEGINNINGS = {name: HEADS[name] for name in ("heads", "headers", "a header")}
"""Answers that never begin; in others a limit of the library ends what has no end."""


@pytest.mark.holds("server-bounds")
@pytest.mark.parametrize("is_slow", [False, True], ids=["at once", "piece by piece"])
@pytest.mark.parametrize(("first", "block"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_an_answer_that_never_begins_is_given_up(first: bytes, block: bytes, is_slow: bool) -> None:
    pause = 0.05 if is_slow else 0.0
    with babbling([first], block[:20] if is_slow else block, pause) as port:
        url = f"http://127.0.0.1:{port}/"
        web, smart = WebServer(url, patience=1), ServerFiles(url, None, patience=1)
        with pytest.raises(UnreachableRepositoryError, match=GIVEN_UP), web.answer(url, {}):
            pass
        with pytest.raises(UnreachableRepositoryError, match=GIVEN_UP):
            smart.text("refs/head")
        with pytest.raises(UnreachableRepositoryError, match=GIVEN_UP):
            smart.put("refs/head", b"x")


def test_a_server_can_be_asked_while_connections_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close, said = httpx.Client.close, list[str | None]()

    def closing(client: httpx.Client) -> None:
        close(client)
        if not said:  # the thread that gave up is here when another request is made
            said.append(files.text("refs/head"))

    with serving() as server:
        server.put("/refs/head", Page(body=b"f1620"))
        files = ServerFiles(f"{server.url}/", None)
        assert files.text("refs/head") == "f1620"
        monkeypatch.setattr(httpx.Client, "close", closing)
        files.close()
    assert said == ["f1620"]


ENDLESS = {name: HEADS[name] for name in ("a size", "a trailer")}
"""Bodies that go on without a piece; by a limit of the library, of bytes, they would last hours."""


@pytest.mark.holds("server-bounds")
@pytest.mark.parametrize(("first", "block"), ENDLESS.values(), ids=ENDLESS)
def test_a_body_that_comes_without_a_piece_is_given_up(first: bytes, block: bytes) -> None:
    with babbling([first], block[:6], 0.05) as port:
        url = f"http://127.0.0.1:{port}/"
        web, smart = WebServer(url, patience=1), ServerFiles(url, None, patience=1)
        with (
            pytest.raises(
                UnreachableRepositoryError, match="no piece of its answer arrived in 1 sec"
            ),
            web.answer(url, {}) as answer,
        ):
            answer.read()
        with pytest.raises(
            UnreachableRepositoryError, match="no piece of its answer arrived in 1 s"
        ):
            smart.text("refs/head")
